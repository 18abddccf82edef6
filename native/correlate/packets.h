// Others' packets and F-heaps to K-blocks.
#pragma once

#include <cstdint>

namespace ryle::correlate {

// Where samples lie: spectrum, channel and input each add bytes. Which are valid: [group][block][input].
struct PacketRun {
    const std::uint8_t* packets;
    const std::uint64_t* valid;
    const std::int64_t *spectrum, *channel, *input;
    const std::uint8_t* conjugated;
    int channels, groups, inputs, blocks;
    int bits, flip;
    bool swapped;
};

// Writes data [channel][block][input][128]; returns how many valid parts had the lowest value and were taken as the one
// above it.
std::uint64_t unpack_packets(const PacketRun& run, std::int8_t* data);

}  // namespace ryle::correlate
