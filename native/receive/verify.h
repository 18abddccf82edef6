// Every payload byte of a chunk against what its sender must have written (send_payload.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "send/payload.h"

namespace ryle {

struct Verified {
    std::int64_t packets = 0, wrong_packets = 0, wrong_bytes = 0;  // of the packets that are present
    std::int64_t first_head = -1, first_packet = -1;               // the first wrong one, in the chunk
};

// `data`: [head][packet][bytes]; `present`: [head][packet], or [head][packet][part] if packets are parts of heaps of
// `bytes` bytes: each but the last of `part` bytes, a multiple of 8, else 0; `streams`: of each head; `first`: number
// of packet 0, and `period`: where numbers begin again, 0 if at 2^64.
Verified verify_payloads(Filling filling, std::uint64_t seed, std::span<const std::uint64_t> streams,
                         std::uint64_t first, std::uint64_t period, const std::uint8_t* data,
                         const std::uint8_t* present, std::size_t packets, std::size_t bytes, std::size_t part);

}  // namespace ryle
