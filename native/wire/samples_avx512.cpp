// 32 samples a step: one byte permutation brings each sample's two bytes into a 16-bit lane, two shifts sign-extend it.
#include <immintrin.h>

#include "wire/samples.h"

namespace ryle {
namespace {

void unpack(const uint8_t* data, size_t count, int bits, float* out) {
    alignas(64) uint8_t bytes[64];
    alignas(64) uint16_t shifts[32];
    for (int i = 0; i < 32; i++) {
        const int byte = i * bits / 8;
        bytes[2 * i] = uint8_t(byte + 1 < 64 ? byte + 1 : 63);
        bytes[2 * i + 1] = uint8_t(byte);
        shifts[i] = uint16_t(i * bits % 8);
    }
    const __m512i permutation = _mm512_load_si512(bytes);
    const __m512i left = _mm512_load_si512(shifts);
    const __m128i right = _mm_cvtsi32_si128(16 - bits);
    const __mmask64 loaded = bits == 16 ? ~__mmask64(0) : (__mmask64(1) << (4 * bits)) - 1;
    const __m512 scale = _mm512_set1_ps(bits == 1 ? 2.0f : 1.0f);
    const __m512 offset = _mm512_set1_ps(bits == 1 ? 1.0f : 0.0f);
    size_t i = 0;
    for (; i + 32 <= count; i += 32, data += 4 * bits) {
        __m512i words = _mm512_permutexvar_epi8(permutation, _mm512_maskz_loadu_epi8(loaded, data));
        words = _mm512_sra_epi16(_mm512_sllv_epi16(words, left), right);
        const __m512 low = _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm512_castsi512_si256(words)));
        const __m512 high = _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm512_extracti64x4_epi64(words, 1)));
        _mm512_storeu_ps(out + i, _mm512_fmadd_ps(low, scale, offset));
        _mm512_storeu_ps(out + i + 16, _mm512_fmadd_ps(high, scale, offset));
    }
    for (size_t rest = 0; i < count; i++, rest++) out[i] = sample_at(data, rest, bits);
}

// Squares of up to ten bits are summed eight at a time in single precision, which holds the sums exactly.
double sum_squares(const float* samples, size_t count, int bits) {
    __m512d low = {}, high = {};
    size_t i = 0;
    if (bits <= 10) {
        for (; i + 128 <= count; i += 128) {
            __m512 squares = {}, more = {};
            for (int v = 0; v < 8; v += 2) {
                const __m512 first = _mm512_loadu_ps(samples + i + 16 * v);
                const __m512 second = _mm512_loadu_ps(samples + i + 16 * v + 16);
                squares = _mm512_fmadd_ps(first, first, squares);
                more = _mm512_fmadd_ps(second, second, more);
            }
            squares = _mm512_add_ps(squares, more);
            low = _mm512_add_pd(low, _mm512_cvtps_pd(_mm512_castps512_ps256(squares)));
            high = _mm512_add_pd(high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(squares, 1)));
        }
    }
    for (; i + 16 <= count; i += 16) {
        const __m512 values = _mm512_loadu_ps(samples + i);
        const __m512d first = _mm512_cvtps_pd(_mm512_castps512_ps256(values));
        const __m512d second = _mm512_cvtps_pd(_mm512_extractf32x8_ps(values, 1));
        low = _mm512_fmadd_pd(first, first, low);
        high = _mm512_fmadd_pd(second, second, high);
    }
    const __m512d sum = _mm512_add_pd(low, high);
    double total = 0.0;
    for (int lane = 0; lane < 8; lane++) total += sum[lane];
    return total + sum_squares_plain(samples + i, count - i, bits);
}

}  // namespace

const SampleKernels samples_avx512 = {"avx512", unpack, sum_squares};

}  // namespace ryle
