// K-blocks as the correlation kernels see them, and the place of each product in what they write.
//
// A row is one input's 64 spectra of one channel: four groups of 16 spectra, each 16 real parts, then their 16
// imaginary parts. One matrix step takes one group, k = 32. With x = re + i·im, and r a row of the tile and c a column,
//
//     Re x_r conj(x_c) = [re_r | im_r] · [re_c | im_c]        Im x_r conj(x_c) = [im_r | -re_r] · [re_c | im_c]
//
// so that both take the same bytes of the column, and the row's only change places and sign, in registers.
#pragma once
#include "ryle/gpu/device.cuh"

#ifndef INPUTS
#error "define INPUTS, the number of inputs"
#endif
#ifndef POLS
#define POLS 1
#endif

#ifndef PACKED
#define PACKED 0  // rows of 64 bytes: a byte a spectrum, its real part in the high four bits, none -8
#endif

namespace ryle {

constexpr int ROW = 128;              // bytes
constexpr int BLOCK = 64;             // spectra
constexpr int GROUPS = 4;             // groups of a row
constexpr int MAX_RUN_BLOCKS = 1040;  // blocks whose products surely fit in 32 bits
static_assert(2ll * 127 * 127 * BLOCK * MAX_RUN_BLOCKS < (1ll << 31));
static_assert(2ll * 127 * 127 * BLOCK * (MAX_RUN_BLOCKS + 1) >= (1ll << 31));

constexpr int ANTENNAS = INPUTS / POLS;
constexpr int PRODUCTS = ANTENNAS * (ANTENNAS + 1) / 2 * POLS * POLS;
constexpr int SHIFT = PACKED ? 8 : 0;  // parts of four bits are multiplied 16 times too large
static_assert(INPUTS >= 1 && INPUTS <= 4096 && (POLS == 1 || (POLS == 2 && INPUTS % 2 == 0)));

// Rows lie in shared memory with their 16-byte chunks exchanged, chunk ^ (row mod 8), so that eight rows' equal chunks
// lie in different banks. The copy engine and the matrix units of Hopper call this the 128-byte swizzle.
DEVICE int chunk_offset(int row, int chunk) { return row * ROW + ((chunk ^ (row & 7)) << 4); }

// Four spectra's parts: bytes 4q .. 4q+3 of a chunk. Chunk 2g holds the real, 2g + 1 the imaginary parts of group g.
DEVICE uint32_t parts(const unsigned char* tile, int row, int chunk, int q) {
    return *reinterpret_cast<const uint32_t*>(tile + chunk_offset(row, chunk) + 4 * q);
}

constexpr uint32_t HIGH_PARTS = 0xF0F0F0F0u;  // of PACKED rows, the real ones, times 16

// The negatives of four bytes, none of which is -128.
DEVICE uint32_t negate_bytes(uint32_t x) {
    constexpr uint32_t HIGH = 0x80808080u;
    return (HIGH - (x & ~HIGH)) ^ (~x & HIGH);
}

// Products are kept as in the output: x(a1,p1) conj(x(a2,p2)) at p² (a2 (a2 + 1) / 2 + a1) + p1 + p · p2, with row
// (a2,p2) and column (a1,p1). The place of a row:
DEVICE int row_place(int row) {
    const int a2 = row / POLS;
    return POLS * POLS * (a2 * (a2 + 1) / 2) + POLS * (row % POLS);
}

}  // namespace ryle
