// UDP sockets, many packets a call.
#include <linux/sock_diag.h>
#include <linux/udp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "sources.h"

namespace ryle {
namespace {

constexpr int kMessages = 16;  // of one call; what they hold should stay in the core's own cache until it is placed,
constexpr int kTrains = 4;     // so that of trains, 64 KiB each, fewer are fetched
constexpr int kTurns = 4;      // calls for a busy socket between two looks at which have packets
constexpr int kPatience = 20;  // ms of waiting, after which the thread looks whether it is to stop
constexpr int kBookkeeping = 256;  // bytes that a message takes of a socket's room besides its own, at least

// Being woken for a packet costs more than the packet: a thread rests until two calls' worth has come, but not longer
// than this, nor than 25 Gb/s need to fill a quarter of a socket's buffer.
constexpr std::chrono::nanoseconds kRest{500'000};
constexpr int kBytesEachNs = 3;

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

class UdpWorker : public Worker {
  public:
    UdpWorker(std::string name, const std::vector<UdpSocket>& sockets, bool gro, std::uint32_t largest, Sink& sink)
        : Worker(std::move(name)),
          sink_(sink),
          batch_(gro ? kTrains : kMessages),
          // Not a power of two apart, so that the starts of all buffers do not compete for the same cache lines.
          stride_((gro ? 65536 + 4096 : (largest + 1 + 63) / 64 * 64) + 192),
          room_(gro ? 65536 : largest + 1),
          buffers_(stride_ * batch_) {
        for (const UdpSocket& socket : sockets) {
            const int descriptor = dup(socket.descriptor);
            if (descriptor < 0) fail("cannot use a socket");
            epoll_event wanted{};
            wanted.events = EPOLLIN;
            wanted.data.u64 = sockets_.size();
            const int on = 1;
            if (gro) setsockopt(descriptor, IPPROTO_UDP, UDP_GRO, &on, sizeof on);  // before Linux 5.0 single packets
            setsockopt(descriptor, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
            int room = 0;
            socklen_t size = sizeof room;
            getsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &room, &size);
            sockets_.push_back({descriptor, socket.port, 0, std::max(0, room)});
            longest_rest_ = std::min(longest_rest_, std::chrono::nanoseconds(room / 4 / kBytesEachNs));
            if (epoll_ctl(waiting_.descriptor, EPOLL_CTL_ADD, descriptor, &wanted) < 0)
                fail("cannot wait for a socket");
        }
        for (int i = 0; i < batch_; ++i) {
            pieces_[i] = {buffers_.data() + i * stride_, room_};
            messages_[i].msg_hdr.msg_iov = &pieces_[i];
            messages_[i].msg_hdr.msg_iovlen = 1;
        }
    }
    ~UdpWorker() override { close_all(); }

    // The sockets were made with a filter that lets nothing in; the kernel counts what it keeps out as drops.
    void open() override {
        const int nothing = 0;
        {
            const std::lock_guard lock(mutex_);  // the thread may be ending, which closes them
            for (const Socket& socket : sockets_)
                setsockopt(socket.descriptor, SOL_SOCKET, SO_DETACH_FILTER, &nothing, sizeof nothing);  // if it has one
        }
        kernel_drops();
        const std::lock_guard lock(mutex_);
        discarded_ = std::exchange(drops_, 0);
    }

    std::int64_t discarded() override { return discarded_.load(std::memory_order_relaxed); }

    void run() override {
        prctl(PR_SET_TIMERSLACK, 1000);     // ns that a rest may last longer; the default is 50 us
        std::array<epoll_event, 64> ready;  // where more are, those that were left out come first next time
        while (!stopping()) {
            const int n = epoll_wait(waiting_.descriptor, ready.data(), ready.size(), kPatience);
            if (n < 0 && errno != EINTR) fail("cannot wait for packets");
            if (n == 0) sink_.idle(unix_now());
            auto* end = ready.data() + std::max(n, 0);
            for (int turn = 0; turn < kTurns && end != ready.data(); ++turn)
                end = std::remove_if(ready.data(), end, [&](const auto& e) { return !drain(sockets_[e.data.u64]); });
            if (end == ready.data()) rest();
        }
        // What came before the end was told is still taken, however busy the core is; a sender that goes on does not
        // keep the end from coming: no more than a socket holds.
        for (const Socket& socket : sockets_)
            for (bytes_ = 0; bytes_ < socket.room && drain(socket);) continue;
        kernel_drops();
        close_all();  // so that the ports are free for whoever comes next, however long this object lives
    }

    // The count that SO_RXQ_OVFL sends along with packets, read without waiting for the next packet. A train
    // counts once.
    std::int64_t kernel_drops() override {
        const std::lock_guard lock(mutex_);
        for (Socket& socket : sockets_) {
            std::array<std::uint32_t, SK_MEMINFO_VARS> info{};
            socklen_t size = sizeof info;
            if (getsockopt(socket.descriptor, SOL_SOCKET, SO_MEMINFO, info.data(), &size) < 0) return -1;
            drops_ += info[SK_MEMINFO_DROPS] - socket.last_drops;  // modulo 2^32
            socket.last_drops = info[SK_MEMINFO_DROPS];
        }
        return drops_;
    }

  private:
    void close_all() {
        const std::lock_guard lock(mutex_);
        for (const Socket& socket : sockets_) close(socket.descriptor);
        sockets_.clear();
    }

    struct Socket {
        int descriptor;
        std::uint32_t port, last_drops;
        std::int64_t room;  // bytes
    };
    struct Epoll {
        int descriptor = epoll_create1(EPOLL_CLOEXEC);
        Epoll() {
            if (descriptor < 0) fail("cannot wait for sockets");
        }
        ~Epoll() { close(descriptor); }
    };

    // Sleep while messages gather, if they come so often that at least two do.
    void rest() {
        const auto now = std::chrono::steady_clock::now();
        const auto apart = (now - looked_) / std::max(1, std::exchange(fetched_, 0));
        looked_ = now;
        if (2 * apart <= longest_rest_) std::this_thread::sleep_for(std::min(2 * batch_ * apart, longest_rest_));
    }

    // Read once; whether as much came as was asked for, so that there may be more.
    bool drain(const Socket& socket) {
        for (int i = 0; i < batch_; ++i) {
            messages_[i].msg_hdr.msg_control = controls_[i].data();
            messages_[i].msg_hdr.msg_controllen = controls_[i].size();
            messages_[i].msg_hdr.msg_name = senders_ ? &names_[i] : nullptr;
            messages_[i].msg_hdr.msg_namelen = senders_ ? sizeof names_[i] : 0;
        }
        const int n = recvmmsg(socket.descriptor, messages_.data(), batch_, MSG_DONTWAIT, nullptr);
        if (n < 0) {
            if (errno == EAGAIN || errno == EINTR || errno == ECONNREFUSED) return false;
            fail("cannot receive");
        }
        fetched_ += n;
        std::size_t count = 0;
        std::int64_t now = 0;
        for (int i = 0; i < n; ++i) {
            const auto* data = static_cast<const std::uint8_t*>(pieces_[i].iov_base);
            const std::uint32_t bytes = messages_[i].msg_len;
            bytes_ += bytes + kBookkeeping;
            auto [part, arrived] = noted(messages_[i].msg_hdr);
            const std::uint64_t sender = senders_ ? key_of(names_[i]) : 0;
            if (part == 0 || part > bytes) part = bytes;
            if (arrived == 0) arrived = now != 0 ? now : now = unix_now();
            std::uint32_t at = 0;
            do {  // an empty datagram is a packet too
                if (count == arrivals_.size()) {
                    hand_over(sink_, arrivals_);
                    count = 0;
                }
                arrivals_[count++] = {data + at, std::min(part, bytes - at), socket.port, nullptr, nullptr, arrived,
                                      sender};
                at += part;
            } while (at < bytes);
        }
        if (count != 0) hand_over(sink_, {arrivals_.data(), count});
        if (++calls_ % 4096 == 0) kernel_drops();  // before the kernel's 32 bits come round
        return n == batch_;
    }

    std::uint64_t key_of(const sockaddr_storage& name) const {
        if (name.ss_family == AF_INET) {
            const auto& a = reinterpret_cast<const sockaddr_in&>(name);
            return senders_->key(reinterpret_cast<const std::uint8_t*>(&a.sin_addr), 4, ntohs(a.sin_port));
        }
        const auto& a = reinterpret_cast<const sockaddr_in6&>(name);
        return name.ss_family == AF_INET6 ? senders_->key(a.sin6_addr.s6_addr, 16, ntohs(a.sin6_port)) : 0;
    }

    // What the kernel noted beside a message: bytes of each packet of a train, and its arrival; 0 if it did not.
    static std::pair<std::uint32_t, std::int64_t> noted(msghdr& message) {
        std::uint32_t part = 0;
        std::int64_t arrived = 0;
        for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
            if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
                int size = 0;
                std::memcpy(&size, CMSG_DATA(c), sizeof size);
                part = static_cast<std::uint32_t>(size);
            } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
                timespec t{};
                std::memcpy(&t, CMSG_DATA(c), sizeof t);
                arrived = t.tv_sec * 1'000'000'000LL + t.tv_nsec;
            }
        }
        return {part, arrived};
    }

    Sink& sink_;
    int batch_;
    std::size_t stride_, room_;
    std::vector<std::uint8_t> buffers_;
    Epoll waiting_;
    std::vector<Socket> sockets_;
    std::array<iovec, kMessages> pieces_{};
    std::array<mmsghdr, kMessages> messages_{};
    std::array<std::array<std::uint8_t, 64>, kMessages> controls_{};
    std::array<sockaddr_storage, kMessages> names_{};
    const Senders* const senders_ = sink_.senders();
    std::array<Arrival, 256> arrivals_{};
    std::uint64_t calls_ = 0;
    std::chrono::nanoseconds longest_rest_{kRest};
    std::chrono::steady_clock::time_point looked_{};  // when the sockets were last found empty,
    int fetched_ = 0;                                 // and messages since
    std::int64_t bytes_ = 0;                          // read at the end
    std::mutex mutex_;
    std::int64_t drops_ = 0;
    std::atomic<std::int64_t> discarded_{0};
};

}  // namespace

std::unique_ptr<Worker> udp_worker(std::string name, const std::vector<UdpSocket>& sockets, bool gro,
                                   std::uint32_t largest, Sink& sink) {
    return std::make_unique<UdpWorker>(std::move(name), sockets, gro, largest, sink);
}

}  // namespace ryle
