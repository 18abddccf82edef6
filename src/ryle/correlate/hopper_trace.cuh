// When a warpgroup drew, multiplied and wrote its tiles: where the time goes (ryle.bench.compare_kernels).
#pragma once
#include "ryle/gpu/device.cuh"

#ifndef TRACED
#define TRACED 0  // tiles of each warpgroup, its first ones
#endif

namespace ryle {

enum Event { DRAWN, MULTIPLIED, WRITTEN, EVENTS };

// Cycles are noted [block][warpgroup][tile][event] over the first sums: that many, and those of few tiles, are wrong.
struct Trace {
    uint32_t* notes;
    int tile = -1;

    DEVICE Trace(int* sums, int warpgroup)
        : notes(reinterpret_cast<uint32_t*>(sums) + (blockIdx.x * 2 + warpgroup) * TRACED * EVENTS) {}
    DEVICE void note(Event event) const {
        if constexpr (TRACED > 0)
            if (tile < TRACED && threadIdx.x % 128 == 0) notes[tile * EVENTS + event] = cycles_now();
    }
    DEVICE void draw() {
        ++tile;
        note(DRAWN);
    }
};

}  // namespace ryle
