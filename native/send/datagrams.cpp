#include "datagrams.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <stdexcept>
#include <system_error>

namespace ryle {

std::vector<sockaddr_storage> addresses(const std::vector<std::pair<std::string, std::uint16_t>>& endpoints) {
    std::vector<sockaddr_storage> found;
    for (const auto& [host, port] : endpoints) {
        sockaddr_storage at{};
        auto& four = reinterpret_cast<sockaddr_in&>(at);
        auto& six = reinterpret_cast<sockaddr_in6&>(at);
        if (inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1) {
            four.sin_family = AF_INET;
            four.sin_port = htons(port);
        } else if (inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1) {
            six.sin6_family = AF_INET6;
            six.sin6_port = htons(port);
        } else {
            throw std::invalid_argument(host + " is no IP address");
        }
        found.push_back(at);
    }
    return found;
}

void send_datagrams(int socket, std::span<const sockaddr_storage> endpoints, std::span<const std::uint8_t> bytes,
                    std::span<const std::uint32_t> lengths, std::span<const std::uint32_t> to) {
    constexpr std::size_t kBatch = 64;
    std::array<mmsghdr, kBatch> messages;
    std::array<iovec, kBatch> pieces;
    if (lengths.size() != to.size()) throw std::out_of_range("every datagram needs an endpoint");
    std::size_t at = 0;
    for (std::size_t first = 0; first < lengths.size();) {
        const std::size_t n = std::min(kBatch, lengths.size() - first);
        for (std::size_t i = 0; i < n; ++i) {
            const std::size_t length = lengths[first + i];
            if (length > bytes.size() - at || to[first + i] >= endpoints.size())
                throw std::out_of_range("a datagram lies beyond the others, or goes to an unknown endpoint");
            const sockaddr_storage& where = endpoints[to[first + i]];
            pieces[i] = {const_cast<std::uint8_t*>(bytes.data() + at), length};
            messages[i] = {};
            messages[i].msg_hdr.msg_name = const_cast<sockaddr_storage*>(&where);
            messages[i].msg_hdr.msg_namelen = where.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
            messages[i].msg_hdr.msg_iov = &pieces[i];
            messages[i].msg_hdr.msg_iovlen = 1;
            at += length;
        }
        for (std::size_t sent = 0; sent < n;) {
            const int done = sendmmsg(socket, messages.data() + sent, static_cast<unsigned>(n - sent), 0);
            if (done > 0) {
                sent += static_cast<std::size_t>(done);
            } else if (errno == ENOBUFS || errno == EAGAIN || errno == ENOMEM) {  // a queue behind the socket is full
                const timespec t{0, 50'000};
                clock_nanosleep(CLOCK_MONOTONIC, 0, &t, nullptr);
            } else if (errno != EINTR && errno != ECONNREFUSED) {  // an earlier one was refused: this one was not sent
                throw std::system_error(errno, std::generic_category(), "packets cannot be sent");
            }
        }
        first += n;
    }
}

}  // namespace ryle
