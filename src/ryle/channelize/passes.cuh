// How spectra are put together, and what windows.cu tells the filter to do.
#pragma once
#include "ryle/gpu/device.cuh"

namespace ryle {

constexpr int GROUP = 128, TILE = 16, TILES = GROUP / TILE;  // spectra that are filtered together; those side by side

// Of a unit, that is a group of spectra of one stream: each spectrum may have a coarse delay of its own.
constexpr int MOST_PASSES = 128;

// A pass of the filter over tiles of 16 spectra that follow one another, for those that have the same coarse delay.
struct alignas(16) Pass {
    int64_t start;  // value, counted from the chunk's first, at which the window of its first spectrum starts or would
    int place;      // of this pass in the table [unit][MOST_PASSES]
    int stream;
    uint8_t tile, tiles;  // its first tile among those of the group, and their number
    uint8_t left;         // passes of the unit that follow
    uint8_t completes;    // whether no other pass over these tiles follows
    uint32_t wanted[4];   // a bit for each spectrum of the group that is in it

    // Bits of the spectra of the group's tile `tile` that are in it.
    DEVICE uint32_t of_tile(int tile) const { return wanted[tile / 2] >> tile % 2 * 16 & 0xffff; }
    DEVICE bool holds(int spectrum) const { return wanted[spectrum / 32] >> spectrum % 32 & 1; }
    // The pass after this one, for who works on every `step`-th unit.
    DEVICE int next(int step) const { return left ? place + 1 : (place / MOST_PASSES + step) * MOST_PASSES; }
};
static_assert(sizeof(Pass) == 48);

}  // namespace ryle
