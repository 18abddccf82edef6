// What warps do beside those that multiply: they make columns, as the matrix instructions read them, of what was
// fetched.
#pragma once
#include "ryle/correlate/hopper_ring.cuh"

namespace ryle {

// Tell of the K-block that a warp wrote before; late, when it has arrived.
DEVICE void tell(const Ring& ring, const Place& place) {
    shared_writes_done();
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(ring.full + place.before());
}

// Expand the columns that were fetched to what is multiplied; `thread` of the team's warps beside.
DEVICE void expand(const Ring& ring, int thread, int blocks) {
    // A thread's rows are a multiple of 8 apart, so that their chunks are exchanged alike. They are read before any is
    // written, as many as there are registers for: the compiler may not exchange the two.
    constexpr int STEP = 32 * HELPERS / GROUPS, SHARE = (FIRST + STEP - 1) / STEP;
    constexpr int AT_ONCE = REGISTERS.beside < 40 ? 3 : SHARE;
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
#pragma unroll
            for (int begin = 0; begin < SHARE; begin += AT_ONCE) {
                uint4 both[AT_ONCE];
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i)
                    if (first + (begin + i) * STEP < rows)
                        both[i] = *reinterpret_cast<const uint4*>(packed + (begin + i) * STEP * FETCH_ROW);
                if (begin == 0 && block > 0) tell(ring, place);
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i)
                    if (first + (begin + i) * STEP < rows) {
                        const uint4 b = both[i];
                        *reinterpret_cast<uint4*>(re + (begin + i) * STEP * ROW) =
                            make_uint4(b.x & HIGH_PARTS, b.y & HIGH_PARTS, b.z & HIGH_PARTS, b.w & HIGH_PARTS);
                        *reinterpret_cast<uint4*>(im + (begin + i) * STEP * ROW) = make_uint4(
                            b.x << 4 & HIGH_PARTS, b.y << 4 & HIGH_PARTS, b.z << 4 & HIGH_PARTS, b.w << 4 & HIGH_PARTS);
                    }
            }
            place.advance();
        }
        tell(ring, place);
    }
}

// Transpose the columns that were fetched where they lie, box by box. A team's transposing warps share each box, all
// have read it before any writes, and read the next one before, too, so that nobody waits for what is read. In
// tiles of a run with itself they look for -128, to mend and count it: each input is in one such tile. In others they
// mend without looking.
struct Transposer {
    static constexpr int SIXTEENS = (RUNS == 1 ? FIRST : 128) / 16;  // that have inputs
    static constexpr int MOST = 4 * GROUPS / HELPERS;                // groups of a box that a warp has
    struct Part {
        uint32_t words[MOST][4];
    };
    const Ring& ring;
    uint64_t* const clamped;
    const bool looking;
    const int team;
    Place place = {};
    int columns = 0;  // where in a stage
    int mended = 0;   // of this thread

    // The sixteens of a box are shared out by groups: visit those of this warp, with their sixteen and group there.
    template <typename Visit>
    DEVICE static void share(int box, Visit visit) {
        const int count = min(4, SIXTEENS - 4 * box) * GROUPS / HELPERS, warp = threadIdx.x / 32 % HELPERS;
#pragma unroll
        for (int n = 0; n < MOST; ++n) {
            if (n >= count) continue;
            if (count % GROUPS == 0)  // whole ones, said so that the compiler sees it
                visit(n, warp * (count / GROUPS) + n / GROUPS, n % GROUPS);
            else
                visit(n, (warp * count + n) / GROUPS, (warp * count + n) % GROUPS);
        }
    }
    DEVICE void read(Part& part, int box) const {
        if (box == 0) barrier_wait(ring.fetched + place.stage, place.parity);
        const unsigned char* from = ring.stages + place.stage * STAGE + columns + box * BOX;
        share(box, [&](int n, int sixteen, int group) {
            load_words(part.words[n], from + group_offset(sample_offset(sixteen), group));
        });
    }
    DEVICE void look(Part& part, int box) {
        Least least;
        share(box, [&](int n, int, int) { least.take(part.words[n]); });
        if (__any_sync(~0u, least.lowest())) share(box, [&](int n, int, int) { mended += mend(part.words[n]); });
    }
    template <bool MEND>
    DEVICE void write(const Part& part, unsigned char* box_at, int box) const {
        int own = row_offset();
        anchor(own);  // or one for each group would be held
        share(box, [&](int n, int sixteen, int group) {
            uint32_t a[4];
            separate<MEND>(a, part.words[n]);
            store_matrices(box_at + sixteen * 16 * ROW + (own ^ group << 5), a);
        });
    }
    // Write a K-block whose first box is in `even`, and read the first box of the next into the part that is free.
    template <bool SAME>
    DEVICE void block(Part& even, Part& odd, bool first, bool last) {
        if (!first) tell(ring, place);
        unsigned char* boxes = ring.stages + place.stage * STAGE + columns;
#pragma unroll
        for (int box = 0; box < RUN_BOXES; ++box) {
            Part &own = box % 2 ? odd : even, &free = box % 2 ? even : odd;
            if (box == RUN_BOXES - 1) place.advance();
            if (box < RUN_BOXES - 1 || !last) read(free, (box + 1) % RUN_BOXES);
            if (SAME && looking) look(own, box);
            barrier(5 + team, 32 * HELPERS);
            write<!SAME>(own, boxes + box * BOX, box);
        }
    }
    template <bool SAME>
    DEVICE void tile(int blocks) {
        columns = SAME ? 0 : COLUMNS;
        Part one, other;
        read(one, 0);
#pragma unroll 1
        for (int i = 0; i < blocks; ++i) {
            block<SAME>(one, other, i == 0, i == blocks - 1);
            if (RUN_BOXES % 2 == 0) continue;
            if (++i == blocks) break;
            block<SAME>(other, one, false, i == blocks - 1);
        }
        tell(ring, place);
    }
    DEVICE void all(int blocks) {
        Tile next;
        while (next_tile(next, ring, place))
            if (RUNS == 1 || next.rows == next.columns)
                tile<true>(blocks);
            else
                tile<false>(blocks);
        mended = __reduce_add_sync(~0u, mended);
        if (mended && threadIdx.x % 32 == 0)
            atomicAdd(reinterpret_cast<unsigned long long*>(clamped), static_cast<unsigned long long>(mended));
    }
};

}  // namespace ryle
