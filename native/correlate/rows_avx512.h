// How the kernels with AVX-512 read a row of a K-block. Internal linkage: each includer compiles it for its own
// instruction set.
#pragma once

#include <immintrin.h>

#include "kernel.h"

namespace ryle::correlate {
namespace {

// The 64 real and the 64 imaginary parts of a row in order of spectra: zero where not valid, -127 for -128. Returns how
// many valid parts were -128.
inline std::uint64_t load_row(const std::int8_t* row, std::uint64_t valid, __m512i& re, __m512i& im) {
    static_assert(row_place(16, 0) == 32 && row_place(0, 1) == 16, "lanes of 16 bytes are re, im, re, im, ...");
    const __m512i front = _mm512_loadu_si512(row), back = _mm512_loadu_si512(row + kRowBytes / 2);
    re = _mm512_maskz_mov_epi8(valid, _mm512_shuffle_i32x4(front, back, 0x88));
    im = _mm512_maskz_mov_epi8(valid, _mm512_shuffle_i32x4(front, back, 0xdd));
    const __m512i lowest = _mm512_set1_epi8(-128);
    const __mmask64 low_re = _mm512_cmpeq_epi8_mask(re, lowest);
    const __mmask64 low_im = _mm512_cmpeq_epi8_mask(im, lowest);
    if (__builtin_expect((low_re | low_im) == 0, 1)) return 0;
    const __m512i clamp = _mm512_set1_epi8(-127);
    re = _mm512_max_epi8(re, clamp);
    im = _mm512_max_epi8(im, clamp);
    return static_cast<std::uint64_t>(__builtin_popcountll(low_re) + __builtin_popcountll(low_im));
}

}  // namespace
}  // namespace ryle::correlate
