// The X-engine for Hopper: int8 matrix instructions of warpgroups, fed by the copy engine.
//
// Blocks of threads live as long as the kernel. One thread fetches K-blocks of the tiles that it draws from a counter
// into a ring in shared memory; two warpgroups multiply, columns from there and rows from registers, where [re | im]
// becomes [im | -re]. The inputs are cut into a first run of 128 + SPARE (16 or 32 when few are left over, so that they
// waste little) and runs of 128. Tiles:
//
//  - rectangles, 128 rows times all columns of an earlier run: each warpgroup has 64 rows;
//  - triangles, a run with itself: warpgroup 0 has rows SPARE to SPARE + 63, warpgroup 1 the next 64, each with all
//    columns up to its own; the corner of the first SPARE rows falls to warpgroup 0;
//  - of 64 inputs or fewer, the whole channel: then each warpgroup has its own ring and its own channels.
//
// Where rows and columns are the same 64 inputs, half the products are the conjugates of the others. All real parts are
// computed, but of Im = M - M^T, with M = im · re^T, only X: sums that have M's terms of groups 1 and 3 and those of
// -M^T of groups 0 and 2. Then Im = X - X^T, too. One step does two groups: [-re_r(0) | im_r(1)] · [im_c(0) | re_c(1)],
// for im(0) and re(1) are neighbours in a row.
//
// PACKED rows have 64 bytes of two four-bit parts each. They come into a ring of their own, from which idle warps of
// the third warpgroup expand them, times 16, to what the others multiply: sums are then 256 times too large until
// written.
#include "ryle/correlate/hopper.cuh"
#include "ryle/correlate/kblocks.cuh"

using namespace ryle;

#ifndef SPREAD
#define SPREAD 1200  // ns
#endif
#ifndef HEAD_START
#define HEAD_START 3000  // ns
#endif

DEVICE constexpr int round_up(int n, int to) { return (n + to - 1) / to * to; }

constexpr bool SMALL = INPUTS <= 64;
constexpr int REST = INPUTS % 128;
// More would not fit the registers, in rectangles even less.
constexpr int SPARE = INPUTS > 128 && REST <= (INPUTS < 256 ? 32 : 16) ? round_up(REST, 16) : 0;
constexpr int FIRST = SMALL ? round_up(INPUTS, 16) : 128 + SPARE;  // rows of the first run
constexpr int RUNS = SMALL || INPUTS <= FIRST ? 1 : 1 + (INPUTS - FIRST + 127) / 128;
// Whether warpgroup 1 has no inputs in the last run.
constexpr bool HALF = RUNS > 1 && INPUTS - SPARE - 128 * (RUNS - 1) <= 64;
constexpr int RECTANGLES = RUNS * (RUNS - 1) / 2, TILES = RECTANGLES + RUNS;

constexpr int TEAMS = SMALL ? 2 : 1;   // that have a ring each
constexpr int WARPGROUPS = 2 / TEAMS;  // of a team
constexpr int THREADS = 3 * 128;
// Of a thread, after the launch with 168 each: no more than there are.
constexpr int PRODUCER_REGISTERS = PACKED ? 56 : 40, CONSUMER_REGISTERS = PACKED ? 224 : 232;
static_assert(PRODUCER_REGISTERS + 2 * CONSUMER_REGISTERS <= 3 * 168);
constexpr int STAGE = (FIRST + (RUNS > 1 ? 128 : 0)) * ROW;
constexpr int FETCH_ROW = PACKED ? ROW / 2 : ROW;  // bytes, as fetched
constexpr int FETCH_STAGE = STAGE / ROW * FETCH_ROW;
constexpr int RAW_STAGES = PACKED ? 4 : 0;
constexpr int RAW = RAW_STAGES * FETCH_STAGE;  // of a team
constexpr int EXPANDERS = SMALL ? 1 : 3;       // warps of a team
constexpr int TURN_PITCH = 68;                 // so that rows and columns of the scratch lie in different banks
constexpr int TURN = 64 * TURN_PITCH * 4;
constexpr int ROOM = (SHARED_SIZE - 1024 - 2 * TURN - TEAMS * RAW) / (TEAMS * STAGE);  // barriers take less than 1024
constexpr int STAGES = ROOM < 12 ? ROOM : 12;
constexpr int FETCH_STAGES = PACKED ? RAW_STAGES : STAGES;
static_assert(STAGES >= 3);

struct Ring {
    unsigned char* stages;
    uint64_t *full, *empty;
    int* work;  // what a stage's data belong to; -1 after the last tile
};

// Where a thread is in its team's ring.
struct Place {
    int stage = 0, parity = 0;
    DEVICE void advance(int stages = STAGES) {
        if (++stage == stages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

struct Tile {
    int integration, channel;
    int rows, columns;  // runs
};

DEVICE Tile tile_of(int work, int channels) {
    Tile tile;
    int n = work % TILES;
    tile.channel = work / TILES % channels;
    tile.integration = work / TILES / channels;
    if (n < RECTANGLES) {  // the long ones first
        tile.rows = 1;
        for (; n >= tile.rows; ++tile.rows) n -= tile.rows;
        tile.columns = n;
    } else {
        tile.rows = tile.columns = n - RECTANGLES;
    }
    return tile;
}

DEVICE int first_input(int run) { return run ? SPARE + 128 * run : 0; }

// Where this thread's parts lie from a row of 64 on, its chunk 0. The rows of other chunks differ in bits 4 to 6 only.
DEVICE int lane_offset(int row) {
    const int lane = threadIdx.x % 128;
    return row * ROW + chunk_offset(lane / 32 * 16 + lane % 32 / 4, 0) + lane % 4 * 4;
}

// Four bytes a register of this warp's 16 rows, as the matrix instructions want a group of rows; zero in warps from
// `live` rows on. `at` is the stage's offset and this thread's in it. The address is made anew for each group, with one
// operation: kept, 16 of them would take the registers that the sums need.
template <int LIVE>
DEVICE void load_rows(uint32_t (&a)[4], const unsigned char* stages, int at, int group) {
    const bool live = LIVE == 64 || static_cast<int>(threadIdx.x) % 128 / 32 * 16 < LIVE;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int chunk = 2 * group + i / 2;
        a[i] = live ? *reinterpret_cast<const uint32_t*>(stages + (at ^ chunk << 4) + i % 2 * 8 * ROW) : 0;
    }
}

// Sums of 64 rows: complex with FULL columns, then, with their own X inputs, real parts and half of the imaginary
// parts; besides those of the CORNER, the tile's first rows with themselves.
template <int FULL, int X, int CORNER>
struct Sums {
    static constexpr int SIZE = (FULL + X) / 2;
    int re[SIZE] = {}, im[FULL ? FULL / 2 : 1] = {}, x[X ? X / 2 : 1] = {};
    int corner_re[CORNER ? CORNER / 2 : 1] = {}, corner_x[CORNER ? CORNER / 2 : 1] = {};
};

// Multiply all K-blocks of a tile: this warpgroup's rows from `row` on in a stage, the columns from byte `columns` on.
template <int FULL, int X, int CORNER>
DEVICE void multiply(Sums<FULL, X, CORNER>& sums, const Ring& ring, Place& place, int blocks, int row, int columns) {
    constexpr int LIVE = FULL == 0 ? X : 64;
    const int lane = lane_offset(row), corner_lane = lane_offset(0);
    int previous = 0;
    for (int block = 0; block < blocks; ++block) {
        barrier_wait(ring.full + place.stage, place.parity);
        const int stage = place.stage * STAGE;
        const uint32_t at = shared_address(ring.stages + stage);
        uint32_t held[2] = {}, corner_held[2] = {};
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
            uint32_t a[4], corner[4] = {};
            load_rows<LIVE>(a, ring.stages, stage + lane, group);
            const uint32_t turned[4] = {a[2], a[3], negate_bytes(a[0]), negate_bytes(a[1])};
            const uint32_t mixed[4] = {held[0], held[1], a[2], a[3]};
            if constexpr (CORNER > 0) load_rows<CORNER>(corner, ring.stages, stage + corner_lane, group);
            wgmma_begin();
            wgmma<FULL + X>(sums.re, a, rows_descriptor(at + columns + 32 * group));
            if constexpr (FULL > 0) wgmma<FULL>(sums.im, turned, rows_descriptor(at + columns + 32 * group));
            if constexpr (CORNER > 0) wgmma<CORNER>(sums.corner_re, corner, rows_descriptor(at + 32 * group));
            if (group % 2 == 0) {
                held[0] = turned[2];
                held[1] = turned[3];
                if constexpr (CORNER > 0) {
                    corner_held[0] = negate_bytes(corner[0]);
                    corner_held[1] = negate_bytes(corner[1]);
                }
            } else {
                if constexpr (X > 0) wgmma<X>(sums.x, mixed, rows_descriptor(at + row * ROW + 32 * (group - 1) + 16));
                if constexpr (CORNER > 0) {
                    const uint32_t mixed[4] = {corner_held[0], corner_held[1], corner[2], corner[3]};
                    wgmma<CORNER>(sums.corner_x, mixed, rows_descriptor(at + 32 * (group - 1) + 16));
                }
            }
            wgmma_commit();
            wgmma_wait<1>();
            if (group == 0 && block > 0) {  // the stage before has been read
                __syncwarp();
                if (threadIdx.x % 32 == 0) barrier_arrive(ring.empty + previous);
            }
        }
        previous = place.stage;
        place.advance();
    }
    wgmma_wait<0>();
    settle(sums.re);
    settle(sums.im);
    settle(sums.x);
    settle(sums.corner_re);
    settle(sums.corner_x);
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(ring.empty + previous);
}

// Write the sums of a warp's 16 rows with COUNT columns; `re` may begin with those of other columns.
template <int COUNT, int SIZE>
DEVICE void put(int* to, const int (&re)[SIZE], const int (&im)[COUNT / 2], int from, int row, int column, bool add) {
    constexpr int AT_ONCE = COUNT > 128 ? 1 : 4;  // as many as there are registers for
    const int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    row += threadIdx.x % 128 / 32 * 16 + g;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        Pairs pairs(to, row + 8 * half);
#pragma unroll
        for (int n = 0; n < COUNT / 8; n += AT_ONCE) {
            int4 before[AT_ONCE] = {};
            if (add) {
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i)
                    if (n + i < COUNT / 8) before[i] = pairs.get(column + 8 * (n + i) + 2 * q);
            }
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i)
                if (n + i < COUNT / 8) {
                    const int d = 4 * (n + i) + 2 * half;
                    pairs.put(column + 8 * (n + i) + 2 * q, before[i], re[from + d], im[d], re[from + d + 1],
                              im[d + 1]);
                }
        }
    }
}

// Im = X - X^T of 64 rows with themselves, through the warpgroup's scratch.
template <int X, int WARPGROUP>
DEVICE void turn(int (&x)[X / 2], int* scratch) {
    const int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4, row = threadIdx.x % 128 / 32 * 16 + g;
    barrier(1 + WARPGROUP, 128);  // the scratch is free
#pragma unroll
    for (int i = 0; i < X / 4; ++i) {
        int* to = scratch + (row + 8 * (i % 2)) * TURN_PITCH + 8 * (i / 2) + 2 * q;
        *reinterpret_cast<int2*>(to) = make_int2(x[2 * i], x[2 * i + 1]);
    }
    barrier(1 + WARPGROUP, 128);
#pragma unroll
    for (int i = 0; i < X / 2; ++i) x[i] -= scratch[(8 * (i / 4) + 2 * q + i % 2) * TURN_PITCH + row + 8 * (i / 2 % 2)];
}

// Multiply a tile and write it: of inputs from `first_row` and `first_column` on.
template <int FULL, int X, int CORNER, int WARPGROUP>
DEVICE void tile(const Ring& ring, Place& place, int blocks, int row, int columns, int* to, int first_row,
                 int first_column, int* scratch, bool add) {
    Sums<FULL, X, CORNER> sums;
    multiply(sums, ring, place, blocks, row, columns);
    keep_here(first_row);  // or addresses would be computed, and held, before the loop
    if constexpr (X > 0) {
        turn<X, WARPGROUP>(sums.x, scratch);
        put<X>(to, sums.re, sums.x, FULL / 2, first_row, first_row, add);
    }
    if constexpr (FULL > 0) put<FULL>(to, sums.re, sums.im, 0, first_row, first_column, add);
    if constexpr (CORNER > 0) {
        turn<CORNER, WARPGROUP>(sums.corner_x, scratch);
        if (threadIdx.x % 128 / 32 * 16 < CORNER)
            put<CORNER>(to, sums.corner_re, sums.corner_x, 0, first_column, first_column, add);
    }
}

// Fetch what a team needs, in the order of the tiles it draws.
DEVICE void produce(const Ring& ring, const unsigned char* maps, int* counter, int works, int channels, int first_block,
                    int blocks) {
    // All multiprocessors would finish their tiles, and write, at once: let them begin in eight steps.
    if (SPREAD > 0) __nanosleep(blockIdx.x % 8 * min(SPREAD, blocks * 80));
    map_acquire(maps);
    map_acquire(maps + 128);
    Place place;
    int next = atomicAdd(counter, 1);
    while (true) {
        const int work = next;
        if (work < works)
            next = atomicAdd(counter, 1);  // early: the answer takes a while
        else if (work == works + TEAMS * int(gridDim.x) - 1)
            *counter = 0;  // everyone has drawn for the last time; ready for the next launch
        const Tile tile = tile_of(work < works ? work : 0, channels);
        const int first = first_block + tile.integration * blocks;
        for (int block = 0; block < (work < works ? blocks : 1); ++block) {
            barrier_wait(ring.empty + place.stage, place.parity ^ 1);
            ring.work[place.stage] = work < works ? work : -1;
            uint64_t* full = ring.full + place.stage;
            unsigned char* stage = ring.stages + place.stage * FETCH_STAGE;
            if (work >= works) {
                barrier_arrive(full);
            } else if (RUNS == 1 || tile.rows == tile.columns) {
                barrier_arrive_expecting(full, (tile.rows ? 128 : FIRST) * FETCH_ROW);
                fetch_box(stage, maps + (tile.rows ? 128 : 0), full, first_input(tile.rows), first + block,
                          tile.channel);
            } else {
                barrier_arrive_expecting(full, (128 + (tile.columns ? 128 : FIRST)) * FETCH_ROW);
                fetch_box(stage, maps + 128, full, first_input(tile.rows), first + block, tile.channel);
                fetch_box(stage + 128 * FETCH_ROW, maps + (tile.columns ? 128 : 0), full, first_input(tile.columns),
                          first + block, tile.channel);
            }
            place.advance(FETCH_STAGES);
        }
        if (work >= works) return;
    }
}

// Expand what is fetched to what is multiplied; `thread` of the team's expanding warps.
DEVICE void expand(const Ring& raw, const Ring& ring, int thread, int channels) {
    constexpr uint32_t HIGH = 0xF0F0F0F0u;
    Place from, to;
    while (true) {
        barrier_wait(raw.full + from.stage, from.parity);
        const int work = raw.work[from.stage];
        barrier_wait(ring.empty + to.stage, to.parity ^ 1);
        if (work >= 0) {
            const Tile tile = tile_of(work, channels);
            const int rows = (tile.columns ? 128 : FIRST) + (tile.rows != tile.columns ? 128 : 0);
            // A thread's rows are a multiple of 8 apart, so that their chunks are exchanged alike.
            constexpr int STEP = 32 * EXPANDERS / GROUPS, AT_ONCE = 4;
            static_assert(STEP % 8 == 0);
            const unsigned char* packed = raw.stages + from.stage * FETCH_STAGE + thread * 16;
            unsigned char* re = ring.stages + to.stage * STAGE + chunk_offset(thread / GROUPS, thread % GROUPS * 2);
            unsigned char* im = ring.stages + to.stage * STAGE + chunk_offset(thread / GROUPS, thread % GROUPS * 2 + 1);
            for (int row = thread / GROUPS; row < rows; row += AT_ONCE * STEP) {
                uint4 both[AT_ONCE];  // read before any is written: the compiler may not exchange the two
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i)
                    if (row + i * STEP < rows) both[i] = *reinterpret_cast<const uint4*>(packed + i * STEP * FETCH_ROW);
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i)
                    if (row + i * STEP < rows) {
                        const uint4 b = both[i];
                        *reinterpret_cast<uint4*>(re + i * STEP * ROW) =
                            make_uint4(b.x & HIGH, b.y & HIGH, b.z & HIGH, b.w & HIGH);
                        *reinterpret_cast<uint4*>(im + i * STEP * ROW) =
                            make_uint4(b.x << 4 & HIGH, b.y << 4 & HIGH, b.z << 4 & HIGH, b.w << 4 & HIGH);
                    }
                packed += AT_ONCE * STEP * FETCH_ROW;
                re += AT_ONCE * STEP * ROW;
                im += AT_ONCE * STEP * ROW;
            }
            shared_writes_done();
        }
        if (thread == 0) ring.work[to.stage] = work;
        __syncwarp();
        if (thread % 32 == 0) {
            barrier_arrive(raw.empty + from.stage);
            barrier_arrive(ring.full + to.stage);
        }
        if (work < 0) return;
        from.advance(RAW_STAGES);
        to.advance();
    }
}

// Pass over a tile's data.
DEVICE void skip(const Ring& ring, Place& place, int blocks) {
    for (int block = 0; block < blocks; ++block) {
        barrier_wait(ring.full + place.stage, place.parity);
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(ring.empty + place.stage);
        place.advance();
    }
}

template <int WARPGROUP>
DEVICE void consume(const Ring& ring, int* scratch, int* sums, int channels, int blocks, bool add) {
    enum { SKIP, WHOLE, TRIANGLE, FIRST_TRIANGLE, RECTANGLE, FIRST_RECTANGLE };
    constexpr int W = WARPGROUP;
    Place place;
    // With a head start of one warpgroup, one multiplies while the other writes.
    if (W == 1 && HEAD_START > 0) __nanosleep(HEAD_START);
    while (true) {
        barrier_wait(ring.full + place.stage, place.parity);
        // A shuffle tells the compiler what is the same in all threads.
        const int work = __shfl_sync(~0u, ring.work[place.stage], 0);
        if (__any_sync(~0u, work < 0)) return;
        const Tile t = tile_of(work, channels);
        int* to = sums + (int64_t(t.integration) * channels + t.channel) * PRODUCTS * 2;
        const int rows = first_input(t.rows), columns = first_input(t.columns);
        int kind = t.rows != t.columns ? (SPARE > 0 && t.columns == 0 ? FIRST_RECTANGLE : RECTANGLE)
                                       : (SPARE > 0 && t.rows == 0 ? FIRST_TRIANGLE : TRIANGLE);
        if (HALF && W == 1 && t.rows == RUNS - 1) kind = SKIP;

        if constexpr (SMALL) tile<0, FIRST, 0, W>(ring, place, blocks, 0, 0, to, 0, 0, scratch, add);
        if constexpr (HALF && W == 1)
            if (__any_sync(~0u, kind == SKIP)) skip(ring, place, blocks);
        if constexpr (RUNS > 1 && (SPARE == 0 || RUNS > 2))
            if (__any_sync(~0u, kind == RECTANGLE))
                tile<128, 0, 0, W>(ring, place, blocks, 64 * W, 128 * ROW, to, rows + 64 * W, columns, scratch, add);
        if constexpr (RUNS > 1 && SPARE > 0)
            if (__any_sync(~0u, kind == FIRST_RECTANGLE))
                tile<FIRST, 0, 0, W>(ring, place, blocks, 64 * W, 128 * ROW, to, rows + 64 * W, 0, scratch, add);
        if constexpr (!SMALL && (RUNS > 1 || SPARE == 0))
            if (__any_sync(~0u, kind == TRIANGLE))
                tile<64 * W, 64, 0, W>(ring, place, blocks, 64 * W, 0, to, rows + 64 * W, columns, scratch, add);
        if constexpr (SPARE > 0)
            if (__any_sync(~0u, kind == FIRST_TRIANGLE))
                tile<SPARE + 64 * W, 64, W ? 0 : SPARE, W>(ring, place, blocks, SPARE + 64 * W, 0, to, SPARE + 64 * W,
                                                           0, scratch, add);
    }
}

// Sum `blocks` K-blocks from `first_block` on for each of several integrations, one after the other in the data
// [channel][block][input][128] that `maps` describe (boxes of FIRST and of 128 rows), to sums
// [integration][channel][product][re, im]. `works` is TILES · channels · integrations; `counter` is 0, and 0 again
// after.
KERNEL(THREADS, 1)
correlate(const unsigned char* maps, int* sums, int* counter, int works, int channels, int first_block, int blocks,
          int add) {
    SHARED_BYTES(shared);
    int* scratch = reinterpret_cast<int*>(shared + TEAMS * (STAGES * STAGE + RAW));
    uint64_t* barriers = reinterpret_cast<uint64_t*>(scratch + 2 * TURN / 4);
    uint64_t* raw_barriers = barriers + 2 * TEAMS * STAGES;
    int* work = reinterpret_cast<int*>(raw_barriers + 2 * TEAMS * RAW_STAGES);
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
    if (threadIdx.x == 0) {
        if (shared_address(shared) % 1024 != 0) __trap();
        for (int i = 0; i < TEAMS * STAGES; ++i) {
            barrier_init(barriers + i, PACKED ? EXPANDERS : 1);
            barrier_init(barriers + TEAMS * STAGES + i, 4 * WARPGROUPS);
        }
        for (int i = 0; i < TEAMS * RAW_STAGES; ++i) {
            barrier_init(raw_barriers + i, 1);
            barrier_init(raw_barriers + TEAMS * RAW_STAGES + i, EXPANDERS);
        }
        barrier_init_done();
    }
    __syncthreads();
    auto ring = [&](int team) {
        return Ring{shared + team * STAGES * STAGE, barriers + team * STAGES, barriers + (TEAMS + team) * STAGES,
                    work + team * STAGES};
    };
    if (warpgroup == 2) {
        registers_give<PRODUCER_REGISTERS>();
        const int warp = threadIdx.x % 128 / 32;
        auto raw = [&](int team) {
            return Ring{shared + TEAMS * STAGES * STAGE + team * RAW, raw_barriers + team * RAW_STAGES,
                        raw_barriers + (TEAMS + team) * RAW_STAGES, work + TEAMS * STAGES + team * RAW_STAGES};
        };
        if (warp < TEAMS) {
            if (threadIdx.x % 32 == 0)
                produce(PACKED ? raw(warp) : ring(warp), maps, counter, works, channels, first_block, blocks);
        } else if (PACKED && warp < TEAMS * (1 + EXPANDERS)) {
            const int team = SMALL ? warp - TEAMS : 0;
            expand(raw(team), ring(team), threadIdx.x % 128 - 32 * (TEAMS + team), channels);
        }
    } else if (warpgroup == 0) {
        registers_take<CONSUMER_REGISTERS>();
        consume<0>(ring(0), scratch, sums, channels, blocks, add);
    } else {
        registers_take<CONSUMER_REGISTERS>();
        consume<1>(ring(TEAMS - 1), scratch + TURN / 4, sums, channels, blocks, add);
    }
}
