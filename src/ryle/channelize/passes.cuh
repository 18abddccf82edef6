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
    int stream;
    int first;                   // its first tile among those of all units
    uint16_t wanted[TILES + 2];  // of each of its tiles a bit for each spectrum that is in it, then zeros
    uint8_t tiles;
    uint8_t left;  // passes of the unit that follow

    // Whether the spectrum number `spectrum` of those of its tiles is in it.
    DEVICE bool holds(int spectrum) const { return wanted[spectrum / TILE] >> spectrum % TILE & 1; }
    // The place in the table [unit][MOST_PASSES] of the pass after this one, which is at `place`.
    DEVICE int next(int place) const { return left ? place + 1 : (place | (MOST_PASSES - 1)) + 1; }
};
static_assert(sizeof(Pass) == 48);

}  // namespace ryle
