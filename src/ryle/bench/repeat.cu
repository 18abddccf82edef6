// Random data for benchmarks: one pattern over and over.
#include "ryle/gpu/device.cuh"

// Write the pattern of `words` times 16 bytes to row blockIdx.y.
KERNEL(256, 1) repeat(int4* rows, const int4* pattern, int64_t words) {
    for (int64_t n = int64_t(blockIdx.x) * 256 + threadIdx.x; n < words; n += int64_t(gridDim.x) * 256)
        rows[blockIdx.y * words + n] = pattern[n];
}
