// The X-engine by mma.sync, for every GPU since Ampere: one block of threads a tile of the triangle.
//
// A unit is what one warp sums, WM x WN products. A tile is GM x GN units, one of them the whole triangle if WHOLE is
// set: then there are as many warps as units that are not wholly above the diagonal. In other tiles on the diagonal,
// and in the last ones, units are handed out anew, so that warps with less to do share a quarter of the multiprocessor
// with others that have more. K-blocks pass through a ring of STAGES in shared memory; what a matrix step needs is
// loaded to registers while the step before is under way, unless PACKED.
#include "ryle/correlate/kblocks.cuh"

using namespace ryle;

// Whether a product is kept, and the place of its column in the row.
DEVICE bool kept(int row, int column) { return row < INPUTS && column / POLS <= row / POLS; }
DEVICE int column_place(int column) { return POLS * POLS * (column / POLS) + column % POLS; }

// Sums in the output of one row with pairs of columns c, c + 1, c even.
struct Pairs {
    int* sums;
    int row;
    DEVICE Pairs(int* output, int r) : sums(output + 2 * row_place(r)), row(r) {}

    // What is there now: re, im of either column.
    DEVICE int4 get(int column) const {
        int4 value = make_int4(0, 0, 0, 0);
        if (!kept(row, column)) return value;
        const int* from = sums + 2 * column_place(column);
        if constexpr (POLS == 2)  // both columns are of one antenna
            return *reinterpret_cast<const int4*>(from);
        const int2 first = *reinterpret_cast<const int2*>(from);
        value.x = first.x, value.y = first.y;
        if (kept(row, column + 1)) {
            const int2 second = *reinterpret_cast<const int2*>(from + 2);
            value.z = second.x, value.w = second.y;
        }
        return value;
    }
    // Write `before` and new sums; im is that of x_r conj(x_c), of which the conjugate is kept.
    DEVICE void put(int column, const int4& before, int re0, int im0, int re1, int im1) const {
        re0 >>= SHIFT, im0 >>= SHIFT, re1 >>= SHIFT, im1 >>= SHIFT;
        if (!kept(row, column)) return;
        int* to = sums + 2 * column_place(column);
        if constexpr (POLS == 2) {
            *reinterpret_cast<int4*>(to) = make_int4(before.x + re0, before.y - im0, before.z + re1, before.w - im1);
        } else {
            *reinterpret_cast<int2*>(to) = make_int2(before.x + re0, before.y - im0);
            if (kept(row, column + 1)) *reinterpret_cast<int2*>(to + 2) = make_int2(before.z + re1, before.w - im1);
        }
    }
};

// Whether a matrix step's data are loaded during the one before; with PACKED, there are too few registers for it.
constexpr bool PREFETCH = !PACKED;

DEVICE constexpr int round_up(int n, int to) { return (n + to - 1) / to * to; }

// Units of the strips before `strip` of a whole triangle.
DEVICE constexpr int units_before(int strip) {
    int units = 0;
    for (int s = 0; s < strip; ++s) {
        const int columns = (s + 1) * WM < INPUTS ? (s + 1) * WM : INPUTS;
        units += (columns + WN - 1) / WN;
    }
    return units;
}

constexpr int STRIPS = (INPUTS + WM - 1) / WM;  // of a whole triangle
constexpr int WARPS = WHOLE ? units_before(STRIPS) : GM * GN;
constexpr int THREADS = 32 * WARPS;
constexpr int M = WM / 16, N = WN / 8;  // matrix instructions of a unit
constexpr int ROWS = WHOLE ? (round_up(INPUTS, WM) > round_up(INPUTS, WN) ? round_up(INPUTS, WM) : round_up(INPUTS, WN))
                           : GM * WM;  // and as many columns
static_assert(WM % 16 == 0 && WN % 8 == 0 && (WHOLE || GM * WM == GN * WN) && ROWS % 8 == 0 && WARPS <= 32);
constexpr int TILES = WHOLE ? 1 : (INPUTS + ROWS - 1) / ROWS;
constexpr int WIDTH = PACKED ? ROW / 2 : ROW;  // bytes of a row as it comes
constexpr int HALF_STAGE = ROWS * WIDTH;
constexpr int STAGE = TILES == 1 ? HALF_STAGE : 2 * HALF_STAGE;  // rows, then columns unless they are the same

// Where a row's 16 bytes lie in a stage: exchanged so that eight rows' equal chunks are in different banks.
DEVICE int place(int row, int chunk) {
    return PACKED ? row * WIDTH + ((chunk ^ (row >> 1 & 3)) << 4) : chunk_offset(row, chunk);
}

// Rows and columns, from here on in the tile, of a warp's unit; of `live` columns some product is kept.
struct Unit {
    int row, column, live;
};

DEVICE Unit unit_at(int index, int row0, int column0) {
    Unit unit{index / GN * WM, index % GN * WN, 0};
    if (row0 + unit.row < INPUTS)
        unit.live = max(0, min(WN, min(row0 + unit.row + WM, round_up(INPUTS, 8)) - column0 - unit.column));
    return unit;
}

// The unit of a warp. Of warps whose numbers differ by 4, which share matrix units, each has less than the one before.
DEVICE Unit unit_of(int warp, int row0, int column0) {
    if constexpr (WHOLE) {
        int strip = 0;
        while (units_before(strip + 1) <= warp) ++strip;
        return {strip * WM, (warp - units_before(strip)) * WN, WN};
    } else {
        for (int size = 2; size >= 0; --size)
            for (int i = 0; i < WARPS; ++i) {
                const Unit unit = unit_at(i, row0, column0);
                if ((unit.live > 0) + (unit.live > WN / 2) == size && warp-- == 0) return unit;
            }
        return {0, 0, 0};
    }
}

// The block's K-blocks on their way to shared memory.
struct Ring {
    unsigned char* stages;
    const unsigned char* from;  // row 0 of the next K-block to fetch
    int row0, column0, left;    // K-blocks to fetch
    int filled = 0;             // offset of the stage to fill next

    DEVICE void fetch(unsigned char* to, int first) {
        const unsigned char* rows = from + first * WIDTH;
        constexpr int COPIES = ROWS * (WIDTH / 16);
#pragma unroll
        for (int i = 0; i < (COPIES + THREADS - 1) / THREADS; ++i) {
            const int n = threadIdx.x + i * THREADS, row = n / (WIDTH / 16);
            if (COPIES % THREADS == 0 || n < COPIES)
                copy_async<16>(to + place(row, n % (WIDTH / 16)), rows + n * 16,
                               INPUTS % ROWS == 0 || first + row < INPUTS);
        }
    }
    // Start to fetch the next K-block, rows that do not exist as zeros.
    DEVICE void fill() {
        if (left > 0) {
            fetch(stages + filled, row0);
            if (TILES > 1 && row0 != column0) fetch(stages + filled + HALF_STAGE, column0);
            from += INPUTS * WIDTH;
            --left;
        }
        copy_async_commit();
        filled = filled == (STAGES - 1) * STAGE ? 0 : filled + STAGE;
    }
    // The K-block fetched longest ago is there, and the one before has been read, by all.
    DEVICE static void turn() {
        copy_async_wait<STAGES - 2>();
        __syncthreads();
    }
};

// What a warp's matrix step needs: rows [re | im] and columns [re | im].
template <int COLUMNS>
struct Fragments {
    uint32_t a[M][4], b[COLUMNS][2];

    // Group `group` of a stage, whose place is `stage`; `row` and `column` are where this lane's addresses begin in it.
    // They are made anew for each group, with one operation: kept, they would take the registers that the sums need.
    DEVICE void load(const unsigned char* stages, int stage, int row, int column, int group) {
        if constexpr (PACKED) {
            const int q = threadIdx.x % 4 * 4;
#pragma unroll
            for (int m = 0; m < M; ++m)
#pragma unroll
                for (int i = 0; i < 2; ++i) take(a[m][i], a[m][2 + i], stages + stage, row + 16 * m + 8 * i, group, q);
#pragma unroll
            for (int n = 0; n < COLUMNS; ++n) take(b[n][0], b[n][1], stages + stage, column + 8 * n, group, q);
        } else {
            const unsigned char* rows = stages + (stage + row ^ group << 5);
            const unsigned char* columns = stages + (stage + column ^ group << 5);
#pragma unroll
            for (int m = 0; m < M; ++m) load_matrices(a[m], rows + m * 16 * ROW);
#pragma unroll
            for (int n = 0; n + 1 < COLUMNS; n += 2) {
                uint32_t two[4];
                load_matrices(two, columns + n * 8 * ROW);
                b[n][0] = two[0], b[n][1] = two[1], b[n + 1][0] = two[2], b[n + 1][1] = two[3];
            }
            if constexpr (COLUMNS % 2 == 1) load_matrices(b[COLUMNS - 1], columns + (COLUMNS - 1) * 8 * ROW);
        }
    }
    // Parts of four bits, 16 times too large.
    DEVICE static void take(uint32_t& re, uint32_t& im, const unsigned char* stage, int row, int group, int q) {
        const uint32_t both = *reinterpret_cast<const uint32_t*>(stage + place(row, group) + q);
        re = both & HIGH_PARTS;
        im = both << 4 & HIGH_PARTS;
    }
};

// Where a lane's addresses in a stage begin: that of load_matrices for a group's re and im, or, PACKED, its own row.
DEVICE int row_start(int row) {
    const int lane = threadIdx.x % 32;
    return PACKED ? row + lane / 4 : place(row + lane % 16, lane / 16);
}
DEVICE int column_start(int column) {
    const int lane = threadIdx.x % 32;
    return PACKED ? column + lane / 4 : place(column + lane / 16 * 8 + lane % 8, lane / 8 % 2);
}

// Sum one unit's products of COLUMNS times 8 columns, over `blocks` K-blocks, and write them.
template <int COLUMNS>
DEVICE void correlate_unit(Ring& ring, const Unit& unit, int blocks, int* sums, bool add) {
    int re[M][COLUMNS][4] = {}, im[M][COLUMNS][4] = {};
    Fragments<COLUMNS> fragments[2];
    const int row = row_start(unit.row);
    const bool apart = TILES > 1 && ring.row0 != ring.column0;
    const int column = column_start(unit.column + (PACKED && apart ? ROWS : 0)) + (!PACKED && apart ? HALF_STAGE : 0);
    int stage = 0;
    if constexpr (PREFETCH) {
        ring.turn();
        fragments[0].load(ring.stages, stage, row, column, 0);
    }
    for (int block = 0; block < blocks; ++block) {
        if constexpr (!PREFETCH) {
            ring.turn();
            ring.fill();
        }
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
            Fragments<COLUMNS>& now = fragments[group % 2];
            if constexpr (PREFETCH) {
                if (group == GROUPS - 1) {
                    stage = stage == (STAGES - 1) * STAGE ? 0 : stage + STAGE;
                    ring.turn();
                }
                fragments[(group + 1) % 2].load(ring.stages, stage, row, column, (group + 1) % GROUPS);
                if (group == 0) ring.fill();
            } else {
                now.load(ring.stages, stage, row, column, group);
            }
            uint32_t turned[M][4];  // [im | -re]
#pragma unroll
            for (int m = 0; m < M; ++m)
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    turned[m][i] = now.a[m][2 + i];
                    turned[m][2 + i] = negate_bytes(now.a[m][i]);
                }
#pragma unroll
            for (int n = 0; n < COLUMNS; ++n)
#pragma unroll
                for (int m = 0; m < M; ++m) {
                    mma_16x8x32_s8(re[m][n], now.a[m], now.b[n][0], now.b[n][1]);
                    mma_16x8x32_s8(im[m][n], turned[m], now.b[n][0], now.b[n][1]);
                }
        }
        if constexpr (!PREFETCH) stage = stage == (STAGES - 1) * STAGE ? 0 : stage + STAGE;
    }
    int g = threadIdx.x % 32 / 4, first = ring.column0 + unit.column + threadIdx.x % 4 * 2;
    anchor(g);  // or addresses would be computed, and held, before the loop
    anchor(first);
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const Pairs pairs(sums, ring.row0 + unit.row + 16 * m + g + 8 * half);
            constexpr int AT_ONCE = 3;
#pragma unroll
            for (int n = 0; n < COLUMNS; n += AT_ONCE) {
                int4 before[AT_ONCE] = {};
                if (add) {
#pragma unroll
                    for (int i = 0; i < AT_ONCE; ++i)
                        if (n + i < COLUMNS) before[i] = pairs.get(first + 8 * (n + i));
                }
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i)
                    if (n + i < COLUMNS)
                        pairs.put(first + 8 * (n + i), before[i], re[m][n + i][2 * half], im[m][n + i][2 * half],
                                  re[m][n + i][2 * half + 1], im[m][n + i][2 * half + 1]);
            }
        }
}

// Only help with fetching.
DEVICE void help(Ring& ring, int blocks) {
    for (int block = 0; block < blocks; ++block) {
        ring.turn();
        ring.fill();
    }
    if (PREFETCH) ring.turn();
}

// Sum `blocks` K-blocks from `first_block` on for each of gridDim.z integrations, one after the other in the data
// [channel][all_blocks][input][128], to sums [integration][channel][product][re, im]; blockIdx.y is the channel.
KERNEL(THREADS, BLOCKS_PER_SM)
correlate(const unsigned char* data, int* sums, int all_blocks, int first_block, int blocks, int add) {
    SHARED_BYTES(shared);
    int row = 0, column = blockIdx.x;
    for (; column > row; ++row) column -= row + 1;
    const int64_t first = int64_t(blockIdx.y) * all_blocks + first_block + int64_t(blockIdx.z) * blocks;
    Ring ring{shared, data + first * INPUTS * WIDTH, row * ROWS, column * ROWS, blocks};
    for (int stage = 0; stage < STAGES - 1; ++stage) ring.fill();
    // A shuffle tells the compiler what is the same in all threads.
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    const Unit unit = unit_of(warp, ring.row0, ring.column0);
    int* to = sums + (int64_t(blockIdx.z) * gridDim.y + blockIdx.y) * PRODUCTS * 2;
    if (unit.live > (N % 2 ? 0 : WN / 2))
        correlate_unit<N>(ring, unit, blocks, to, add);
    else if (!WHOLE && unit.live > 0)
        correlate_unit<(N + 1) / 2>(ring, unit, blocks, to, add);
    else if (!WHOLE)
        help(ring, blocks);
}
