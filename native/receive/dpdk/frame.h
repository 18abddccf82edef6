// Ethernet, VLAN, IPv4 and UDP headers of a received frame, read without trusting any of them.
#pragma once
#include <cstdint>

namespace ryle::dpdk {

enum class Frame : std::uint8_t { datagram, foreign, malformed };

// A UDP datagram: its payload begins `start` bytes into the frame and has `bytes` bytes.
struct Datagram {
    std::uint32_t start, bytes;
    std::uint16_t port;
    std::uint32_t sender;  // where the sender's IPv4 address begins,
    std::uint16_t sender_port;
};

constexpr std::uint32_t kFrameHeaders = 14 + 20 + 8;

inline std::uint16_t big16(const std::uint8_t* p) { return static_cast<std::uint16_t>(p[0] << 8 | p[1]); }

// Read the headers of a frame of `whole` bytes, of which the first `seen` lie at `data`. What is no unfragmented UDP
// over IPv4 is foreign; what says so and is shorter than it says is malformed. Nothing beyond `seen` is read.
inline Frame read_headers(const std::uint8_t* data, std::uint32_t seen, std::uint32_t whole, Datagram& out) {
    std::uint32_t at = 12;
    if (seen < kFrameHeaders) return Frame::foreign;
    std::uint16_t type = big16(data + at);
    for (int tags = 0; (type == 0x8100 || type == 0x88a8) && tags < 2; ++tags) {
        at += 4;
        type = big16(data + at);
    }
    if (type != 0x0800) return Frame::foreign;
    at += 2;
    if (seen < at + 28) return Frame::malformed;
    const std::uint8_t* ip = data + at;
    const std::uint32_t header = 4u * (ip[0] & 15), total = big16(ip + 2);
    if (ip[0] >> 4 != 4 || header < 20) return Frame::malformed;
    if (ip[9] != 17 || (big16(ip + 6) & 0x3fff) != 0) return Frame::foreign;
    if (total < header + 8 || total > whole - at || seen < at + header + 8) return Frame::malformed;
    const std::uint8_t* udp = ip + header;
    const std::uint32_t length = big16(udp + 4);
    if (length < 8 || length > total - header) return Frame::malformed;
    out = {at + header + 8, length - 8, big16(udp + 2), at + 12, big16(udp)};
    return Frame::datagram;
}

}  // namespace ryle::dpdk
