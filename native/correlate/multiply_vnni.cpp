// The kernel for AVX-512 VNNI: vpdpbusd, 64 products of unsigned and signed bytes an instruction.
//
// The j side is offset by 128 to make it unsigned; sums of the i side, taken while packing, correct for it:
//     sum (s + 128) r = sum s r + 128 sum r.
// A tile is 4 x 3 inputs: 24 accumulators and the six vectors of the j side fill the 32 registers.
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // GCC 12 warns about its own intrinsics (its bug 105593)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "kernel.h"
#include "rows_avx512.h"

namespace ryle::correlate {
namespace {

constexpr int kI = 4;
constexpr int kJ = 3;
constexpr int kSignedPanel = kI * 3 * kSpectra;    // bytes of a tile's i side in a block: [input][re, im, -re][64]
constexpr int kUnsignedPanel = kJ * 2 * kSpectra;  // bytes of a tile's j side in a block: [input][re, im][64]

// Panels: lane sums of the i side int32 [input][re, im][16], then the signed panels, then the unsigned ones.
struct Layout {
    int rows_i, rows_j;
    std::size_t signed_at, unsigned_at, bytes;
    Layout(int inputs, int blocks)
        : rows_i(ceil_div(inputs, kI)),
          rows_j(ceil_div(inputs, kJ)),
          signed_at(std::size_t{1} * rows_i * kI * 2 * 64),
          unsigned_at(signed_at + std::size_t{1} * rows_i * blocks * kSignedPanel),
          bytes(unsigned_at + std::size_t{1} * rows_j * blocks * kUnsignedPanel) {}
};

std::size_t panel_bytes(int inputs, int blocks) { return Layout(inputs, blocks).bytes; }

std::uint64_t pack(const Rows& rows, void* panels) {
    const Layout layout(rows.inputs, rows.blocks);
    auto* base = static_cast<std::uint8_t*>(panels);
    auto* lane_sums = reinterpret_cast<__m512i*>(base);
    const int padded_i = layout.rows_i * kI;
    const int padded_j = layout.rows_j * kJ;
    const int padded = padded_i > padded_j ? padded_i : padded_j;
    for (int n = 0; n < 2 * padded_i; ++n) _mm512_store_si512(lane_sums + n, _mm512_setzero_si512());
    const __m512i lowest = _mm512_set1_epi8(-128);
    const __m512i ones = _mm512_set1_epi8(1);
    std::uint64_t clamped = 0;
    for (int block = 0; block < rows.blocks; ++block) {
        const std::int8_t* row = rows.data + block * rows.data_stride;
        const std::uint64_t* valid = rows.valid + block * rows.valid_stride;
        InputPlaces data = rows.data_places(), words = rows.valid_places();
        for (int input = 0; input < padded; ++input, data.advance(), words.advance()) {
            __m512i re = _mm512_setzero_si512();
            __m512i im = re;
            if (input < rows.inputs) clamped += load_row(row + data.at(), valid[words.at()], re, im);
            if (input < padded_i) {
                std::uint8_t* p = base + layout.signed_at +
                                  (std::size_t{1} * (input / kI) * rows.blocks + block) * kSignedPanel +
                                  input % kI * 3 * kSpectra;
                _mm512_store_si512(p, re);
                _mm512_store_si512(p + kSpectra, im);
                _mm512_store_si512(p + 2 * kSpectra, _mm512_sub_epi8(_mm512_setzero_si512(), re));
                __m512i* sums = lane_sums + 2 * input;
                _mm512_store_si512(sums, _mm512_dpbusd_epi32(_mm512_load_si512(sums), ones, re));
                _mm512_store_si512(sums + 1, _mm512_dpbusd_epi32(_mm512_load_si512(sums + 1), ones, im));
            }
            if (input < padded_j) {
                std::uint8_t* p = base + layout.unsigned_at +
                                  (std::size_t{1} * (input / kJ) * rows.blocks + block) * kUnsignedPanel +
                                  input % kJ * 2 * kSpectra;
                _mm512_store_si512(p, _mm512_xor_si512(re, lowest));
                _mm512_store_si512(p + kSpectra, _mm512_xor_si512(im, lowest));
            }
        }
    }
    return clamped;
}

// The sums over lanes of four vectors, as the four elements of one.
inline __m128i lanes(__m512i a, __m512i b, __m512i c, __m512i d) {
    const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    const __m512i abcd = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(abcd), _mm512_extracti64x4_epi64(abcd, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

// acc += s · x. As assembly, because compilers reorder these until the accumulators no longer fit the registers.
inline void multiply_add(__m512i& acc, __m512i s, __m512i x) {
    __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(s), "v"(x));
}

inline void multiply_tile(const std::uint8_t* a, const std::uint8_t* b, int blocks, __m128i re_offset,
                          __m128i im_offset, std::int32_t* tile) {
    __m512i re[kJ][kI] = {};
    __m512i im[kJ][kI] = {};
    for (int block = 0; block < blocks; ++block, a += kSignedPanel, b += kUnsignedPanel) {
        __m512i s[kJ];
        __m512i t[kJ];
#pragma GCC unroll 3
        for (int j = 0; j < kJ; ++j) {
            s[j] = _mm512_load_si512(b + (2 * j) * kSpectra);
            t[j] = _mm512_load_si512(b + (2 * j + 1) * kSpectra);
        }
#pragma GCC unroll 4
        for (int i = 0; i < kI; ++i) {
            __m512i x = _mm512_load_si512(a + (3 * i) * kSpectra);  // Re: r_i r_j
#pragma GCC unroll 3
            for (int j = 0; j < kJ; ++j) multiply_add(re[j][i], s[j], x);
            x = _mm512_load_si512(a + (3 * i + 1) * kSpectra);  // Re: + m_i m_j, Im: m_i r_j
#pragma GCC unroll 3
            for (int j = 0; j < kJ; ++j) {
                multiply_add(im[j][i], s[j], x);
                multiply_add(re[j][i], t[j], x);
            }
            x = _mm512_load_si512(a + (3 * i + 2) * kSpectra);  // Im: - r_i m_j
#pragma GCC unroll 3
            for (int j = 0; j < kJ; ++j) multiply_add(im[j][i], t[j], x);
        }
    }
    auto* out = reinterpret_cast<__m128i*>(tile);
#pragma GCC unroll 3
    for (int j = 0; j < kJ; ++j) {
        const __m128i r = _mm_sub_epi32(lanes(re[j][0], re[j][1], re[j][2], re[j][3]), re_offset);
        const __m128i m = _mm_sub_epi32(lanes(im[j][0], im[j][1], im[j][2], im[j][3]), im_offset);
        _mm_store_si128(out + j, _mm_add_epi32(_mm_load_si128(out + j), r));
        _mm_store_si128(out + kJ + j, _mm_add_epi32(_mm_load_si128(out + kJ + j), m));
    }
}

void multiply(const void* panels, int inputs, int blocks, std::int32_t* tiles, Prefetch& next) {
    const Layout layout(inputs, blocks);
    const auto* base = static_cast<const std::uint8_t*>(panels);
    const auto* sums = reinterpret_cast<const __m512i*>(base);
    for (int jt = 0; jt < layout.rows_j; ++jt) {
        const std::uint8_t* b = base + layout.unsigned_at + std::size_t{1} * jt * blocks * kUnsignedPanel;
        const int count = tiles_in_column(jt, inputs, kI, kJ);
        for (int it = 0; it < count; ++it, tiles += 2 * kI * kJ) {
            next.fetch();
            const __m512i* s = sums + 2 * kI * it;
            const __m128i r = _mm_slli_epi32(lanes(s[0], s[2], s[4], s[6]), 7);
            const __m128i m = _mm_slli_epi32(lanes(s[1], s[3], s[5], s[7]), 7);
            const std::uint8_t* a = base + layout.signed_at + std::size_t{1} * it * blocks * kSignedPanel;
            multiply_tile(a, b, blocks, _mm_add_epi32(r, m), _mm_sub_epi32(m, r), tiles);
        }
    }
}

}  // namespace

const Kernel kVnni{"vnni", kI, kJ, without_vnni, panel_bytes, pack, multiply, count_avx2};

}  // namespace ryle::correlate
