// The X-engine by mma.sync, for every GPU since Ampere: one block of threads a tile of the triangle.
//
// A tile is GM x GN warps of WM x WN products; warps wholly above the diagonal or outside only help with loading.
// K-blocks pass through a ring of STAGES in shared memory.
#include "ryle/correlate/kblocks.cuh"

using namespace ryle;

constexpr int WARPS = GM * GN;
constexpr int THREADS = 32 * WARPS;
constexpr int TILE = GM * WM;  // rows, and as many columns
static_assert(GM * WM == GN * WN && WM % 16 == 0 && WN % 8 == 0 && TILE % 8 == 0);
constexpr int WIDTH = PACKED ? ROW / 2 : ROW;  // bytes of a row as it comes
constexpr int STAGE = 2 * TILE * WIDTH;

// Where a row's 16 bytes lie in a stage: exchanged so that eight rows' equal chunks are in different banks.
DEVICE int place(int row, int chunk) {
    return PACKED ? row * WIDTH + ((chunk ^ (row >> 1 & 3)) << 4) : chunk_offset(row, chunk);
}

// Real and imaginary parts of four spectra of a group. Those of four bits are taken 16 times too large.
DEVICE void take(uint32_t& re, uint32_t& im, const unsigned char* tile, int row, int group, int q) {
    if constexpr (PACKED) {
        const uint32_t both = *reinterpret_cast<const uint32_t*>(tile + place(row, group) + 4 * q);
        re = both & 0xF0F0F0F0u;
        im = both << 4 & 0xF0F0F0F0u;
    } else {
        re = parts(tile, row, 2 * group, q);
        im = parts(tile, row, 2 * group + 1, q);
    }
}

// Start to fetch one K-block's rows from `first` on; those that do not exist become zero.
DEVICE void fetch(unsigned char* tile, const unsigned char* rows, int first) {
    for (int n = threadIdx.x; n < TILE * (WIDTH / 16); n += THREADS) {
        const int row = n / (WIDTH / 16), chunk = n % (WIDTH / 16);
        const bool exists = first + row < INPUTS;
        copy_async<16>(tile + place(row, chunk), rows + (exists ? (first + row) * WIDTH + chunk * 16 : 0), exists);
    }
}

// Sum `blocks` K-blocks from `first_block` on for each of gridDim.z integrations, one after the other in the data
// [channel][all_blocks][input][128], to sums [integration][channel][product][re, im]; blockIdx.y is the channel.
KERNEL(THREADS, BLOCKS_PER_SM)
correlate(const unsigned char* data, int* sums, int all_blocks, int first_block, int blocks, int add) {
    SHARED_BYTES(shared);
    int block_row = 0, block_column = blockIdx.x;
    for (; block_column > block_row; ++block_row) block_column -= block_row + 1;
    const int row0 = block_row * TILE, column0 = block_column * TILE;
    const bool diagonal = block_row == block_column;
    const int64_t block_bytes = int64_t(INPUTS) * WIDTH;
    const unsigned char* from =
        data + (int64_t(blockIdx.y) * all_blocks + first_block + int64_t(blockIdx.z) * blocks) * block_bytes;

    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    const int row = warp / GN * WM, column = warp % GN * WN;  // of this warp, in the tile
    const bool active = row0 + row < INPUTS && column0 + column < INPUTS && column0 + column <= row0 + row + WM - 1;

    int re[WM / 16][WN / 8][4] = {}, im[WM / 16][WN / 8][4] = {};
    auto load = [&](int block) {
        unsigned char* stage = shared + block % STAGES * STAGE;
        if (block < blocks) {
            fetch(stage, from + block * block_bytes, row0);
            if (!diagonal) fetch(stage + TILE * WIDTH, from + block * block_bytes, column0);
        }
        copy_async_commit();
    };
    for (int block = 0; block < STAGES - 1; ++block) load(block);
    for (int block = 0; block < blocks; ++block) {
        copy_async_wait<STAGES - 2>();
        __syncthreads();
        load(block + STAGES - 1);
        if (!active) continue;
        const unsigned char* rows = shared + block % STAGES * STAGE;
        const unsigned char* columns = diagonal ? rows : rows + TILE * WIDTH;
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
            uint32_t a[WM / 16][4], turned[WM / 16][4];  // [re | im] and [im | -re]
#pragma unroll
            for (int m = 0; m < WM / 16; ++m) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    take(a[m][i], a[m][2 + i], rows, row + 16 * m + g + 8 * i, group, q);
                }
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    turned[m][i] = a[m][2 + i];
                    turned[m][2 + i] = negate_bytes(a[m][i]);
                }
            }
#pragma unroll
            for (int n = 0; n < WN / 8; ++n) {
                uint32_t b0, b1;
                take(b0, b1, columns, column + 8 * n + g, group, q);
#pragma unroll
                for (int m = 0; m < WM / 16; ++m) {
                    mma_16x8x32_s8(re[m][n], a[m], b0, b1);
                    mma_16x8x32_s8(im[m][n], turned[m], b0, b1);
                }
            }
        }
    }
    if (!active) return;
    int* to = sums + (int64_t(blockIdx.z) * gridDim.y + blockIdx.y) * PRODUCTS * 2;
#pragma unroll
    for (int m = 0; m < WM / 16; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const Pairs pairs(to, row0 + row + 16 * m + g + 8 * half);
            const int first = column0 + column + 2 * q;
            int4 before[WN / 8] = {};
            if (add) {
#pragma unroll
                for (int n = 0; n < WN / 8; ++n) before[n] = pairs.get(first + 8 * n);
            }
#pragma unroll
            for (int n = 0; n < WN / 8; ++n)
                pairs.put(first + 8 * n, before[n], re[m][n][2 * half], im[m][n][2 * half], re[m][n][2 * half + 1],
                          im[m][n][2 * half + 1]);
        }
}
