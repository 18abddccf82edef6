// What an assembler's chunks look like, and how long they wait for packets: ryle.net.assembly.Plan says it for users.
#pragma once
#include <chrono>
#include <cstdint>
#include <vector>

#include "../wire/packets.h"

namespace ryle {

// `count` times from `from` (bytes in the payload) to `to` (bytes in the chunk).
struct Loop {
    std::int64_t count, from, to;
};

struct Plan {
    PacketLayout layout;
    std::vector<std::uint32_t> key_fields;
    bool key_port = false;
    std::vector<std::vector<std::uint64_t>> heads;  // values of key_fields (and the port) of each head
    std::int64_t step = 1, origin = 0;              // timestamps are origin + number * step
    std::int64_t packets = 0;                       // of one head in a chunk
    std::int64_t window = 0, skew = 0, outage = 0;  // timestamp units
    std::int64_t slots = 0;                         // chunks of memory
    std::int64_t payload_bytes = 0;
    std::int64_t head_stride = 0, packet_stride = 0;  // bytes in a chunk
    std::int64_t run_bytes = 0;                       // that stay together in a payload, and the loops over runs
    std::vector<Loop> loops;
    bool pointers = false;  // keep addresses of payloads instead of copying
    std::chrono::nanoseconds linger{0};
};

// Payloads of a chunk, in bytes; its packets.
std::int64_t data_bytes(const Plan& plan);
std::int64_t cells(const Plan& plan);
// Memory of a chunk, present marks included.
std::int64_t slot_bytes(const Plan& plan);
std::int64_t page_aligned(std::int64_t bytes);
// Chunks that are open at once, at most. Throws std::invalid_argument if the plan cannot be carried out.
std::int64_t checked_width(const Plan& plan);

inline std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0); }

// Calls act(from, to) for each run of bytes of a payload that stays together.
template <typename Act>
void each_run(const std::vector<Loop>& loops, std::size_t depth, std::int64_t from, std::int64_t to, const Act& act) {
    if (depth == loops.size()) return act(from, to);
    for (std::int64_t i = 0; i < loops[depth].count; ++i)
        each_run(loops, depth + 1, from + i * loops[depth].from, to + i * loops[depth].to, act);
}

}  // namespace ryle
