// Random data for benchmarks, one pattern over and over; and a plain copy, the limit that they are held against.
#include "ryle/gpu/device.cuh"

// Write the pattern of `words` times 16 bytes to row blockIdx.y.
KERNEL(256, 1) repeat(int4* rows, const int4* pattern, int64_t words) {
    for (int64_t n = int64_t(blockIdx.x) * 256 + threadIdx.x; n < words; n += int64_t(gridDim.x) * 256)
        rows[blockIdx.y * words + n] = pattern[n];
}

// Copy `words` times 16 bytes; a thread has four of them under way.
KERNEL(512, 1) copy(int4* to, const int4* source, int64_t words) {
    const int64_t first = int64_t(blockIdx.x) * 2048 + threadIdx.x;
    int4 held[4];
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (first + 512 * k < words) held[k] = source[first + 512 * k];
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (first + 512 * k < words) to[first + 512 * k] = held[k];
}
