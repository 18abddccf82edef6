// 16 samples a step, eight in each 128-bit half: a byte shuffle, a multiplication as variable left shift, a right
// shift.
#include <immintrin.h>

#include "wire/samples.h"

namespace ryle {
namespace {

void unpack(const uint8_t* data, size_t count, int bits, float* out) {
    alignas(32) uint8_t bytes[32];
    alignas(32) uint16_t factors[16];
    for (int i = 0; i < 16; i++) {
        const int byte = (i % 8) * bits / 8;
        bytes[2 * i] = uint8_t(byte + 1 < 16 ? byte + 1 : 15);
        bytes[2 * i + 1] = uint8_t(byte);
        factors[i] = uint16_t(1 << ((i % 8) * bits % 8));
    }
    const __m256i shuffle = _mm256_load_si256(reinterpret_cast<const __m256i*>(bytes));
    const __m256i left = _mm256_load_si256(reinterpret_cast<const __m256i*>(factors));
    const __m128i right = _mm_cvtsi32_si128(16 - bits);
    const __m256 scale = _mm256_set1_ps(bits == 1 ? 2.0f : 1.0f);
    const __m256 offset = _mm256_set1_ps(bits == 1 ? 1.0f : 0.0f);
    const size_t total = (count * bits + 7) / 8;
    size_t i = 0, used = 0;
    for (; i + 16 <= count && used + bits + 16 <= total; i += 16, used += 2 * bits) {
        const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + used));
        const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + used + bits));
        __m256i words = _mm256_shuffle_epi8(_mm256_set_m128i(second, first), shuffle);
        words = _mm256_sra_epi16(_mm256_mullo_epi16(words, left), right);
        const __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(words)));
        const __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_extracti128_si256(words, 1)));
        _mm256_storeu_ps(out + i, _mm256_fmadd_ps(low, scale, offset));
        _mm256_storeu_ps(out + i + 8, _mm256_fmadd_ps(high, scale, offset));
    }
    for (size_t rest = 0; i < count; i++, rest++) out[i] = sample_at(data + used, rest, bits);
}

// Squares of up to ten bits are summed eight at a time in single precision, which holds the sums exactly.
double sum_squares(const float* samples, size_t count, int bits) {
    __m256d low = {}, high = {};
    size_t i = 0;
    if (bits <= 10) {
        for (; i + 64 <= count; i += 64) {
            __m256 squares = {}, more = {};
            for (int v = 0; v < 8; v += 2) {
                const __m256 first = _mm256_loadu_ps(samples + i + 8 * v);
                const __m256 second = _mm256_loadu_ps(samples + i + 8 * v + 8);
                squares = _mm256_fmadd_ps(first, first, squares);
                more = _mm256_fmadd_ps(second, second, more);
            }
            squares = _mm256_add_ps(squares, more);
            low = _mm256_add_pd(low, _mm256_cvtps_pd(_mm256_castps256_ps128(squares)));
            high = _mm256_add_pd(high, _mm256_cvtps_pd(_mm256_extractf128_ps(squares, 1)));
        }
    }
    for (; i + 8 <= count; i += 8) {
        const __m256 values = _mm256_loadu_ps(samples + i);
        const __m256d first = _mm256_cvtps_pd(_mm256_castps256_ps128(values));
        const __m256d second = _mm256_cvtps_pd(_mm256_extractf128_ps(values, 1));
        low = _mm256_fmadd_pd(first, first, low);
        high = _mm256_fmadd_pd(second, second, high);
    }
    const __m256d sum = _mm256_add_pd(low, high);
    double total = 0.0;
    for (int lane = 0; lane < 4; lane++) total += sum[lane];
    return total + sum_squares_plain(samples + i, count - i, bits);
}

}  // namespace

const SampleKernels samples_avx2 = {"avx2", unpack, sum_squares};

}  // namespace ryle
