#include <immintrin.h>

#define LANES 16
#define FIR_ROWS 16
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define MULTIPLY_ADD(a, b, c) _mm512_fmadd_ps(a, b, c)
#define MULTIPLY_ADD_1(a, b, c) __builtin_fmaf(a, b, c)
typedef __m512 Vector;

#include "channelize/kernels_body.h"

namespace ryle {
const ChannelizeKernels channelize_avx512 = {"avx512", fir, tile};
}
