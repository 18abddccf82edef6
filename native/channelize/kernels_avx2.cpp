#include <immintrin.h>

#define LANES 8
#define FIR_ROWS 12
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define MULTIPLY_ADD(a, b, c) _mm256_fmadd_ps(a, b, c)
#define MULTIPLY_ADD_1(a, b, c) __builtin_fmaf(a, b, c)
typedef __m256 Vector;

#include "channelize/kernels_body.h"

namespace ryle {
const ChannelizeKernels channelize_avx2 = {"avx2", fir, tile};
}
