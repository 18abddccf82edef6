// The UDP datagram in an Ethernet frame, for sources below the kernel's network stack.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ryle {

struct Datagram {
    const std::uint8_t* data = nullptr;
    std::uint32_t size = 0;
    std::uint16_t port = 0;  // destination
    bool udp = false;        // false: something else, a fragment, or contradictory lengths
};

inline std::uint16_t big16(const std::uint8_t* p) { return static_cast<std::uint16_t>(p[0] << 8 | p[1]); }

// `frame` holds `captured` bytes from the IP header on; `kind` is its EtherType. Lengths of IP and UDP headers that the
// sending machine left to its network card to cut up (GSO) are those of the whole train, which is what is wanted.
inline Datagram find_datagram(const std::uint8_t* ip, std::size_t captured, std::uint16_t kind) {
    std::size_t udp, room;
    if (kind == 0x0800 && captured >= 20 && ip[0] >> 4 == 4) {
        udp = (ip[0] & 15) * 4u;
        const std::size_t total = big16(ip + 2);
        if (udp < 20 || ip[9] != 17 || (big16(ip + 6) & 0x3fff) != 0) return {};
        room = total != 0 && total < captured ? total : captured;
    } else if (kind == 0x86dd && captured >= 40 && ip[0] >> 4 == 6) {
        udp = 40;
        const std::size_t total = 40u + big16(ip + 4);
        if (ip[6] != 17) return {};
        room = total != 40 && total < captured ? total : captured;
    } else {
        return {};
    }
    if (room < udp + 8) return {};
    const std::size_t length = big16(ip + udp + 4);
    if (length < 8 || length > room - udp) return {};
    return {ip + udp + 8, static_cast<std::uint32_t>(length - 8), big16(ip + udp + 2), true};
}

}  // namespace ryle
