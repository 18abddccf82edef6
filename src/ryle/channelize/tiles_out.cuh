// Where a team of the filter leaves its tiles: in memory, or in a ring.
#pragma once
#include "filter_shape.cuh"
#include "ring.cuh"
#include "ryle/gpu/device.cuh"

namespace ryle::fir {

// What is known of a ring's places.
struct Watch {
    int place[2];   // of the tiles made last, by turns
    int told;       // that of the last tile that is complete and not yet told of, or -1
    uint32_t free;  // how often the place of the tile to come is to be read before it can be written
};

// Where tiles go if all of them are in memory.
struct ToSlab {
    Slab slab;

    DEVICE ToSlab(const Slab& slab, Watch*) : slab(slab) {}
    DEVICE void look(const Pass&, int, int) {}
    DEVICE void await(int) const {}
    DEVICE void tell() {}
    DEVICE float2* at(const Pass& pass, int tile, int) const { return slab.at(pass.place / MOST_PASSES, tile * TILE); }
    DEVICE void wrote(const Pass&, int) {}
};

#ifdef DEPTH
// And if they pass through a ring. One thread watches it, by what little is kept in shared memory, as registers are
// few; others only ask where a tile goes. Tiles are told of one later, when a barrier has shown that all threads have
// written them.
struct ToRing {
    Ring ring;
    Watch* watch;
    uint32_t seen;  // how often the place of the tile to come had been read

    DEVICE ToRing(const Ring& ring, Watch* watch) : ring(ring), watch(watch) { watch->told = -1; }
    // Find the place of a tile, and begin to look whether it is free, while the tile is made.
    DEVICE void look(const Pass& pass, int tile, int half) {
        find(watch, ring.marches, pass.place / MOST_PASSES, tile, half);
        seen = count_now(ring.read + watch->place[half]);
    }
    static APART void find(Watch* watch, int marches, int unit, int tile, int half) {
        const Ring ring = {nullptr, nullptr, nullptr, marches};
        const Ring::Place place = ring.place(unit % marches, ring.number(unit, tile));
        watch->place[half] = place.index;
        watch->free = place.turn * (RADIX * MIDDLE / 2 * HALVES);
    }
    // Wait until it is. What others read there is not read here, so that no more than the number must be seen.
    DEVICE void await(int half) const {
        if (int32_t(seen - watch->free) < 0) wait_for(ring.read + watch->place[half], watch->free);
    }
    DEVICE void tell() {
        if (watch->told >= 0) announce(ring.written + watch->told);
        watch->told = -1;
    }
    DEVICE float2* at(const Pass&, int, int half) const { return ring.at(watch->place[half]); }
    DEVICE void wrote(const Pass& pass, int half) {
        if (pass.completes) watch->told = watch->place[half];
    }
};
#endif

}  // namespace ryle::fir
