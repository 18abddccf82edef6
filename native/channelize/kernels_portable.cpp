// For any architecture: GNU vectors of four floats, which SSE2 and NEON have registers for.
#include <cstdint>
#include <cstring>

typedef float Vector __attribute__((vector_size(16)));
typedef int32_t Integers __attribute__((vector_size(16)));
typedef uint64_t Wide __attribute__((vector_size(16)));

namespace {
inline Vector load(const float* from) {
    Vector vector;
    std::memcpy(&vector, from, sizeof vector);
    return vector;
}
inline void store(float* to, Vector vector) { std::memcpy(to, &vector, sizeof vector); }
}  // namespace

#define LOAD(p) load(p)
#define STORE(p, v) store(p, v)
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#define MULTIPLY_LOW_HALVES(a, b) (((a) & 0xFFFFFFFFu) * (b))
#define LEAVE()
#define LANES 4
#define FIR_ROWS 8
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)

#include "kernels_body.h"

namespace ryle {
const ChannelizeKernels channelize_portable = {"portable", fir, dither, tile};
}
