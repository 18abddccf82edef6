// The X-engine for Hopper: int8 matrix instructions of warpgroups, fed by the copy engine.
//
// Blocks of threads live as long as the kernel. One thread fetches K-blocks of the tiles that it draws from a counter
// into a ring in shared memory; two warpgroups multiply, columns from there and rows from registers, where [re | im]
// becomes [-im | re], for the imaginary part of the conjugate, which is kept. The inputs are cut into a first run of
// 128 + SPARE (16 or 32 when few are left over, so that they waste little) and runs of 128. Tiles:
//
//  - rectangles, 128 rows times all columns of an earlier run: each warpgroup has 64 rows;
//  - triangles, a run with itself: warpgroup 0 has rows SPARE to SPARE + 63, warpgroup 1 the next 64, each with all
//    columns up to its own; the corner of the first SPARE rows falls to warpgroup 0, where some warps sum its real
//    parts and as many others its imaginary ones;
//  - of 64 inputs or fewer, the whole channel: then each warpgroup has its own ring and its own channels.
//
// Where rows and columns are the same 64 inputs, half the products are the conjugates of the others. All real parts are
// computed, but of -Im = M^T - M, with M = im · re^T, only X: sums that have M^T's terms of groups 0 and 2 and those of
// -M of groups 1 and 3. Then -Im = X - X^T, too. One step does two groups: [re_r(0) | -im_r(1)] · [im_c(0) | re_c(1)],
// for im(0) and re(1) are neighbours in a row.
//
// PACKED rows have 64 bytes of two four-bit parts each. Warps beside expand the columns, times 16; rows are expanded in
// registers. Sums are then 256 times too large until written.
//
// A warpgroup's sums leave while the other multiplies: some from registers, the others are laid down in shared memory,
// from where a thread beside has the copy engine send them while the warpgroup multiplies its next tile.
//
// hopper_shape.cuh has the sizes of all this, hopper_ring.cuh the thread that fetches, hopper_columns.cuh the warps
// beside, hopper_outlet.cuh the way out, hopper_trace.cuh where the time goes; here is the multiplication.
#include "ryle/correlate/hopper_columns.cuh"
#include "ryle/correlate/hopper_outlet.cuh"
#include "ryle/correlate/hopper_trace.cuh"

using namespace ryle;

// Whether rows come as samples, where the tile is a rectangle: in others they are the columns, which are transposed.
template <int X>
constexpr bool RAW = SAMPLES && X == 0;

// Where this thread's parts lie from a row of 64 on, its chunk 0. The rows of other chunks differ in bits 4 to 6 only,
// of PACKED ones in 4 and 5.
template <int LIVE, bool SAMPLED>
DEVICE int lane_offset(int row) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32 % (LIVE / 16);
    if constexpr (SAMPLED) return row / BOX_INPUTS * BOX + sample_offset(warp);
    const int first = FETCHED + (row + warp * 16) * FETCH_ROW;
    if constexpr (PACKED) return first + lane / 4 * FETCH_ROW + (lane / 8 % 4 << 4) + lane % 4 * 4;
    return first + chunk_offset(lane % 16, lane / 16);
}

// Four bytes a register of this warp's 16 rows, as the matrix instructions want a group of rows; zero in warps from
// `live` rows on. `at` is the stage's offset and this thread's in it. The address is made anew for each group, with one
// operation: kept, 16 of them would take the registers that the sums need.
template <int LIVE, bool SAMPLED>
DEVICE void load_rows(uint32_t (&a)[4], const unsigned char* stages, int at, int group) {
    const bool live = LIVE == 64 || static_cast<int>(threadIdx.x) % 128 / 32 * 16 < LIVE;
    if constexpr (SAMPLED) {
        uint32_t words[4];
        load_words(words, stages + group_offset(at, group));
        separate<true>(a, words);
        return;
    }
    if constexpr (PACKED) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const unsigned char* from = stages + (at ^ group << 4) + half * 8 * FETCH_ROW;
            const uint32_t both = live ? *reinterpret_cast<const uint32_t*>(from) : 0;
            a[half] = both & HIGH_PARTS;
            a[2 + half] = both << 4 & HIGH_PARTS;
        }
        return;
    }
    load_matrices(a, stages + (at ^ group << 5));
    if constexpr (LIVE < 64)
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] = live ? a[i] : 0;
}

// As load_rows of the CORNER: as many warps have its rows as they are, for real parts, as have them turned.
template <int CORNER>
DEVICE void load_corner(uint32_t (&a)[4], const unsigned char* stages, int at, int group) {
    static_assert(2 * CORNER <= 64);
    load_rows<2 * CORNER, false>(a, stages, at, group);
    const bool turned = static_cast<int>(threadIdx.x) % 128 / 32 * 16 >= CORNER;
    const uint32_t re[2] = {a[0], a[1]}, im[2] = {a[2], a[3]};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        a[i] = turned ? negate_bytes(im[i]) : re[i];
        a[2 + i] = turned ? re[i] : im[i];
    }
}

// Sums of 64 rows: complex with FULL columns, then, with their own X inputs, real parts and half of the imaginary
// parts; besides those of the CORNER, the tile's first rows with themselves. `im` and what becomes of `x` are those of
// the conjugates.
template <int FULL, int X, int CORNER>
struct Sums {
    static constexpr int SIZE = (FULL + X) / 2;
    int re[SIZE], im[FULL ? FULL / 2 : 1], x[X ? X / 2 : 1];
    int corner[CORNER ? CORNER / 2 : 1];  // real parts in the first warps, imaginary ones in as many others

    template <class F>
    DEVICE void each(F&& f) {
        f(re), f(im), f(x), f(corner);
    }
    DEVICE Sums() {
        each([](auto& sums) {
#pragma unroll
            for (int& sum : sums) sum = static_cast<int>(START);
        });
    }
    // Nothing may take or give them beyond this point.
    DEVICE void settled() {
        each([](auto& sums) { settle(sums); });
    }
};

// Multiply all K-blocks of a tile: this warpgroup's rows from `row` on in a stage, the columns from byte `columns` on.
template <int FULL, int X, int CORNER>
DEVICE void multiply(Sums<FULL, X, CORNER>& sums, const Ring& ring, Place& place, int blocks, int row, int columns) {
    constexpr int LIVE = FULL == 0 ? X : 64;
    // Whether there are registers for rows that wait until others have been multiplied.
    constexpr bool EARLY = 2 * FULL + 3 * X / 2 + CORNER <= 256;
    const int lane = lane_offset<LIVE, RAW<X>>(row);
    const int corner_lane = CORNER > 0 ? lane_offset<CORNER ? CORNER : 16, false>(0) : 0;
    constexpr int HELD = X > 0 ? SHARING : 1;  // K-blocks of a stage
    for (int block = 0; block < blocks; ++block) {
        const int part = block % HELD;
        if constexpr (BESIDE) barrier_wait(ring.fetched + place.stage, place.parity);
        if (part == 0) barrier_wait(ring.full + place.stage, place.parity);
        const int stage = place.stage * STAGE + part * RUN;
        const uint32_t at = shared_address(ring.stages + stage);
        uint32_t next[4], next_corner[4] = {}, held[2] = {};
        const auto load = [&](int group) {
            load_rows<LIVE, RAW<X>>(next, ring.stages, stage + lane, group);
            if constexpr (CORNER > 0) load_corner<CORNER>(next_corner, ring.stages, stage + corner_lane, group);
        };
        if constexpr (EARLY) load(0);
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
            if constexpr (!EARLY) load(group);
            const uint32_t a[4] = {next[0], next[1], next[2], next[3]};
            const uint32_t corner[4] = {next_corner[0], next_corner[1], next_corner[2], next_corner[3]};
            const uint32_t turned[4] = {negate_bytes(a[2]), negate_bytes(a[3]), a[0], a[1]};
            const uint32_t mixed[4] = {held[0], held[1], turned[0], turned[1]};
            wgmma_begin();
            wgmma<FULL + X>(sums.re, a, rows_descriptor(at + columns + 32 * group));
            if constexpr (FULL > 0) wgmma<FULL>(sums.im, turned, rows_descriptor(at + columns + 32 * group));
            if constexpr (CORNER > 0) wgmma<CORNER>(sums.corner, corner, rows_descriptor(at + 32 * group));
            if (group % 2 == 0) {
                held[0] = a[0];
                held[1] = a[1];
            } else {
                if constexpr (X > 0) wgmma<X>(sums.x, mixed, rows_descriptor(at + row * ROW + 32 * (group - 1) + 16));
            }
            wgmma_commit();
            if constexpr (EARLY)
                if (group < GROUPS - 1) load(group + 1);
            wgmma_wait<1>();  // of two, the assembler would not keep the rows from one turn of the loop to the next
            if (group == 0 && block > 0 && part == 0) ring.leave(place.before());
        }
        if (part == HELD - 1) place.advance();
    }
    if (HELD > 1 && blocks % HELD) place.advance();
    wgmma_wait<0>();
    sums.settled();
    ring.leave(place.before());
}

// Multiply a tile and write it to a result of the sums: of inputs from `first_row` and `first_column` on.
template <int FULL, int X, int CORNER, int WARPGROUP>
DEVICE void tile(const Ring& ring, Place& place, int blocks, int row, int columns, Outlet& outlet, int result,
                 int first_row, int first_column, const Trace& trace) {
    constexpr bool PAIRED = HEAPS && RAW<X>;
    Sums<FULL, X, CORNER> sums;
    multiply(sums, ring, place, blocks, row, columns);
    trace.note(MULTIPLIED);
    anchor(first_row);  // or addresses would be computed, and held, before the loop
    anchor(result);
    const int64_t begin = int64_t(result) * PRODUCTS * 2;
    outlet.claim();
    if constexpr (LAID > 0 && X > 0) barrier(1 + WARPGROUP, 128);  // of all warps, for all use its room
    if constexpr (X > 0) turn<X, WARPGROUP>(outlet, sums.x);
    if constexpr (LAID > 0 && CORNER > 0) write_corner<CORNER, WARPGROUP>(outlet, begin, sums.corner, first_column);
    if constexpr (FULL > 0)
        write<FULL, false, PAIRED, LAID>(outlet, begin, sums.re, sums.im, 0, first_row, first_column);
    if constexpr (X > 0)
        write<X, true, false, LAID>(outlet, begin, sums.re, sums.x, FULL / 2, first_row, first_column + FULL);
    // Late, when registers are free, unless something has been laid down where they pass.
    if constexpr (LAID == 0 && CORNER > 0) write_corner<CORNER, WARPGROUP>(outlet, begin, sums.corner, first_column);
    outlet.post(begin, first_row / 2 + Outlet::warp() * 8 + 4 * (2 - LAID), first_column / 2, (FULL + X) / 2);
    trace.note(WRITTEN);
}

template <int WARPGROUP>
DEVICE void consume(const Ring& ring, Outlet outlet, int channels, int blocks) {
    constexpr int W = WARPGROUP;
    Place place;
    Tile t;
    Trace trace(outlet.sums, W);
    while (next_tile(t, ring, place)) {
        trace.draw();
        const int result = t.integration * channels + t.channel;
        const int rows = first_input(t.rows), columns = first_input(t.columns);
        const auto is = [&](bool same, int run) {  // as a shuffle
            return __any_sync(
                ~0u, (t.rows == t.columns) == same && (run < 0 || SPARE == 0 || (t.columns == 0) == (run == 0)));
        };
        if constexpr (SMALL) {
            tile<0, FIRST, 0, W>(ring, place, blocks, 0, 0, outlet, result, 0, 0, trace);
            continue;
        }
        if constexpr (HALF && W == 1)
            if (__any_sync(~0u, t.rows == RUNS - 1)) {
                skip(ring, place, stages_of(t, blocks));
                trace.note(MULTIPLIED);
                trace.note(WRITTEN);
                continue;
            }
        if constexpr (RUNS > 1 && (SPARE == 0 || RUNS > 2))
            if (is(false, 1)) {
                tile<128, 0, 0, W>(ring, place, blocks, 64 * W, COLUMNS, outlet, result, rows + 64 * W, columns, trace);
                continue;
            }
        if constexpr (RUNS > 1 && SPARE > 0)
            if (is(false, 0)) {
                tile<FIRST, 0, 0, W>(ring, place, blocks, 64 * W, COLUMNS, outlet, result, rows + 64 * W, 0, trace);
                continue;
            }
        if constexpr (!SMALL && (RUNS > 1 || SPARE == 0))
            if (is(true, 1)) {
                tile<64 * W, 64, 0, W>(ring, place, blocks, 64 * W, 0, outlet, result, rows + 64 * W, columns, trace);
                continue;
            }
        if constexpr (SPARE > 0)
            if (is(true, 0))
                tile<SPARE + 64 * W, 64, W ? 0 : SPARE, W>(ring, place, blocks, SPARE + 64 * W, 0, outlet, result,
                                                           SPARE + 64 * W, 0, trace);
    }
    outlet.end();
    __syncwarp();  // or the compiler takes the loop for divergent and makes matrix instructions wait for each other
}

// Sum `blocks` K-blocks from `first_block` on for each of several integrations, one after the other in the data
// [channel][block][input][128] that `maps` describe (boxes of FIRST and of 128 rows), to sums
// [integration][channel][product][re, im]. `tiles` are `works` and one that is none; `counter` is 0, and 0 again after.
//
// SAMPLES lie in the order of others, and `maps` describes boxes of 64 inputs. With `clamp` their -128 are taken as
// -127 and counted in `clamped`; without it there must be none.
KERNEL(THREADS, 1)
correlate(const unsigned char* maps, const Tile* tiles, int* sums, int* counter, int works, int channels,
          int first_block, int blocks, int add
#if TIME_MAJOR || HEAPS
          ,
          uint64_t* clamped, int clamp
#endif
) {
    SHARED_BYTES(shared);
    unsigned char* slots = shared + TEAMS * STAGES * STAGE;
    Tile* coming = reinterpret_cast<Tile*>(slots + 2 * OUTLET);
    Row* rows = reinterpret_cast<Row*>(coming + TEAMS * STAGES);
    uint64_t* barriers = reinterpret_cast<uint64_t*>(rows + 2 * 16 * LAID);
    uint64_t* laid = barriers + 3 * TEAMS * STAGES;
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
    if (threadIdx.x == 0) {
        if (shared_address(shared) % 1024 != 0) __trap();
        for (int i = 0; i < TEAMS * STAGES; ++i) {
            barrier_init(barriers + i, 1);
            barrier_init(barriers + TEAMS * STAGES + i, 4 * WARPGROUPS);
            if (BESIDE) barrier_init(barriers + 2 * TEAMS * STAGES + i, HELPERS);
        }
        for (int i = 0; i < (LAID ? 2 * 8 : 0); ++i) barrier_init(laid + i, 1);
        barrier_init_done();
    }
    __syncthreads();
    auto ring = [&](int team) {
        uint64_t* fetched = barriers + team * STAGES;
        return Ring{shared + team * STAGES * STAGE, fetched, fetched + (BESIDE ? 2 * TEAMS * STAGES : 0),
                    fetched + TEAMS * STAGES, coming + team * STAGES};
    };
    auto outlet = [&](int of) {
        return Outlet{slots + of * OUTLET, rows + of * 16 * LAID, laid + of * 8, laid + of * 8 + 4, sums, add != 0};
    };
    if (BESIDE && warpgroup == 3) {
        registers_give<REGISTERS.beside>();
        const int team = TEAMS == 1 ? 0 : (threadIdx.x / 32 - 12) / HELPERS;
        const Ring own = ring(team);
#if TIME_MAJOR || HEAPS
        Transposer{own, clamped, clamp != 0, team}.all(blocks);
#else
        expand(own, threadIdx.x - 32 * (12 + team * HELPERS), blocks);
#endif
    } else if (warpgroup == 2) {
        registers_give<REGISTERS.fetch>();
        const int team = threadIdx.x / 32 - 8;
        if (team < TEAMS && threadIdx.x % 32 == 0)
            produce(ring(team), maps, tiles, counter, works, first_block, blocks);
        if constexpr (LAID > 0) {
            if (threadIdx.x == 320) outlet(0).send_all();
            if (threadIdx.x == 352) outlet(1).send_all();
        }
    } else if (warpgroup == 0) {
        registers_take<REGISTERS.first>();
        consume<0>(ring(0), outlet(0), channels, blocks);
    } else {
        registers_take<REGISTERS.second>();
        consume<1>(ring(TEAMS - 1), outlet(1), channels, blocks);
    }
}
