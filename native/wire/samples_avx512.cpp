// 32 samples a step: one byte permutation brings each sample's two bytes into a 16-bit lane, two shifts sign-extend it.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns of its own header (GCC bug 105593)
#endif
#include <immintrin.h>

#include "samples.h"

namespace ryle {
namespace {

class Words {
  public:
    explicit Words(int bits)
        : right_(_mm_cvtsi32_si128(16 - bits)), loaded_(bits == 16 ? ~__mmask64(0) : (__mmask64(1) << (4 * bits)) - 1) {
        alignas(64) uint8_t bytes[64];
        alignas(64) uint16_t shifts[32];
        for (int i = 0; i < 32; i++) {
            const int byte = i * bits / 8;
            bytes[2 * i] = uint8_t(byte + 1 < 64 ? byte + 1 : 63);
            bytes[2 * i + 1] = uint8_t(byte);
            shifts[i] = uint16_t(i * bits % 8);
        }
        permutation_ = _mm512_load_si512(bytes);
        left_ = _mm512_load_si512(shifts);
    }

    __m512i at(const uint8_t* data) const {
        const __m512i words = _mm512_permutexvar_epi8(permutation_, _mm512_maskz_loadu_epi8(loaded_, data));
        return _mm512_sra_epi16(_mm512_sllv_epi16(words, left_), right_);
    }

  private:
    __m512i permutation_, left_;
    __m128i right_;
    __mmask64 loaded_;
};

void unpack(const uint8_t* data, size_t count, int bits, float* out) {
    const Words words(bits);
    const __m512 scale = _mm512_set1_ps(bits == 1 ? 2.0f : 1.0f);
    const __m512 offset = _mm512_set1_ps(bits == 1 ? 1.0f : 0.0f);
    size_t i = 0;
    for (; i + 32 <= count; i += 32, data += 4 * bits) {
        const __m512i values = words.at(data);
        const __m512 low = _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm512_castsi512_si256(values)));
        const __m512 high = _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm512_extracti64x4_epi64(values, 1)));
        _mm512_storeu_ps(out + i, _mm512_fmadd_ps(low, scale, offset));
        _mm512_storeu_ps(out + i + 16, _mm512_fmadd_ps(high, scale, offset));
    }
    for (size_t rest = 0; i < count; i++, rest++) out[i] = sample_at(data, rest, bits);
    _mm256_zeroupper();  // compilers leave it out when they optimize for size; without it others' SSE code crawls
}

uint64_t sum_squares(const uint8_t* data, size_t count, int bits) {
    if (bits == 1) return count;
    const Words words(bits);
    const size_t depth = exact_depth(bits);
    __m512i total = _mm512_setzero_si512();
    size_t i = 0;
    while (i + 32 <= count) {
        __m512i sums = _mm512_setzero_si512();
        for (size_t step = 0; step < depth && i + 32 <= count; step++, i += 32, data += 4 * bits) {
            const __m512i values = words.at(data);
            sums = _mm512_add_epi32(sums, _mm512_madd_epi16(values, values));
        }
        total = _mm512_add_epi64(total, _mm512_cvtepu32_epi64(_mm512_castsi512_si256(sums)));
        total = _mm512_add_epi64(total, _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(sums, 1)));
    }
    alignas(64) uint64_t lanes[8];
    _mm512_store_si512(lanes, total);
    uint64_t sum = sum_squares_plain(data, count - i, bits);
    for (const uint64_t lane : lanes) sum += lane;
    _mm256_zeroupper();
    return sum;
}

}  // namespace

const SampleKernels samples_avx512 = {"avx512", unpack, sum_squares};

}  // namespace ryle
