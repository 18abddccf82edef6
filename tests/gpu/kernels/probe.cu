// Small kernels that show whether the layer below the operations works.
#include "ryle/gpu/device.cuh"

#include "scale.cuh"

// out = FACTOR · a + b
KERNEL(256, 1) scale_add(const float *a, const float *b, float *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = ryle_probe::scaled(a[i]) + b[i];
}

// Reverse blocks of blockDim.x ints through dynamic shared memory, whose last byte is used too.
KERNEL(1024, 1) reverse(const int *given, int *out, int bytes) {
    SHARED_BYTES(memory);
    int *row = reinterpret_cast<int *>(memory);
    const int t = threadIdx.x, at = blockIdx.x * blockDim.x;
    row[t] = given[at + t];
    __syncthreads();
    const int value = row[blockDim.x - 1 - t];
    __syncthreads();
    if (t == 0) memory[bytes - 1] = 7;
    __syncthreads();
    out[at + t] = value + memory[bytes - 1] - 7;
}

// Every kind of scalar as it came.
KERNEL(32, 1) scalars(double *floats, long long *integers, int i32, uint32_t u32, int64_t i64, uint64_t u64, float f32,
                      double f64) {
    integers[0] = i32;
    integers[1] = u32;
    integers[2] = i64;
    integers[3] = static_cast<long long>(u64);
    floats[0] = f32;
    floats[1] = f64;
}

// Where each block of a three-dimensional grid and each thread of a three-dimensional block stands.
KERNEL(64, 1) places(int *out) {
    const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] = 1000 * block + thread;
}

// Spin for some clock cycles: work whose least length the host chooses.
KERNEL(32, 1) spin(int64_t cycles) {
    const long long begin = clock64();
    while (clock64() - begin < cycles) {
    }
}

// Wait until the host lets go by setting a flag, or for so many cycles; tell which: 1 or 2.
KERNEL(1, 1) hold(const volatile int *flag, int *out, int64_t cycles) {
    const long long begin = clock64();
    while (*flag == 0 && clock64() - begin < cycles) {
    }
    *out = *flag == 0 ? 2 : 1;
}

// A matrix product of one warp, of operands laid out by the host.
KERNEL(32, 1) matrix(const uint32_t *a, const uint32_t *b, int *bytes) {
    const int lane = threadIdx.x, g = lane / 4, q = lane % 4;
    // a: [16 rows][8 words], b: [8 columns][8 words], k along a row
    uint32_t y[4] = {a[g * 8 + q], a[(g + 8) * 8 + q], a[g * 8 + q + 4], a[(g + 8) * 8 + q + 4]};
    int s[4] = {};
    ryle::mma_16x8x32_s8(s, y, b[g * 8 + q], b[g * 8 + q + 4]);
    for (int i = 0; i < 4; i++) {
        const int at = (g + i / 2 * 8) * 8 + 2 * q + i % 2;
        bytes[at] = s[i];
    }
}

// Rows of 16 bytes, lane l's the row `order[l]`, as load_matrices takes them: four matrices, then two.
KERNEL(32, 1) matrices(const uint4 *given, const int *order, uint32_t *out) {
    SHARED_BYTES(memory);
    uint4 *rows = reinterpret_cast<uint4 *>(memory);
    const int lane = threadIdx.x;
    rows[lane] = given[lane];
    __syncthreads();
    uint32_t four[4], two[2];
    ryle::load_matrices(four, rows + order[lane]);
    ryle::load_matrices(two, rows + order[lane]);
    for (int i = 0; i < 4; i++) out[i * 32 + lane] = four[i];
    for (int i = 0; i < 2; i++) out[(4 + i) * 32 + lane] = two[i];
}

// 16-byte asynchronous copies, zeros where not wanted; then conversions: rounding to bytes, one and two at a time, halves
// of a word.
KERNEL(64, 1) copies(const unsigned char *given, unsigned char *out, int wanted, const float *values, int *rounded,
                     uint16_t *both, float *numbers) {
    SHARED_BYTES(memory);
    const int t = threadIdx.x;
    ryle::copy_async<16>(memory + 16 * t, given + 16 * t, t < wanted);
    ryle::copy_async_commit();
    ryle::copy_async_wait<0>();
    ryle::barrier(1, 64);
    for (int i = 0; i < 16; i++) out[16 * t + i] = memory[16 * (63 - t) + i];
    rounded[2 * t] = ryle::round_to_int8(values[2 * t]);
    rounded[2 * t + 1] = ryle::round_to_int8(values[2 * t + 1]);
    both[t] = ryle::int8_pair(values[2 * t], t == 0 ? __uint_as_float(0x7fc00000) : values[2 * t + 1]); // not a number
    const float2 high_first = ryle::floats_from_u16_pair(__float_as_uint(values[t]));
    numbers[2 * t] = high_first.y;
    numbers[2 * t + 1] = high_first.x;
}

// Read where no memory is.
KERNEL(32, 1) stray(int *out) { out[threadIdx.x] = *reinterpret_cast<int *>(64); }
