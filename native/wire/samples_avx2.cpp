// 16 samples a step, eight in each 128-bit half: a byte shuffle, a multiplication as variable left shift, a right
// shift.
#include <immintrin.h>

#include "samples.h"

namespace ryle {
namespace {

class Words {
  public:
    explicit Words(int bits) : right_(_mm_cvtsi32_si128(16 - bits)), bits_(bits) {
        alignas(32) uint8_t bytes[32];
        alignas(32) uint16_t factors[16];
        for (int i = 0; i < 16; i++) {
            const int byte = (i % 8) * bits / 8;
            bytes[2 * i] = uint8_t(byte + 1 < 16 ? byte + 1 : 15);
            bytes[2 * i + 1] = uint8_t(byte);
            factors[i] = uint16_t(1 << ((i % 8) * bits % 8));
        }
        shuffle_ = _mm256_load_si256(reinterpret_cast<const __m256i*>(bytes));
        left_ = _mm256_load_si256(reinterpret_cast<const __m256i*>(factors));
    }

    // Reads bits + 16 bytes.
    __m256i at(const uint8_t* data) const {
        const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
        const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + bits_));
        const __m256i words = _mm256_shuffle_epi8(_mm256_set_m128i(second, first), shuffle_);
        return _mm256_sra_epi16(_mm256_mullo_epi16(words, left_), right_);
    }

  private:
    __m256i shuffle_, left_;
    __m128i right_;
    int bits_;
};

void unpack(const uint8_t* data, size_t count, int bits, float* out) {
    const Words words(bits);
    const __m256 scale = _mm256_set1_ps(bits == 1 ? 2.0f : 1.0f);
    const __m256 offset = _mm256_set1_ps(bits == 1 ? 1.0f : 0.0f);
    const uint8_t* const end = data + (count * bits + 7) / 8;
    size_t i = 0;
    for (; i + 16 <= count && end - data >= bits + 16; i += 16, data += 2 * bits) {
        const __m256i values = words.at(data);
        const __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(values)));
        const __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_extracti128_si256(values, 1)));
        _mm256_storeu_ps(out + i, _mm256_fmadd_ps(low, scale, offset));
        _mm256_storeu_ps(out + i + 8, _mm256_fmadd_ps(high, scale, offset));
    }
    for (size_t rest = 0; i < count; i++, rest++) out[i] = sample_at(data, rest, bits);
    _mm256_zeroupper();  // compilers leave it out when they optimize for size; without it others' SSE code crawls
}

uint64_t sum_squares(const uint8_t* data, size_t count, int bits) {
    if (bits == 1) return count;
    const Words words(bits);
    const size_t depth = exact_depth(bits);
    const uint8_t* const end = data + (count * bits + 7) / 8;
    __m256i total = _mm256_setzero_si256();
    size_t i = 0;
    while (i + 16 <= count && end - data >= bits + 16) {
        __m256i sums = _mm256_setzero_si256();
        for (size_t step = 0; step < depth && i + 16 <= count && end - data >= bits + 16; step++) {
            const __m256i values = words.at(data);
            sums = _mm256_add_epi32(sums, _mm256_madd_epi16(values, values));
            i += 16, data += 2 * bits;
        }
        total = _mm256_add_epi64(total, _mm256_cvtepu32_epi64(_mm256_castsi256_si128(sums)));
        total = _mm256_add_epi64(total, _mm256_cvtepu32_epi64(_mm256_extracti128_si256(sums, 1)));
    }
    alignas(32) uint64_t lanes[4];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), total);
    uint64_t sum = sum_squares_plain(data, count - i, bits);
    for (const uint64_t lane : lanes) sum += lane;
    _mm256_zeroupper();
    return sum;
}

}  // namespace

const SampleKernels samples_avx2 = {"avx2", unpack, sum_squares};

}  // namespace ryle
