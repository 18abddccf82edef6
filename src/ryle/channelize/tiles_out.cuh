// Where a team of the filter leaves its tiles: in memory, or in a ring.
#pragma once
#include "filter_shape.cuh"
#ifdef DEPTH
#include "middle.cuh"
#endif
#include "ring.cuh"
#include "ryle/gpu/device.cuh"

namespace ryle::fir {

// What is known of a ring's places.
struct Watch {
    int number[2];  // in their march, of the tiles made last, by turns
    int place[2];   // theirs
    int told;       // that of the last tile that is complete and not yet told of, or -1
    int turned;     // that of the last tile whose points were turned, not yet told of, or -1
    uint32_t free;  // how often the place of the tile to come is to be read before it can be written
    int end;        // number of the tile after the last that is complete
};

// Where tiles go if all of them are in memory.
struct ToSlab {
    using From = Slab;
    Slab slab;

    DEVICE ToSlab(const Slab& slab, Watch*) : slab(slab) {}
    DEVICE void look(const Pass&, int, int) {}
    DEVICE void await(const Pass&, int) const {}
    DEVICE void tell() {}
    DEVICE float2* at(const Pass& pass, int tile, int) const { return slab.at(pass.place / MOST_PASSES, tile * TILE); }
    DEVICE void wrote(const Team&, const Pass&, int, int) {}
    DEVICE void finish(const Team&, int) {}
};

#ifdef DEPTH
// And if they pass through a ring. One thread watches it, by what little is kept in shared memory, as registers are
// few; others only ask where a tile goes. What was done to a tile is told one tile later, when a barrier has shown that
// all threads have done it. If the Fourier transform has a pass between the halves, the march's teams do it two tiles
// behind, when all have written the tile.
struct ToRing {
    static constexpr int BEHIND = 2;
    Ring ring;
    const float2* middle_turns;
    Watch* watch;
    int march;
    uint32_t seen;  // how often the place of the tile to come had been read

    // What to make it of.
    struct From {
        Ring ring;
        const float2* middle_turns;
        int march;
    };
    DEVICE ToRing(const From& from, Watch* watch)
        : ring(from.ring), middle_turns(from.middle_turns), watch(watch), march(from.march) {
        watch->told = watch->turned = -1;
        watch->end = 0;
    }
    // Find the place of a tile, and begin to look whether it is free, while the tile is made.
    DEVICE void look(const Pass& pass, int tile, int half) {
        find(watch, ring.marches, pass.place / MOST_PASSES, tile, half);
        seen = count_now(ring.read + watch->place[half]);
    }
    static OUT_OF_LINE void find(Watch* watch, int marches, int unit, int tile, int half) {
        const Ring ring = {nullptr, nullptr, nullptr, nullptr, marches};
        const int number = ring.number(unit, tile);
        const Ring::Place place = ring.place(unit % marches, number);
        watch->number[half] = number;
        watch->place[half] = place.index;
        watch->free = place.turn * (RADIX * MIDDLE / 2 * HALVES);
    }
    // Wait until it is. What others read there is not read here, so that no more than the number must be seen.
    DEVICE void await(const Pass& pass, int half) const {
        if (int32_t(seen - watch->free) < 0) wait_for(ring.read + watch->place[half], watch->free);
        if (MIDDLE > 1 && pass.completes) await_behind(watch->number[half] - BEHIND);
    }
    // Wait until all of the march's teams have written a tile.
    DEVICE void await_behind(int number) const {
        if (number < 0) return;
        const Ring::Place place = ring.place(march, number);
        wait_for(ring.written + place.index, (place.turn + 1) * STRIPS);
    }
    DEVICE void tell() {
        if (watch->told >= 0) announce(ring.written + watch->told);
        if (watch->turned >= 0) announce(ring.turned + watch->turned);
        watch->told = watch->turned = -1;
    }
    DEVICE float2* at(const Pass&, int, int half) const { return ring.at(watch->place[half]); }
    DEVICE void wrote(const Team& team, const Pass& pass, int half, int strip) {
        if (!pass.completes) return;
        if (team.thread == 0) {
            watch->told = watch->place[half];
            watch->end = watch->number[half] + 1;
        }
        if (MIDDLE > 1) turn_points(team, watch->number[half] - BEHIND, strip);
    }
    // Do this team's share of the pass between the halves.
    DEVICE void turn_points(const Team& team, int number, int strip) {
        if (number < 0) return;
        const int place = ring.place(march, number).index;
#pragma unroll 1
        for (int task = strip * THREADS + team.thread; task < mid::TASKS; task += STRIPS * THREADS)
            mid::turn_points(ring.at(place), middle_turns, task);
        if (team.thread == 0) watch->turned = place;
    }
    // Tell of the last tiles.
    DEVICE void finish(const Team& team, int strip) {
        sync(team);
        if (team.thread == 0) tell();
        if (MIDDLE == 1) return;
        const int end = watch->end;
#pragma unroll 1
        for (int number = end - BEHIND; number < end; ++number) {
            if (team.thread == 0) await_behind(number);
            sync(team);
            turn_points(team, number, strip);
            sync(team);
            if (team.thread == 0) tell();
        }
    }
};
#endif

}  // namespace ryle::fir
