// Packets of others' F-engines to K-blocks.
#pragma once

#include <cstdint>

namespace ryle::correlate {

// Where samples lie: packet rows of `pitch` bytes; spectrum, channel and input each add to the row and to the byte in
// it.
struct PacketRun {
    const std::uint8_t* packets;
    std::int64_t pitch;
    const std::uint8_t* present;
    const std::int64_t *spectrum_rows, *spectrum_bytes, *channel_rows, *channel_bytes, *input_rows, *input_bytes;
    const std::uint8_t* conjugated;
    int channels, groups, inputs, first_block, blocks;
    int bits, flip;
    bool swapped;
};

// Writes data [channel][block][input][128] and valid [group][block][input] of blocks first_block to first_block +
// blocks; returns how many valid parts had the lowest value and were taken as the one above it.
std::uint64_t unpack_packets(const PacketRun& run, std::int8_t* data, std::uint64_t* valid);

}  // namespace ryle::correlate
