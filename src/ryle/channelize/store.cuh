// How a tile of quantized spectra leaves shared memory: their power is added up, and they are stored in the layout
// asked for: rows and K-blocks, at strides, or MeerKAT's heaps.
#pragma once
#include "transform_shape.cuh"

namespace ryle {

// Where spectra go.
struct Destination {
    void* out;  // rows or K-blocks, or heaps
    int count;  // spectra of each input
    int pols;   // inputs of an antenna
    // Bytes between rows of 64 spectra.
    int64_t channel_bytes, block_bytes, antenna_bytes;
    // With OWN, where channels [own_first, own_end) go.
    void* own;
    int own_first, own_end;
    int64_t own_block_bytes, own_antenna_bytes;
    int heap;  // spectra of a heap
};

// The real (part 0) or imaginary parts of a channel's spectra, of what is staged of it.
DEVICE uint4 parts_of(const uint8_t* channel, int part) {
    const uint4* staged = reinterpret_cast<const uint4*>(channel);
    if constexpr (!PAIRED) return staged[part];
    const uint4 a = staged[0], b = staged[1];
    const uint32_t order = part ? 0x7531 : 0x6420;
    return make_uint4(__byte_perm(a.x, a.y, order), __byte_perm(a.z, a.w, order), __byte_perm(b.x, b.y, order),
                      __byte_perm(b.z, b.w, order));
}

// Sum of the squares of sixteen bytes, and of what is there already.
DEVICE uint32_t squares(uint4 bytes, uint32_t sum) {
    int total = __dp4a(int(bytes.x), int(bytes.x), int(sum));
    total = __dp4a(int(bytes.y), int(bytes.y), total);
    total = __dp4a(int(bytes.z), int(bytes.z), total);
    return uint32_t(__dp4a(int(bytes.w), int(bytes.w), total));
}

// Whether one heap holds the tile, at whole sectors; heaps of a multiple of 16 spectra begin at one, as tiles do.
DEVICE bool in_one_heap(const Tile& tile, const Destination& to) {
    return TOGETHER == to.pols && to.heap % TILE == 0 && tile.first >= 0 && tile.first + TILE <= to.count;
}

// Store values one by one: [antenna][heap][channel][spectrum][pol][2] or, with 4 bits, a byte for both parts.
DEVICE void store_values(const Tile& tile, const Destination& to) {
    const int antenna = tile.stream / to.pols, pol = tile.stream % to.pols;
#pragma unroll 1
    for (int task = threadIdx.x; task < 2 * POINTS * TILE; task += THREADS) {
        const int k = task % TILE, below = task / TILE % POINTS, row = task / TILE / POINTS;
        const int t = tile.first + k;
        if (t < 0 || t >= to.count) continue;
        const int64_t heap = int64_t(antenna) * (to.count / to.heap) + t / to.heap;
        const int64_t channel = tile.row(row) + ROWS * below;
        const int64_t value = ((heap * CHANNELS + channel) * to.heap + t % to.heap) * to.pols + pol;
        const uint8_t *re = tile.staged + (row * POINTS + below) * (2 * TILE) + k, *im = re + TILE;
        if constexpr (OUTPUT_BITS == 8)
            static_cast<uint16_t*>(to.out)[value] = uint16_t(*re | *im << 8);
        else
            static_cast<uint8_t*>(to.out)[value] = uint8_t(*re << 4 | (*im & 15));
    }
}

// Add a tile's power to `sums` [2 POINTS][2: re, im] and, after the last one of these channels, these to `power`; store
// rows and K-blocks.
DEVICE void store_tile(const Tile& tile, const Destination& to, uint32_t* sums, unsigned long long* power, bool last) {
    // Two threads a channel: the real parts and the imaginary parts of its spectra.
    const int tid = threadIdx.x, part = tid % 2, below = tid / 2;  // of the channels at a time
    const bool inside = tile.first < to.count && tile.first + TILE > 0;
    // Bytes of a channel of an antenna.
    const int within = tile.stream % to.pols * 128 + tile.first % 64 / 16 * 32 + part * 16;
    uint8_t* block = static_cast<uint8_t*>(to.out) + tile.first / 64 * to.block_bytes +
                     tile.stream / to.pols * to.antenna_bytes + within;
    uint8_t* own_block = static_cast<uint8_t*>(to.own) + tile.first / 64 * to.own_block_bytes +
                         tile.stream / to.pols * to.own_antenna_bytes - to.own_first * to.channel_bytes + within;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
        const int channel = tile.row(row) + ROWS * below;
        const uint8_t* staged = tile.staged + (row * POINTS + below) * (2 * TILE);
        uint32_t* sum_of = sums + row * POINTS * 2 + tid;
        uint8_t* at = block + channel * to.channel_bytes;
        constexpr int TIMES = POINTS / SHARE;
#pragma unroll(TIMES <= 4 ? TIMES : 2)
        for (int time = 0; time < TIMES; ++time) {
            uint32_t sum = 0;
            const int c = channel + time * (ROWS * SHARE);
            if (below < SHARE) {
                const uint4 values = parts_of(staged + time * (2 * SHARE * TILE), part);
                sum = squares(values, sum_of[time * (2 * SHARE)]);
                sum_of[time * (2 * SHARE)] = last ? 0 : sum;
                if constexpr (OUTPUT == TO_BLOCKS && OWN) {
                    uint8_t* place = c >= to.own_first && c < to.own_end ? own_block : block;
                    if (inside) *reinterpret_cast<uint4*>(place + c * to.channel_bytes) = values;
                } else if (OUTPUT == TO_BLOCKS && inside) {
                    *reinterpret_cast<uint4*>(at + time * (ROWS * SHARE) * to.channel_bytes) = values;
                }
            }
            if (last) {
                sum += __shfl_xor_sync(~0u, sum, 1);
                if (below < SHARE && part == 0) atomicAdd(power + c, static_cast<unsigned long long>(sum));
            }
        }
    }
}

// Store a tile of all of TOGETHER inputs that one heap holds; `staged` is that of the first.
DEVICE void store_in_heap(const Tile& tile, const Destination& to, const uint8_t* staged) {
    const int64_t channel_bytes = int64_t(to.heap) * VALUE;
    const int64_t heap = int64_t(tile.stream / TOGETHER) * (to.count / to.heap) + tile.first / to.heap;
    uint8_t* at = static_cast<uint8_t*>(to.out) + heap * CHANNELS * channel_bytes + tile.first % to.heap * VALUE;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
        const uint8_t* from = staged + row * POINTS * (2 * TILE);
#pragma unroll 4
        for (int task = threadIdx.x; task < POINTS * VALUE; task += THREADS) {
            const int piece = task % VALUE, below = task / VALUE;
            *reinterpret_cast<uint4*>(at + (tile.row(row) + ROWS * below) * channel_bytes + piece * 16) =
                heap_piece<TOGETHER, OUTPUT_BITS>(from + below * (2 * TILE), OUT_BYTES, piece);
        }
    }
}

}  // namespace ryle
