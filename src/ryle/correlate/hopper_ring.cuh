// The ring in shared memory that K-blocks, or samples, come through: one thread draws tiles and fetches, others wait
// for what is there and tell when they have read it.
#pragma once
#include "ryle/correlate/hopper.cuh"
#include "ryle/correlate/hopper_shape.cuh"

namespace ryle {

// One of the tiles, in the order in which they are drawn.
struct alignas(16) Tile {
    int integration, channel;  // -1 after the last
    int rows, columns;         // runs
};

struct Ring {
    unsigned char* stages;
    uint64_t *fetched, *full, *empty;
    Tile* tiles;  // whose data a stage has, with the first of them

    // A warp has read a stage.
    DEVICE void leave(int stage) const {
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(empty + stage);
    }
};

// Where a thread is in its team's ring.
struct Place {
    int stage = 0, parity = 0;
    DEVICE int before() const { return (stage ? stage : STAGES) - 1; }
    DEVICE void advance() {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// K-blocks of a tile that share a stage, and how many stages it has.
DEVICE int sharing(const Tile& tile) { return RUNS == 1 || tile.rows == tile.columns ? SHARING : 1; }
DEVICE int stages_of(const Tile& tile, int blocks) { return (blocks + sharing(tile) - 1) / sharing(tile); }

// Fetch what a team needs, in the order of the tiles it draws.
DEVICE void produce(const Ring& ring, const unsigned char* maps, const Tile* tiles, int* counter, int works,
                    int first_block, int blocks) {
    map_acquire(maps);
    if (!SAMPLES) map_acquire(maps + 128);
    Place place;
    int work = atomicAdd(counter, 1);
    while (work < works) {
        const Tile tile = tiles[work];
        const int next = atomicAdd(counter, 1);  // early: the answer takes a while
        const int rows = RUNS == 1 ? 0 : tile.rows, columns = RUNS == 1 ? 0 : tile.columns;
        const int live = (columns ? 128 : FETCHED_FIRST) + (rows == columns ? 0 : 128);
        const int begin = first_block + tile.integration * blocks;
        const int held = sharing(tile);
#pragma unroll 1
        for (int block = 0; block < blocks; block += held) {
            barrier_wait(ring.empty + place.stage, place.parity ^ 1);
            uint64_t* fetched = ring.fetched + place.stage;
            unsigned char* stage = ring.stages + place.stage * STAGE + FETCHED;
            const int from = begin + block;
            const bool two = held > 1 && block + 1 < blocks;
            barrier_arrive_expecting(fetched, (live << two) * FETCH_ROW + (block == 0 ? sizeof(Tile) : 0));
            if (block == 0) fetch(ring.tiles + place.stage, tiles + work, fetched, sizeof(Tile));
            const auto fetch_run = [&](int run, int from) {
                if constexpr (SAMPLES) {
                    for (int box = 0; box < RUN_BOXES; ++box, stage += BOX) {
                        const int input = 128 * run + BOX_INPUTS * box;
                        if constexpr (HEAPS) {
                            for (int half = 0; half < 2; ++half)
                                fetch_samples(stage + half * (BOX / 2), maps, fetched, from * BLOCK + 32 * half,
                                              tile.channel, input / 2);
                        } else {
                            fetch_samples(stage, maps, fetched, input, tile.channel, from * BLOCK);
                        }
                    }
                } else {
                    fetch_box(stage, maps + (run ? 128 : 0), fetched, first_input(run) / POLS, from, tile.channel);
                    stage += 128 * FETCH_ROW;
                }
            };
            if (rows != columns) fetch_run(rows, from);
            fetch_run(columns, from);
            if (two) fetch_run(columns, from + 1);
            place.advance();
        }
        work = next;
    }
    // All have drawn; ready for the next launch.
    if (work == works + TEAMS * int(gridDim.x) - 1) *counter = 0;
    barrier_wait(ring.empty + place.stage, place.parity ^ 1);
    barrier_arrive_expecting(ring.fetched + place.stage, sizeof(Tile));
    fetch(ring.tiles + place.stage, tiles + works, ring.fetched + place.stage, sizeof(Tile));
}

// Wait for the next tile's first data; false if there is none.
DEVICE bool next_tile(Tile& tile, const Ring& ring, const Place& place) {
    barrier_wait(ring.fetched + place.stage, place.parity);
    // The thread that will tell that the stage was read is the one that reads; a shuffle tells the compiler what is the
    // same in all threads.
    const int4 there = load_first(ring.tiles + place.stage);
    tile.integration = __shfl_sync(~0u, there.x, 0);
    tile.channel = __shfl_sync(~0u, there.y, 0);
    tile.rows = __shfl_sync(~0u, there.z, 0);
    tile.columns = __shfl_sync(~0u, there.w, 0);
    return __all_sync(~0u, tile.channel >= 0);
}

// Pass over a tile's data.
DEVICE void skip(const Ring& ring, Place& place, int stages) {
    for (int stage = 0; stage < stages; ++stage) {
        barrier_wait(ring.full + place.stage, place.parity);
        ring.leave(place.stage);
        place.advance();
    }
}

}  // namespace ryle
