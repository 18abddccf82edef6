#include <immintrin.h>

#include <cstdint>

typedef __m256 Vector;
typedef int32_t Integers __attribute__((vector_size(32)));
typedef uint64_t Wide __attribute__((vector_size(32)));

#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define MULTIPLY_ADD(a, b, c) _mm256_fmadd_ps(a, b, c)
#define MULTIPLY_LOW_HALVES(a, b) Wide(_mm256_mul_epu32(__m256i(a), __m256i(b)))
// Compilers leave it out when they optimize for size; without it SSE code that runs afterwards takes twice as long.
#define LEAVE() _mm256_zeroupper()
#define LANES 8
#define FIR_ROWS 12
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)

#include "kernels_body.h"

namespace ryle {
const ChannelizeKernels channelize_avx2 = {"avx2", fir, dither, tile};
}
