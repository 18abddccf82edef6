#include "local_queue.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace ryle {
namespace {

const sockaddr_in& four(const sockaddr_storage& a) { return reinterpret_cast<const sockaddr_in&>(a); }
const sockaddr_in6& six(const sockaddr_storage& a) { return reinterpret_cast<const sockaddr_in6&>(a); }

// 32-bit words of the address in host order, in hexadecimal, then the port.
std::string kernel_name(const sockaddr_storage& a) {
    const bool is_six = a.ss_family == AF_INET6;
    std::uint32_t words[4];
    if (is_six)
        std::memcpy(words, &six(a).sin6_addr, 16);
    else
        std::memcpy(words, &four(a).sin_addr, 4);
    std::string name;
    char text[16];
    for (int i = 0; i < (is_six ? 4 : 1); ++i) {
        std::snprintf(text, sizeof text, "%08X", words[i]);
        name += text;
    }
    std::snprintf(text, sizeof text, ":%04X", ntohs(is_six ? six(a).sin6_port : four(a).sin_port));
    return name + text;
}

}  // namespace

LocalQueues::LocalQueues(const std::vector<sockaddr_storage>& endpoints) {
    for (const sockaddr_storage& a : endpoints) {
        const bool is_six = a.ss_family == AF_INET6;
        const bool group =
            is_six ? IN6_IS_ADDR_MULTICAST(&six(a).sin6_addr) : IN_MULTICAST(ntohl(four(a).sin_addr.s_addr));
        endpoints_.push_back({a, group, is_six, kernel_name(a)});
    }
    netlink_ = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (netlink_ >= 0 && !answers()) {
        close(netlink_);
        netlink_ = -1;
    }
}

LocalQueues::~LocalQueues() {
    if (netlink_ >= 0) close(netlink_);
}

// Whether the kernel finds a socket that is there.
bool LocalQueues::answers() const {
    const int own = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (own < 0) return false;
    sockaddr_storage at{};
    auto& in = reinterpret_cast<sockaddr_in&>(at);
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof in;
    const bool found = bind(own, reinterpret_cast<sockaddr*>(&in), bytes) == 0 &&
                       getsockname(own, reinterpret_cast<sockaddr*>(&in), &bytes) == 0 && ask(at) >= 0;
    close(own);
    return found;
}

std::int64_t LocalQueues::ask(const sockaddr_storage& to) const {
    struct {
        nlmsghdr head;
        inet_diag_req_v2 body;
    } request{};
    request.head.nlmsg_len = sizeof request;
    request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    request.head.nlmsg_flags = NLM_F_REQUEST;
    request.body.sdiag_family = static_cast<std::uint8_t>(to.ss_family);
    request.body.sdiag_protocol = IPPROTO_UDP;
    request.body.idiag_states = ~0u;
    // Who would get a packet from anywhere to this address: for UDP the kernel takes source and destination so.
    if (to.ss_family == AF_INET6) {
        request.body.id.idiag_dport = six(to).sin6_port;
        std::memcpy(request.body.id.idiag_dst, &six(to).sin6_addr, 16);
    } else {
        request.body.id.idiag_dport = four(to).sin_port;
        std::memcpy(request.body.id.idiag_dst, &four(to).sin_addr, 4);
    }
    request.body.id.idiag_cookie[0] = request.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    if (::send(netlink_, &request, sizeof request, 0) < 0) return -errno;
    alignas(nlmsghdr) char answer[1024];
    const ssize_t got = recv(netlink_, answer, sizeof answer, 0);
    if (got < static_cast<ssize_t>(sizeof(nlmsghdr))) return -EIO;
    const auto* head = reinterpret_cast<const nlmsghdr*>(answer);
    if (head->nlmsg_type == NLMSG_ERROR) return reinterpret_cast<const nlmsgerr*>(NLMSG_DATA(head))->error;
    if (head->nlmsg_len < NLMSG_LENGTH(sizeof(inet_diag_msg))) return -EIO;
    return reinterpret_cast<const inet_diag_msg*>(NLMSG_DATA(head))->idiag_rqueue;
}

std::int64_t LocalQueues::fill(std::size_t endpoint) const {
    const Endpoint& e = endpoints_[endpoint];
    if (netlink_ < 0 || e.multicast) return fill_from_table(endpoint);
    return std::max<std::int64_t>(0, ask(e.address));
}

std::int64_t LocalQueues::fill_from_table(std::size_t endpoint) const {
    const Endpoint& e = endpoints_[endpoint];
    std::ifstream table(e.six ? "/proc/net/udp6" : "/proc/net/udp");
    std::string line, number, local, remote, state, queues;
    std::int64_t most = 0;
    for (std::getline(table, line); std::getline(table, line);) {
        std::istringstream words(line);
        words >> number >> local >> remote >> state >> queues;
        const std::size_t colon = queues.find(':');
        if (local == e.name && colon != std::string::npos)
            most = std::max<std::int64_t>(most, std::strtoll(queues.c_str() + colon + 1, nullptr, 16));
    }
    return most;
}

}  // namespace ryle
