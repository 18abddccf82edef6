// What idle warps do beside those that multiply: they make columns, as the matrix instructions read them, of what was
// fetched.
#pragma once
#include "ryle/correlate/hopper_ring.cuh"

namespace ryle {

// Expand the columns that were fetched to what is multiplied; `thread` of the team's expanding warps.
DEVICE void expand(const Ring& ring, int thread, int blocks) {
    // A thread's rows are a multiple of 8 apart, so that their chunks are exchanged alike.
    constexpr int STEP = 32 * EXPANDERS / GROUPS, AT_ONCE = 4;
    static_assert(STEP % 8 == 0);
    const int first = thread / GROUPS, group = thread % GROUPS ^ first / 2 % 4;
    Place place;
    Tile tile;
    while (next_tile(tile, ring, place)) {
        const int rows = RUNS == 1 || tile.columns == 0 ? FIRST : 128;
        const int skipped = RUNS == 1 || tile.rows == tile.columns ? 0 : 128;
        for (int block = 0; block < blocks; ++block) {
            barrier_wait(ring.fetched + place.stage, place.parity);
            unsigned char* stage = ring.stages + place.stage * STAGE;
            const unsigned char* packed = stage + FETCHED + skipped * FETCH_ROW + thread * 16;
            unsigned char* re = stage + chunk_offset(first, group * 2);
            unsigned char* im = stage + chunk_offset(first, group * 2 + 1);
            for (int row = first; row < rows; row += AT_ONCE * STEP) {
                uint4 both[AT_ONCE];  // read before any is written: the compiler may not exchange the two
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i)
                    if (row + i * STEP < rows) both[i] = *reinterpret_cast<const uint4*>(packed + i * STEP * FETCH_ROW);
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i)
                    if (row + i * STEP < rows) {
                        const uint4 b = both[i];
                        *reinterpret_cast<uint4*>(re + i * STEP * ROW) =
                            make_uint4(b.x & HIGH_PARTS, b.y & HIGH_PARTS, b.z & HIGH_PARTS, b.w & HIGH_PARTS);
                        *reinterpret_cast<uint4*>(im + i * STEP * ROW) = make_uint4(
                            b.x << 4 & HIGH_PARTS, b.y << 4 & HIGH_PARTS, b.z << 4 & HIGH_PARTS, b.w << 4 & HIGH_PARTS);
                    }
                packed += AT_ONCE * STEP * FETCH_ROW;
                re += AT_ONCE * STEP * ROW;
                im += AT_ONCE * STEP * ROW;
            }
            shared_writes_done();
            __syncwarp();
            if (thread % 32 == 0) barrier_arrive(ring.full + place.stage);
            place.advance();
        }
    }
}

// Transpose the columns that were fetched where they lie; `warp` of the team's transposing warps. They share each box:
// all have read it before any writes.
DEVICE void transpose_columns(const Ring& ring, int team, int warp, int first_block, int blocks, Clamping clamping) {
    constexpr int COUNT = (RUNS == 1 ? FIRST : 128) / 16, OWN = 2;  // sixteens of a K-block, and of a warp at once
    Place place;
    Tile tile;
    while (next_tile(tile, ring, place)) {
        const int run = RUNS == 1 ? 0 : tile.columns;
        const bool same = RUNS == 1 || tile.rows == tile.columns;
        const bool look = clamping.wanted && same;  // each input is in one such tile
        clamping.channel = tile.channel;
        clamping.spectrum = (first_block + tile.integration * blocks) * BLOCK;
        for (int block = 0; block < blocks; ++block, clamping.spectrum += BLOCK) {
            barrier_wait(ring.fetched + place.stage, place.parity);
            unsigned char* columns = ring.stages + place.stage * STAGE + (same ? 0 : COLUMNS);
#pragma unroll 1
            for (int round = 0; round < COUNT; round += OWN * TOGETHER) {
                Sixteen sixteens[OWN];
                const auto each = [&](auto&& act) {
#pragma unroll
                    for (int n = 0; n < OWN; ++n) {
                        const int first = round + n * TOGETHER;  // of the team's warps
                        if (COUNT % (OWN * TOGETHER) == 0 || first + warp < COUNT) act(sixteens[n], first);
                    }
                };
                each([&](Sixteen& own, int first) { own.read(columns + first / 4 * BOX, first % 4 + warp); });
                if (look) {
                    bool suspect = false;
                    each([&](const Sixteen& own, int) { suspect |= own.suspect(); });
                    if (__any_sync(~0u, suspect))
                        each([&](Sixteen& own, int first) {
                            own.mend<(RUNS > 1)>(clamping, 128 * run + 16 * (first + warp));
                        });
                }
                barrier(5 + team, 32 * TOGETHER);
                each([&](const Sixteen& own, int first) { own.write(columns + (first + warp) * 16 * ROW); });
            }
            shared_writes_done();
            __syncwarp();
            if (threadIdx.x % 32 == 0) barrier_arrive(ring.full + place.stage);
            place.advance();
        }
    }
}

}  // namespace ryle
