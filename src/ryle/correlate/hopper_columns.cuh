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

// Transpose the columns that were fetched where they lie, box by box, and mend -128 before, in tiles of a run with
// itself: each input is in one such tile. A team's transposing warps share each box, all have read it before any
// writes, and read the next one before, too, so that nobody waits for what is read.
struct Transposer {
    static constexpr int OWN = 4 / TOGETHER;  // sixteens of a box that a warp has
    struct Part {
        Sixteen sixteens[OWN];
    };
    const Ring& ring;
    const Clamping& clamping;
    const int team;
    Place place = {};
    Tile tile = {};
    int columns = 0;  // where in a stage
    bool wanted = false;

    // A warp's nth sixteen of a box, and whether it has inputs.
    DEVICE static int sixteen(int n) { return n * TOGETHER + threadIdx.x / 32 % TOGETHER; }
    DEVICE static bool live(int box, int n) {
        constexpr int COUNT = (RUNS == 1 ? FIRST : 128) / 16;
        return COUNT % 4 == 0 || 4 * box + sixteen(n) < COUNT;
    }
    DEVICE void read(Part& part, int box) const {
        if (box == 0) barrier_wait(ring.fetched + place.stage, place.parity);
        const unsigned char* boxes = ring.stages + place.stage * STAGE + columns;
#pragma unroll
        for (int n = 0; n < OWN; ++n)
            if (live(box, n)) part.sixteens[n].read(boxes + box * BOX, sixteen(n));
    }
    // Look for -128 in what was read, and mend it.
    DEVICE void look(Part& part, const unsigned char* from, int box, int spectrum) const {
        bool suspect = false;
#pragma unroll
        for (int n = 0; n < OWN; ++n)
            if (live(box, n)) suspect |= part.sixteens[n].suspect();
        if (!__any_sync(~0u, suspect)) return;
        const int input = (RUNS == 1 ? 0 : 128 * tile.columns) + BOX_INPUTS * box;
#pragma unroll
        for (int n = 0; n < OWN; ++n) {
            if (!live(box, n)) continue;
            clamping.mend(from, sixteen(n), tile.channel, input, spectrum);
            part.sixteens[n].mend();
        }
    }
    // Tell of the K-block that was written before; late, when it has arrived.
    DEVICE void tell() const {
        shared_writes_done();
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(ring.full + place.before());
    }
    // Write a K-block whose first box is in `even`, and read the first box of the next into the part that is free.
    DEVICE void block(Part& even, Part& odd, int spectrum, bool first, bool last) {
        if (!first) tell();
        unsigned char* boxes = ring.stages + place.stage * STAGE + columns;
#pragma unroll
        for (int box = 0; box < RUN_BOXES; ++box) {
            Part &own = box % 2 ? odd : even, &free = box % 2 ? even : odd;
            if (box == RUN_BOXES - 1) place.advance();
            if (box < RUN_BOXES - 1 || !last) read(free, (box + 1) % RUN_BOXES);
            if (wanted) look(own, boxes + box * BOX, box, spectrum);
            barrier(5 + team, 32 * TOGETHER);
#pragma unroll
            for (int n = 0; n < OWN; ++n)
                if (live(box, n)) own.sixteens[n].write(boxes + box * BOX + sixteen(n) * 16 * ROW);
        }
    }
    DEVICE void all(int first_block, int blocks) {
        while (next_tile(tile, ring, place)) {
            const bool same = RUNS == 1 || tile.rows == tile.columns;
            columns = same ? 0 : COLUMNS;
            wanted = clamping.wanted && same;
            const int spectrum = (first_block + tile.integration * blocks) * BLOCK;
            Part one, other;
            read(one, 0);
#pragma unroll 1
            for (int i = 0; i < blocks; ++i) {
                block(one, other, spectrum + i * BLOCK, i == 0, i == blocks - 1);
                if (RUN_BOXES % 2 == 0) continue;
                if (++i == blocks) break;
                block(other, one, spectrum + i * BLOCK, false, i == blocks - 1);
            }
            tell();
        }
    }
};

}  // namespace ryle
