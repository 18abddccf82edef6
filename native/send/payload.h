// Payload bytes that anyone can say again from their place alone: a sender writes them, a receiver compares.
//
// Byte b of packet p (or of heap p, if packets hold parts of heaps) of stream s under a seed is byte b % 8, the lowest
// first, of the 64-bit word b / 8:
//     key  = mix(mix(mix(seed + G) ^ s) ^ p)        word w = mix(key + (w + 1) G)
// which is the splitmix64 generator seeded with the key: integer arithmetic of a few lines, for a kernel of a GPU too.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ryle {

enum class Filling : std::uint32_t { random, ramp, zeros };

constexpr std::uint64_t kPayloadStep = 0x9E3779B97F4A7C15;

constexpr std::uint64_t mix64(std::uint64_t z) {
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

// `packet` is the packet's timestamp, modulo its counter's period, in steps; `stream` the values of its stream fields.
constexpr std::uint64_t payload_key(std::uint64_t seed, std::uint64_t stream, std::uint64_t packet) {
    return mix64(mix64(mix64(seed + kPayloadStep) ^ stream) ^ packet);
}

constexpr std::uint64_t payload_word(std::uint64_t key, std::uint64_t word) {
    return mix64(key + (word + 1) * kPayloadStep);
}

// One byte: a ramp begins with the packet's number and goes up by 1.
constexpr std::uint8_t payload_byte(Filling filling, std::uint64_t seed, std::uint64_t stream, std::uint64_t packet,
                                    std::uint64_t byte) {
    if (filling == Filling::zeros) return 0;
    if (filling == Filling::ramp) return static_cast<std::uint8_t>(packet + byte);
    return static_cast<std::uint8_t>(payload_word(payload_key(seed, stream, packet), byte / 8) >> 8 * (byte % 8));
}

// `bytes` bytes of a payload from byte `from` on, a multiple of 8.
void fill_payload(Filling filling, std::uint64_t seed, std::uint64_t stream, std::uint64_t packet, std::uint8_t* out,
                  std::size_t bytes, std::size_t from = 0);
// The first byte that is not as fill_payload writes it; `bytes` if all are.
std::size_t payload_differs(Filling filling, std::uint64_t seed, std::uint64_t stream, std::uint64_t packet,
                            const std::uint8_t* payload, std::size_t bytes, std::size_t from = 0);

}  // namespace ryle
