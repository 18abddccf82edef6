// The kernel for AMX int8: tdpbssd, 16 x 16 products of 64 signed bytes an instruction.
//
// Rows of the first factor are inputs j: 64 bytes of [re, im, -im]. The second factor holds inputs i transposed by
// fours of bytes, as the instruction wants: row k holds spectra 4k..4k+3 of 16 inputs, for [re, im]. Two tiles i of a
// column j are worked on at once, so that four chains of accumulation hide the instruction's latency.
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12 warns about its own intrinsics (its bug 105593)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "kernel.h"
#include "rows_avx512.h"

namespace ryle::correlate {
namespace {

constexpr int kSide = 16;                // inputs on a tile's side
constexpr int kTileBytes = kSide * 64;   // one AMX tile
constexpr int kPanelJ = 3 * kTileBytes;  // of 16 inputs and a block: [re, im, -im][input][64]
constexpr int kPanelI = 2 * kTileBytes;  // of 16 inputs and a block: [re, im][spectrum / 4][input][4]

std::size_t panel_bytes(int inputs, int blocks) {
    return std::size_t{1} * ceil_div(inputs, kSide) * blocks * (kPanelI + kPanelJ);
}

// A 16 x 16 transposition of 4-byte elements.
inline void transpose(const __m512i (&in)[kSide], std::uint8_t* out) {
    __m512i x[kSide], y[kSide];
    for (int n = 0; n < kSide; n += 2) {
        x[n] = _mm512_unpacklo_epi32(in[n], in[n + 1]);
        x[n + 1] = _mm512_unpackhi_epi32(in[n], in[n + 1]);
    }
    for (int n = 0; n < kSide; n += 4) {
        y[n] = _mm512_unpacklo_epi64(x[n], x[n + 2]);
        y[n + 1] = _mm512_unpackhi_epi64(x[n], x[n + 2]);
        y[n + 2] = _mm512_unpacklo_epi64(x[n + 1], x[n + 3]);
        y[n + 3] = _mm512_unpackhi_epi64(x[n + 1], x[n + 3]);
    }
    // y[4q + c] holds, in 128-bit lane l, elements 4l + c of inputs 4q … 4q+3.
    for (int c = 0; c < 4; ++c) {
        const __m512i even_a = _mm512_shuffle_i32x4(y[c], y[4 + c], 0x88);
        const __m512i odd_a = _mm512_shuffle_i32x4(y[c], y[4 + c], 0xdd);
        const __m512i even_b = _mm512_shuffle_i32x4(y[8 + c], y[12 + c], 0x88);
        const __m512i odd_b = _mm512_shuffle_i32x4(y[8 + c], y[12 + c], 0xdd);
        _mm512_store_si512(out + 64 * c, _mm512_shuffle_i32x4(even_a, even_b, 0x88));
        _mm512_store_si512(out + 64 * (4 + c), _mm512_shuffle_i32x4(odd_a, odd_b, 0x88));
        _mm512_store_si512(out + 64 * (8 + c), _mm512_shuffle_i32x4(even_a, even_b, 0xdd));
        _mm512_store_si512(out + 64 * (12 + c), _mm512_shuffle_i32x4(odd_a, odd_b, 0xdd));
    }
}

std::uint64_t pack(const Rows& rows, void* panels) {
    const int sides = ceil_div(rows.inputs, kSide);
    auto* panels_j = static_cast<std::uint8_t*>(panels);
    auto* panels_i = panels_j + std::size_t{1} * sides * rows.blocks * kPanelJ;
    std::uint64_t clamped = 0;
    for (int block = 0; block < rows.blocks; ++block) {
        const std::int8_t* row = rows.data + block * rows.data_stride;
        const std::uint64_t* valid = rows.valid + block * rows.valid_stride;
        InputPlaces data = rows.data_places(), words = rows.valid_places();
        for (int side = 0; side < sides; ++side) {
            std::uint8_t* out = panels_j + (std::size_t{1} * side * rows.blocks + block) * kPanelJ;
            __m512i re[kSide], im[kSide];
            for (int n = 0; n < kSide; ++n, data.advance(), words.advance()) {
                const int input = side * kSide + n;
                re[n] = im[n] = _mm512_setzero_si512();
                if (input < rows.inputs) clamped += load_row(row + data.at(), valid[words.at()], re[n], im[n]);
                _mm512_store_si512(out + 64 * n, re[n]);
                _mm512_store_si512(out + kTileBytes + 64 * n, im[n]);
                _mm512_store_si512(out + 2 * kTileBytes + 64 * n, _mm512_sub_epi8(_mm512_setzero_si512(), im[n]));
            }
            std::uint8_t* turned = panels_i + (std::size_t{1} * side * rows.blocks + block) * kPanelI;
            transpose(re, turned);
            transpose(im, turned + kTileBytes);
        }
    }
    return clamped;
}

struct alignas(64) TileConfig {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Tiles 0 to 3 accumulate re, im of the first and of the second tile i; 4 and 7 hold j, 5 and 6 hold i.
inline void multiply_pair(const std::uint8_t* j, const std::uint8_t* i0, const std::uint8_t* i1, int blocks,
                          std::int32_t* out) {
    constexpr int plane = kSide * kSide;
    _tile_loadd(0, out, 64);
    _tile_loadd(1, out + plane, 64);
    _tile_loadd(2, out + 2 * plane, 64);
    _tile_loadd(3, out + 3 * plane, 64);
    for (int block = 0; block < blocks; ++block, j += kPanelJ, i0 += kPanelI, i1 += kPanelI) {
        _tile_loadd(4, j, 64);
        _tile_loadd(5, i0, 64);
        _tile_loadd(6, i0 + kTileBytes, 64);
        _tile_dpbssd(0, 4, 5);
        _tile_dpbssd(1, 4, 6);
        _tile_loadd(7, j + kTileBytes, 64);
        _tile_dpbssd(0, 7, 6);
        _tile_loadd(7, j + 2 * kTileBytes, 64);
        _tile_dpbssd(1, 7, 5);
        _tile_loadd(5, i1, 64);
        _tile_loadd(6, i1 + kTileBytes, 64);
        _tile_dpbssd(2, 4, 5);
        _tile_dpbssd(3, 4, 6);
        _tile_dpbssd(3, 7, 5);
        _tile_loadd(7, j + kTileBytes, 64);
        _tile_dpbssd(2, 7, 6);
    }
    _tile_stored(0, out, 64);
    _tile_stored(1, out + plane, 64);
    _tile_stored(2, out + 2 * plane, 64);
    _tile_stored(3, out + 3 * plane, 64);
}

inline void multiply_one(const std::uint8_t* j, const std::uint8_t* i, int blocks, std::int32_t* out) {
    constexpr int plane = kSide * kSide;
    _tile_loadd(0, out, 64);
    _tile_loadd(1, out + plane, 64);
    _tile_zero(2);
    _tile_zero(3);
    for (int block = 0; block < blocks; ++block, j += kPanelJ, i += kPanelI) {
        _tile_loadd(4, j, 64);
        _tile_loadd(5, i, 64);
        _tile_loadd(6, i + kTileBytes, 64);
        _tile_dpbssd(0, 4, 5);
        _tile_dpbssd(1, 4, 6);
        _tile_loadd(7, j + kTileBytes, 64);
        _tile_dpbssd(2, 7, 6);
        _tile_loadd(4, j + 2 * kTileBytes, 64);
        _tile_dpbssd(3, 4, 5);
    }
    alignas(64) std::int32_t second[2 * plane];
    _tile_stored(0, out, 64);
    _tile_stored(1, out + plane, 64);
    _tile_stored(2, second, 64);
    _tile_stored(3, second + plane, 64);
    for (int n = 0; n < 2 * plane; n += 16) {
        _mm512_store_si512(out + n, _mm512_add_epi32(_mm512_load_si512(out + n), _mm512_load_si512(second + n)));
    }
}

void multiply(const void* panels, int inputs, int blocks, std::int32_t* tiles, Prefetch& next) {
    const int sides = ceil_div(inputs, kSide);
    const auto* panels_j = static_cast<const std::uint8_t*>(panels);
    const auto* panels_i = panels_j + std::size_t{1} * sides * blocks * kPanelJ;
    const std::size_t step = std::size_t{1} * blocks * kPanelI;
    constexpr int tile = 2 * kSide * kSide;
    // Static, because GCC 12 thinks that loading it reads its first 8 bytes only.
    static constexpr TileConfig config;
    _tile_loadconfig(&config);
    for (int jt = 0; jt < sides; ++jt) {
        const std::uint8_t* j = panels_j + std::size_t{1} * jt * blocks * kPanelJ;
        const int count = tiles_in_column(jt, inputs, kSide, kSide);
        int it = 0;
        for (; it + 2 <= count; it += 2, tiles += 2 * tile) {
            next.fetch();
            next.fetch();
            multiply_pair(j, panels_i + it * step, panels_i + (it + 1) * step, blocks, tiles);
        }
        if (it < count) {
            next.fetch();
            multiply_one(j, panels_i + it * step, blocks, tiles);
            tiles += tile;
        }
    }
    _tile_release();
}

}  // namespace

const Kernel kAmx{"amx", kSide, kSide, without_amx, panel_bytes, pack, multiply, count_avx2};

}  // namespace ryle::correlate
