#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 warns of its own header (GCC bug 105593)
#endif
#include <immintrin.h>

#include <cstdint>

typedef __m512 Vector;
typedef int32_t Integers __attribute__((vector_size(64)));
typedef uint64_t Wide __attribute__((vector_size(64)));

#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define MULTIPLY_ADD(a, b, c) _mm512_fmadd_ps(a, b, c)
#define MULTIPLY_LOW_HALVES(a, b) Wide(_mm512_mul_epu32(__m512i(a), __m512i(b)))
// Compilers leave it out when they optimize for size; without it SSE code that runs afterwards takes twice as long.
#define LEAVE() _mm256_zeroupper()
#define LANES 16
#define FIR_ROWS 16
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)

#include "kernels_body.h"

namespace ryle {
const ChannelizeKernels channelize_avx512 = {"avx512", fir, dither, tile};
}
