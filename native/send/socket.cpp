#include "socket.h"

#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <stdexcept>
#include <system_error>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

namespace ryle {
namespace {

constexpr std::size_t kMostSegments = 64;       // UDP_MAX_SEGMENTS of kernels before 6.9
constexpr std::size_t kMostMessage = 65487;     // bytes of a UDP datagram over IPv6 without jumbograms
constexpr std::size_t kBatchBytes = 512 << 10;  // what a push holds: stays in a core's cache
constexpr std::size_t kMostBatch = 1024;

std::system_error failed(int error, const std::string& what) {
    return std::system_error(error, std::generic_category(), what);
}

std::string name(const std::string& host, std::uint16_t port) {
    return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}

socklen_t parse(const std::string& host, std::uint16_t port, sockaddr_storage& out) {
    out = {};
    auto* four = reinterpret_cast<sockaddr_in*>(&out);
    auto* six = reinterpret_cast<sockaddr_in6*>(&out);
    const std::size_t zone = host.find('%');
    if (inet_pton(AF_INET, host.c_str(), &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        return sizeof *four;
    }
    if (inet_pton(AF_INET6, host.substr(0, zone).c_str(), &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(port);
        if (zone != std::string::npos) six->sin6_scope_id = if_nametoindex(host.c_str() + zone + 1);
        return sizeof *six;
    }
    throw std::invalid_argument(host + " is no IP address");
}

bool multicast(const sockaddr_storage& to) {
    if (to.ss_family == AF_INET) return IN_MULTICAST(ntohl(reinterpret_cast<const sockaddr_in&>(to).sin_addr.s_addr));
    return IN6_IS_ADDR_MULTICAST(&reinterpret_cast<const sockaddr_in6&>(to).sin6_addr);
}

// Best effort: what the kernel refuses shows elsewhere, in its own words, when packets are sent.
template <typename T>
bool set(int socket, int level, int option, const T& value) {
    return setsockopt(socket, level, option, &value, sizeof value) == 0;
}

}  // namespace

// Room for the messages of a push, made once.
struct SocketPort::Work {
    explicit Work(std::size_t packets) : messages(packets), parts(packets), controls(packets), first(packets) {}
    struct alignas(cmsghdr) Control {
        char bytes[CMSG_SPACE(sizeof(std::uint16_t)) + CMSG_SPACE(sizeof(std::uint64_t))];
    };
    std::vector<mmsghdr> messages;
    std::vector<iovec> parts;
    std::vector<Control> controls;
    std::vector<std::size_t> first;  // packet of each message
};

SocketPort::SocketPort(std::vector<Route> routes, const SocketOptions& options)
    : routes_(std::move(routes)), options_(options) {
    if (routes_.empty() || options_.most_bytes < 1) throw std::invalid_argument("a port needs routes and room");
    std::map<std::pair<std::string, std::uint16_t>, int> known;
    try {
        for (const Route& route : routes_) {
            sockaddr_storage to{}, from{};
            if (route.to.empty()) {  // another port's stream
                to_.push_back(to);
                to_bytes_.push_back(0);
                socket_of_.push_back(-1);
                continue;
            }
            to_bytes_.push_back(parse(route.to, route.to_port, to));
            to_.push_back(to);
            const std::string any = to.ss_family == AF_INET ? "0.0.0.0" : "::";
            const std::string host = route.from.empty() ? any : route.from;
            const socklen_t from_bytes = parse(host, route.from_port, from);
            if (from.ss_family != to.ss_family)
                throw std::invalid_argument("from " + host + " to " + route.to + ": both must be IPv4 or both IPv6");
            auto& socket = known.try_emplace({host, route.from_port}, -1).first->second;
            if (socket < 0) {
                socket = ::socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
                if (socket < 0) throw failed(errno, "cannot open a UDP socket");
                sockets_.push_back(socket);
                const bool six = to.ss_family == AF_INET6;
                set(socket, SOL_SOCKET, SO_REUSEPORT, 1);  // threads share a source port
                set(socket, SOL_SOCKET, SO_SNDTIMEO, timeval{0, 200'000});
                if (!set(socket, SOL_SOCKET, SO_SNDBUFFORCE, static_cast<int>(options_.buffer)))
                    set(socket, SOL_SOCKET, SO_SNDBUF, static_cast<int>(options_.buffer));
                // A packet that does not fit the way is an error, never fragments; a full queue is told, not hidden.
                set(socket, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER,
                    six ? IPV6_PMTUDISC_DO : IP_PMTUDISC_DO);
                set(socket, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_RECVERR : IP_RECVERR, 1);
                if (bind(socket, reinterpret_cast<sockaddr*>(&from), from_bytes) != 0)
                    throw failed(errno, "cannot send from " + name(host, route.from_port) +
                                            ": is it one of this host's addresses ('ip addr'), and is the port free?");
                if (options_.departure) {
                    sock_txtime how{};
                    how.clockid = CLOCK_MONOTONIC;
                    if (!set(socket, SOL_SOCKET, SO_TXTIME, how))
                        throw failed(errno, "the kernel takes no departure times (SO_TXTIME); leave them out");
                }
            }
            if (multicast(to)) {
                if (to.ss_family == AF_INET) {
                    set(socket, IPPROTO_IP, IP_MULTICAST_TTL, static_cast<int>(options_.ttl));
                    if (!route.from.empty())
                        set(socket, IPPROTO_IP, IP_MULTICAST_IF, reinterpret_cast<sockaddr_in&>(from).sin_addr);
                } else {
                    const auto scope = reinterpret_cast<sockaddr_in6&>(to).sin6_scope_id;  // ff15::1%eth1
                    set(socket, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, static_cast<int>(options_.ttl));
                    if (scope) set(socket, IPPROTO_IPV6, IPV6_MULTICAST_IF, static_cast<int>(scope));
                }
            }
            socket_of_.push_back(socket);
        }
        connect_single();
        const std::size_t room = std::clamp(kBatchBytes / options_.most_bytes, std::size_t{16}, kMostBatch);
        const std::size_t packets = std::clamp(std::size_t{options_.burst}, room, kMostBatch);
        memory_bytes_ = packets * options_.most_bytes;
        void* memory = mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw failed(errno, "no memory for packets");
        memory_ = static_cast<std::uint8_t*>(memory);
        // One behind the other without gaps: a run of equal packets is one piece of memory.
        for (std::size_t p = 0; p < packets; ++p) buffers_.push_back(memory_ + p * options_.most_bytes);
        work_ = std::make_unique<Work>(packets);
    } catch (...) {
        for (const int socket : sockets_) close(socket);
        throw;
    }
}

// A socket with one destination is told so, once: the kernel then looks for the way once, not for each message.
void SocketPort::connect_single() {
    for (const int socket : sockets_) {
        std::vector<std::size_t> streams;
        for (std::size_t s = 0; s < socket_of_.size(); ++s)
            if (socket_of_[s] == socket) streams.push_back(s);
        const auto same = [&](std::size_t s) { return std::memcmp(&to_[s], &to_[streams.front()], to_bytes_[s]) == 0; };
        if (!std::all_of(streams.begin(), streams.end(), same)) continue;
        const std::size_t first = streams.front();
        if (connect(socket, reinterpret_cast<const sockaddr*>(&to_[first]), to_bytes_[first]) != 0)
            explain(socket, errno, {0, static_cast<std::uint32_t>(first), 0});
        for (const std::size_t s : streams) to_bytes_[s] = 0;
    }
}

SocketPort::~SocketPort() {
    for (const int socket : sockets_) close(socket);
    if (memory_) munmap(memory_, memory_bytes_);
}

void SocketPort::push(std::span<const Made> made, std::int64_t start) {
    for (std::size_t first = 0; first < made.size();) {
        const int socket = socket_of_[made[first].stream];
        std::size_t end = first + 1;
        while (end < made.size() && socket_of_[made[end].stream] == socket) ++end;
        send(socket, made.subspan(first, end - first), first, start);
        first = end;
    }
}

// `made` stand in the buffers from `first` on and leave through one socket.
void SocketPort::send(int socket, std::span<const Made> made, std::size_t first, std::int64_t start) {
    Work& w = *work_;
    std::size_t messages = 0, parts = 0;
    for (std::size_t p = 0; p < made.size(); ++messages) {
        const Made& head = made[p];
        mmsghdr& message = w.messages[messages];
        message = {};
        msghdr& m = message.msg_hdr;
        m.msg_name = to_bytes_[head.stream] ? &to_[head.stream] : nullptr;  // of a connected socket, none
        m.msg_namelen = to_bytes_[head.stream];
        m.msg_iov = &w.parts[parts];
        w.first[messages] = p;
        std::size_t bytes = 0, segments = 0;
        do {  // a run of packets of one stream and size; the last may be shorter
            std::uint8_t* const data = buffers_[first + p];
            iovec* const last = m.msg_iovlen ? m.msg_iov + m.msg_iovlen - 1 : nullptr;
            if (last && static_cast<std::uint8_t*>(last->iov_base) + last->iov_len == data)
                last->iov_len += made[p].bytes;
            else {
                w.parts[parts++] = {data, made[p].bytes};
                ++m.msg_iovlen;
            }
            bytes += made[p].bytes;
            ++segments;
            ++p;
        } while (options_.segment && p < made.size() && made[p].stream == head.stream &&
                 made[p - 1].bytes == head.bytes && made[p].bytes <= head.bytes && segments < kMostSegments &&
                 bytes + made[p].bytes <= kMostMessage && (!options_.departure || made[p].due == head.due));
        char* const control = w.controls[messages].bytes;
        std::size_t used = 0;
        const auto add = [&](int level, int type, const void* value, std::size_t n) {
            auto* c = reinterpret_cast<cmsghdr*>(control + used);
            c->cmsg_level = level;
            c->cmsg_type = type;
            c->cmsg_len = CMSG_LEN(n);
            std::memcpy(CMSG_DATA(c), value, n);
            used += CMSG_SPACE(n);
        };
        if (segments > 1) {
            const std::uint16_t size = static_cast<std::uint16_t>(head.bytes);
            add(IPPROTO_UDP, UDP_SEGMENT, &size, sizeof size);
        }
        if (options_.departure) {
            const std::uint64_t when = static_cast<std::uint64_t>(start + head.due);
            add(SOL_SOCKET, SCM_TXTIME, &when, sizeof when);
        }
        m.msg_control = used ? control : nullptr;
        m.msg_controllen = used;
    }
    for (std::size_t sent = 0; sent < messages;) {
        counts.calls.add();
        const int done = sendmmsg(socket, &w.messages[sent], static_cast<unsigned>(messages - sent), 0);
        if (done > 0) {
            full_since_ = 0;
            const std::size_t next = sent + static_cast<std::size_t>(done);
            const std::size_t from = w.first[sent], to = next < messages ? w.first[next] : made.size();
            for (std::size_t p = from; p < to; ++p) counts.bytes.add(made[p].bytes);
            counts.packets.add(static_cast<std::int64_t>(to - from));
            sent = next;
            continue;
        }
        const int error = errno;
        const std::size_t from = w.first[sent];
        const bool several = (sent + 1 < messages ? w.first[sent + 1] : made.size()) > from + 1;
        if (several && (error == EIO || error == EINVAL || error == EMSGSIZE || error == EOPNOTSUPP)) {
            options_.segment = false;  // the way out cannot cut packets: do without
            return send(socket, made.subspan(from), first + from, start);
        }
        explain(socket, error, made[from]);
    }
}

// Wait, drain, or throw: what the kernel's answer asks for.
void SocketPort::explain(int socket, int error, const Made& packet) {
    const Route& route = routes_[packet.stream];
    const std::string to = name(route.to, route.to_port);
    switch (error) {
        case EINTR:
            return;
        case EAGAIN:
        case ENOBUFS: {  // the queue of the interface is full: it empties at its own pace
            counts.full.add();
            const timespec pause{0, 20'000};
            clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
            timespec t;
            clock_gettime(CLOCK_MONOTONIC, &t);
            if (full_since_ == 0) full_since_ = t.tv_sec;
            const bool asked = stop && stop->load(std::memory_order_relaxed);
            if (t.tv_sec - full_since_ > (asked ? 1 : 10))
                throw failed(ETIMEDOUT, "the way to " + to + " has taken nothing for " + (asked ? "1 s" : "10 s") +
                                            ": is the link up ('ip link')?");
            return;
        }
        case EMSGSIZE: {
            const std::size_t most = to_[packet.stream].ss_family == AF_INET ? 28 : 48;
            throw failed(error, "packets of " + std::to_string(packet.bytes) + " B to " + to +
                                    " do not fit the way: raise the MTU of the interface to " +
                                    std::to_string(packet.bytes + most) + " or more ('ip link set dev NAME mtu " +
                                    std::to_string(std::max<std::size_t>(9000, packet.bytes + most)) +
                                    "'; switches too), or send smaller packets (--size)");
        }
        case EPERM:
            throw failed(error, "a firewall of this host refuses packets to " + to + ": see 'nft list ruleset'");
        case EACCES:
            throw failed(error,
                         to + " is a broadcast address or forbidden by a route: see 'ip route get " + route.to + "'");
        case ENETUNREACH:
        case EADDRNOTAVAIL:
            throw failed(error, "no way to " + to + ": see 'ip route get " + route.to + "'; is the interface up?");
        case EINVAL:
            throw failed(error, "the kernel does not send from " + (route.from.empty() ? "here" : route.from) + " to " +
                                    to + ": does the source address belong to that network?");
        case ECONNREFUSED:
        case EHOSTUNREACH:
        case ECONNRESET:
        case EHOSTDOWN:
        case ENOPROTOOPT:
            break;
        default:
            throw failed(error, "cannot send to " + to);
    }
    // An answer from the other end, perhaps to an earlier packet: nobody receives there now. Packets go on.
    counts.unreachable.add();
    char bytes[512], control[512];
    for (;;) {
        iovec part{bytes, sizeof bytes};
        msghdr m{};
        m.msg_iov = &part;
        m.msg_iovlen = 1;
        m.msg_control = control;
        m.msg_controllen = sizeof control;
        if (recvmsg(socket, &m, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
        for (cmsghdr* c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
            const bool about = (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) ||
                               (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR);
            if (!about) continue;
            sock_extended_err told;
            std::memcpy(&told, CMSG_DATA(c), sizeof told);
            if (told.ee_errno == EMSGSIZE) return explain(socket, EMSGSIZE, packet);
        }
    }
}

void SocketPort::flush() {
    // Until the kernel has passed on what it holds, or two seconds: a link that is down never does.
    for (const int socket : sockets_)
        for (int tries = 0; tries < 2000; ++tries) {
            int held = 0;
            if (ioctl(socket, TIOCOUTQ, &held) != 0 || held == 0) break;
            const timespec pause{0, 1'000'000};
            clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
        }
}

}  // namespace ryle
