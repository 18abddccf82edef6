// Small kernels with known results, or with a known mistake.
#include "ryle/gpu/device.cuh"

constexpr unsigned ALL = 0xFFFFFFFFu;

// out += the sum of given[0 .. n).
KERNEL(256, 1) total(const int* __restrict__ given, int64_t* out, int n) {
    SHARED_BYTES(memory);
    int* const part = reinterpret_cast<int*>(memory);
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += __ldg(given + i);
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(ALL, sum, step);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        int64_t all = 0;
        for (int warp = 0; warp < static_cast<int>(blockDim.x / 32); ++warp) all += part[warp];
        atomicAdd(reinterpret_cast<unsigned long long*>(out), static_cast<unsigned long long>(all));
    }
}

// d[16][8] += a[16][32] b[32][8], with a and b as bytes in memory, a by rows and b by columns.
KERNEL(32, 1) multiply(const unsigned char* a, const unsigned char* b, int* d) {
    const int g = threadIdx.x / 4, q = threadIdx.x % 4;
    const auto of_a = [&](int row, int word) { return reinterpret_cast<const uint32_t*>(a)[row * 8 + word]; };
    const auto of_b = [&](int column, int word) { return reinterpret_cast<const uint32_t*>(b)[column * 8 + word]; };
    int sum[4];
    for (int i = 0; i < 4; ++i) sum[i] = d[(g + 8 * (i / 2)) * 8 + 2 * q + i % 2];
    const uint32_t four[4] = {of_a(g, q), of_a(g + 8, q), of_a(g, q + 4), of_a(g + 8, q + 4)};
    ryle::mma_16x8x32_s8(sum, four, of_b(g, q), of_b(g, q + 4));
    for (int i = 0; i < 4; ++i) d[(g + 8 * (i / 2)) * 8 + 2 * q + i % 2] = sum[i];
}

#ifdef UNDER_WAY
// Two stages of 16 bytes a thread; out is what the second stage holds after waiting for all but UNDER_WAY groups.
KERNEL(64, 1) copy(const uint4* given, uint4* out, int n) {
    SHARED_BYTES(memory);
    uint4* const stage = reinterpret_cast<uint4*>(memory);
    const int t = threadIdx.x;
    for (int s = 0; s < 2; ++s) {
        ryle::copy_async<16>(stage + s * 64 + t, given + s * 64 + t + OFFSET, s * 64 + t < n);
        ryle::copy_async_commit();
    }
    ryle::copy_async_wait<UNDER_WAY>();
    __syncthreads();
    for (int s = 0; s < 2; ++s) out[s * 64 + t] = stage[s * 64 + (t ^ 33)];
}
#endif

KERNEL(64, 1) misaligned_copy(const unsigned char* given) {
    SHARED_BYTES(memory);
    ryle::copy_async<8>(memory + 16 * threadIdx.x, given + 4, true);
}

KERNEL(64, 1) half_of_a_warp(int* out) {
    int sum = threadIdx.x;
    if (threadIdx.x < 40) sum += __shfl_xor_sync(ALL, sum, 1);
    out[threadIdx.x] = sum;
}

KERNEL(64, 1) return_before_a_barrier(int* out, int lanes) {
    if (static_cast<int>(threadIdx.x) >= lanes) return;
    __syncthreads();
    out[threadIdx.x] = 1;
}

KERNEL(64, 1) different_barriers(int* out) {
    if (threadIdx.x < 32)
        ryle::barrier(1, 64);
    else
        ryle::barrier(2, 64);
    out[threadIdx.x] = 0;
}

// Each warp passes values to the next through two named barriers, 64 threads each.
KERNEL(96, 1) hand_over(int* out) {
    SHARED_BYTES(memory);
    int* const value = reinterpret_cast<int*>(memory);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == 0) value[lane] = lane;
    if (warp <= 1) ryle::barrier(1, 64);
    if (warp == 1) value[32 + lane] = 10 * value[31 - lane];
    if (warp >= 1) ryle::barrier(2, 64);
    if (warp == 2) out[lane] = value[32 + (lane + 1) % 32];
}

// Reads what another thread wrote, without a barrier between.
KERNEL(128, 1) race(float* out) {
    SHARED_BYTES(memory);
    float* const value = reinterpret_cast<float*>(memory);
    value[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = value[threadIdx.x ^ 127];
}

KERNEL(256, 1) count(unsigned* counts, float* sum, int* most, unsigned long long* all, unsigned* bits) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(counts + i % 10, 1u);
    atomicAdd(sum, 0.5f);
    atomicMax(most, i);
    atomicAdd(all, 1ull << 33);
    atomicOr(bits, 1u << threadIdx.x % 32);
}

KERNEL(64, 1) write_at(int* out, int64_t index) {
    if (threadIdx.x == 17) out[index] = 0x01010101;
}

KERNEL(64, 1) write_shared(int index) {
    SHARED_BYTES(memory);
    if (threadIdx.x == 17) memory[index] = 1;
}

KERNEL(32, 1) read_misaligned(const float* given, float* out) {
    out[threadIdx.x] = reinterpret_cast<const float2*>(given + 1)[threadIdx.x].x;
}

KERNEL(32, 1) index_outside(int* out, int index) {
    int local[4] = {1, 2, 3, 4};
    out[threadIdx.x] = local[index];
}

KERNEL(32, 1) never_ends(volatile int* flag) {
    while (flag[0]) {
    }
}

// out[i][lane]: results of what has no Python name.
KERNEL(32, 1) language(const uint32_t* x, const uint32_t* y, uint32_t* out) {
    const int lane = threadIdx.x;
    const uint32_t a = x[lane], b = y[lane];
    uint32_t* to = out + lane;
    const auto put = [&](uint32_t value) { *to = value, to += 32; };
    put(__byte_perm(a, b, 0x6240));
    put(__funnelshift_l(a, b, b));
    put(__funnelshift_r(a, b, b));
    put(__funnelshift_lc(a, b, b % 64));
    put(__funnelshift_rc(a, b, b % 64));
    put(__dp4a(static_cast<int>(a), static_cast<int>(b), 7));
    put(__brev(a));
    put(__popc(a));
    put(__clz(a >> b % 32));
    put(__ffs(a << b % 32));
    put(__umulhi(a, b));
    put(__shfl_sync(ALL, a, lane + 3));
    put(__shfl_up_sync(ALL, a, 5));
    put(__shfl_down_sync(ALL, a, 5, 16));
    put(__ballot_sync(ALL, a & 1));
    put(__any_sync(ALL, lane == 7) + 2 * __all_sync(ALL, lane != 7));
    put(__reduce_add_sync(ALL, a));
    put(static_cast<uint32_t>(ryle::round_to_int8(static_cast<int>(a % 1024 - 512) * 0.5f)));
    put(ryle::int8_pair(static_cast<int>(a % 1024 - 512) * 0.5f, NAN));
    put(ryle::int8_pair(1, static_cast<int>(a % 1024 - 512) * 0.5f));
    put(static_cast<uint32_t>(ryle::floats_from_u16_pair(a).x));
    put(static_cast<uint32_t>(ryle::floats_from_u16_pair(a).y));
    put(ryle::product_words(a, b).x);
    put(ryle::product_words(a, b).y);
    float sine, cosine;
    sincospif(static_cast<int>(a) * 0x1p-24f, &sine, &cosine);
    put(__float_as_uint(sine));
    put(__float_as_uint(cosine));
    // Halves of the warp on their own.
    const uint32_t half = lane < 16 ? 0xFFFFu : 0xFFFF0000u;
    if (lane < 16)
        put(__reduce_add_sync(half, a) + __popc(__ballot_sync(half, 1)));
    else
        put(__shfl_sync(half, b, 16 + (lane + 1) % 16));
}
