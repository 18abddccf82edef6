// Datagrams out of memory: those of simulated boards, each to an endpoint of its own.
#pragma once
#include <sys/socket.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ryle {

// Addresses as the kernel takes them. Throws std::invalid_argument for what is no IP address.
std::vector<sockaddr_storage> addresses(const std::vector<std::pair<std::string, std::uint16_t>>& endpoints);

// Send datagrams that lie one behind the other: their lengths, and the endpoint of each. Waits where the way out is
// full. Throws std::system_error; std::out_of_range if `bytes` are fewer than said or an endpoint is unknown.
void send_datagrams(int socket, std::span<const sockaddr_storage> endpoints, std::span<const std::uint8_t> bytes,
                    std::span<const std::uint32_t> lengths, std::span<const std::uint32_t> to);

}  // namespace ryle
