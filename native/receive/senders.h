// Who sent a packet, as one number, and who may.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace ryle {

// A sender that is not listed; 0 is one that nobody knows, such as of packets made in memory.
constexpr std::uint64_t kStranger = ~std::uint64_t{0};

// An IPv4 address and port as they are, also if mapped to IPv6; other addresses mixed.
inline std::uint64_t sender_key(const std::uint8_t* address, std::size_t bytes, std::uint16_t port) {
    static constexpr std::uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (bytes == 16 && std::memcmp(address, mapped, sizeof mapped) == 0) address += 12, bytes = 4;
    std::uint64_t key = bytes == 4 ? 1 : 0xcbf29ce484222325u;
    for (std::size_t i = 0; i < bytes; ++i)
        key = bytes == 4 ? key << 8 | address[i] : (key ^ address[i]) * 0x100000001b3u;
    return bytes == 4 ? key << 16 | port : ((key ^ port) * 0xff51afd7ed558ccdu) | std::uint64_t{1} << 63;
}

// Neighbouring addresses, whose first `bits` are those of `address` (IPv4 mapped to IPv6), and a port; 0: any.
struct Network {
    std::array<std::uint8_t, 16> address{};
    unsigned bits = 0;
    std::uint16_t port = 0;

    bool holds(const std::uint8_t* sender, std::uint16_t from) const {
        if (port != 0 && port != from) return false;
        const unsigned whole = bits / 8, rest = bits % 8;
        if (std::memcmp(sender, address.data(), whole) != 0) return false;
        return rest == 0 || (sender[whole] ^ address[whole]) >> (8 - rest) == 0;
    }
};

class Senders {
  public:
    std::vector<Network> allowed;  // all, if empty

    std::uint64_t key(const std::uint8_t* address, std::size_t bytes, std::uint16_t port) const {
        if (!allowed.empty()) {
            std::uint8_t full[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
            std::memcpy(full + 16 - bytes, address, bytes);
            const auto holds = [&](const Network& network) { return network.holds(full, port); };
            if (std::none_of(allowed.begin(), allowed.end(), holds)) return kStranger;
        }
        return sender_key(address, bytes, port);
    }
};

}  // namespace ryle
