// The kernel for AVX2: vpmaddwd on int16, three products for a complex one, 2 x 2 inputs in twelve registers.
#include <immintrin.h>

#include "count.h"
#include "int16_panels.h"

namespace ryle::correlate {
namespace {

inline std::uint32_t lanes(__m256i v) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(s));
}

// acc += a · b. As assembly, because compilers reorder these until the accumulators no longer fit the registers.
inline void multiply_add(__m256i& acc, __m256i a, __m256i b) {
    __m256i product;
    __asm__ volatile("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(acc), "=&x"(product) : "x"(a), "x"(b));
}

void multiply(const void* panels, int inputs, int blocks, std::int32_t* tiles, Prefetch& next) {
    for_each_int16_tile(
        panels, inputs, blocks, tiles, [blocks, &next](const auto* a, const auto* b, std::int32_t* tile) {
            next.fetch();
            __m256i sum[kForms][kTile][kTile] = {};
            constexpr int step = 16;
            for (int block = 0; block < blocks; ++block, a += kPanel, b += kPanel) {
#pragma GCC unroll 1
                for (int k = 0; k < kSpectra; k += step) {
#pragma GCC unroll 3
                    for (int form = 0; form < kForms; ++form) {
                        const std::int16_t* p = a + form * kTile * kSpectra + k;
                        const std::int16_t* q = b + form * kTile * kSpectra + k;
                        const __m256i b0 = _mm256_load_si256(reinterpret_cast<const __m256i*>(q));
                        const __m256i b1 = _mm256_load_si256(reinterpret_cast<const __m256i*>(q + kSpectra));
#pragma GCC unroll 2
                        for (int i = 0; i < kTile; ++i) {
                            const __m256i ai = _mm256_load_si256(reinterpret_cast<const __m256i*>(p + i * kSpectra));
                            multiply_add(sum[form][0][i], ai, b0);
                            multiply_add(sum[form][1][i], ai, b1);
                        }
                    }
                }
            }
#pragma GCC unroll 2
            for (int j = 0; j < kTile; ++j) {
#pragma GCC unroll 2
                for (int i = 0; i < kTile; ++i) {
                    std::int32_t& re = tile[j * kTile + i];
                    std::int32_t& im = tile[(kTile + j) * kTile + i];
                    const std::uint32_t k1 = lanes(sum[0][j][i]);
                    re = static_cast<std::int32_t>(static_cast<std::uint32_t>(re) + k1 - lanes(sum[2][j][i]));
                    im = static_cast<std::int32_t>(static_cast<std::uint32_t>(im) + k1 - lanes(sum[1][j][i]));
                }
            }
        });
}

}  // namespace

void count_avx2(const std::uint64_t* words, int inputs, int blocks, std::uint32_t* counts) {
    count_pairs(words, inputs, blocks, counts);
}

const Kernel kAvx2{"avx2", kTile, kTile, without_avx2, int16_panel_bytes, int16_pack, multiply, count_avx2};

}  // namespace ryle::correlate
