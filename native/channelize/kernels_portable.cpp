// For any architecture: GNU vectors of four floats, which SSE2 and NEON have registers for.
#include <cstring>

typedef float Vector __attribute__((vector_size(16)));

namespace {
inline Vector load(const float* from) {
    Vector vector;
    std::memcpy(&vector, from, sizeof vector);
    return vector;
}
inline void store(float* to, Vector vector) { std::memcpy(to, &vector, sizeof vector); }
}  // namespace

#define LANES 4
#define FIR_ROWS 8
#define LOAD(p) load(p)
#define STORE(p, v) store(p, v)
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#define MULTIPLY_ADD_1(a, b, c) ((a) * (b) + (c))

#include "channelize/kernels_body.h"

namespace ryle {
const ChannelizeKernels channelize_portable = {"portable", fir, tile};
}
