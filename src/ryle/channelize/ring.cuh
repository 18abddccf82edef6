// Where the filter leaves tiles of 16 spectra and the transform finds them: all of a launch in one array, a tile after
// the other, or a ring for each of a few marches through the units, short enough to stay in the L2 cache while both
// kernels' work runs at the same time.
#pragma once
#include "passes.cuh"
#include "ryle/gpu/device.cuh"

namespace ryle {

// Of a tile, SIDE spectra lie side by side, a half of it after the other if that is 8.
constexpr int HALVES = TILE / SIDE;

// All tiles of a launch: [unit][TILES][HALVES][RADIX][MIDDLE][POINTS][SIDE].
struct Slab {
    float2* y;

    // Where a unit's spectra lie from one on, with which a half begins.
    DEVICE float2* at(int unit, int spectrum) const { return y + (int64_t(unit) * GROUP + spectrum) * CHANNELS; }
};

#ifdef DEPTH
// March `m` of `marches` takes the units m, m + marches and so on, and passes their tiles on through DEPTH places.
struct Ring {
    float2* y;          // [march][DEPTH] tiles
    uint32_t* written;  // [march][DEPTH] how often a strip of columns has been written there
    uint32_t* turned;   // [march][DEPTH] how often a team has done its share of the pass between the halves, if any
    uint32_t* read;     // [march][DEPTH] how often a pair of rows has been read
    int marches;

    // The place of the march's tile number `number`, and how often it has been used before.
    struct Place {
        int index;
        uint32_t turn;
    };
    DEVICE Place place(int march, int number) const {
        return {march * DEPTH + number % DEPTH, uint32_t(number / DEPTH)};
    }
    // Number of a unit's tile among those of its march.
    DEVICE int number(int unit, int tile) const { return unit / marches * TILES + tile; }
    DEVICE float2* at(int index) const { return y + int64_t(index) * (CHANNELS * TILE); }
};
#endif

}  // namespace ryle
