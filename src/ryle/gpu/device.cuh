// What CUDA C++ has no name for: matrix instructions, asynchronous copies, packed conversions.
//
// Kernels use nothing beyond CUDA C++ but what is here, so that they can also be compiled for a CPU, where tests run
// them with an emulated form of this file.
#pragma once

using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;
static_assert(sizeof(int64_t) == 8 && sizeof(void*) == 8);

#define DEVICE __device__ __forceinline__
// What one thread does seldom, apart from code in which all hold many registers.
#define OUT_OF_LINE __device__ __noinline__
#define KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
// All shared memory of a kernel, 128-byte aligned; its size is given at launch.
#define SHARED_BYTES(name) extern __shared__ __align__(128) unsigned char name[]

namespace ryle {

// A constant as an argument of a generic lambda: `decltype(x)::value`.
template <auto VALUE>
struct Constant {
    static constexpr auto value = VALUE;
};

// Call f(Constant<0>()), f(Constant<1>()) and so on, COUNT times.
template <int COUNT, int NEXT = 0, class F>
DEVICE void unrolled(F&& f) {
    if constexpr (NEXT < COUNT) {
        f(Constant<NEXT>());
        unrolled<COUNT, NEXT + 1>(f);
    }
}

// d[16 x 8] += a[16 x 32] · b[32 x 8]; bytes in, int32 accumulators. Lane l = 4g + q holds
// a: rows g, g+8 (a[0], a[1]) of k = 4q .. 4q+3 and the same rows (a[2], a[3]) of k + 16;
// b: column g of k = 4q .. 4q+3 (b0) and k + 16 (b1); d: row g columns 2q, 2q+1 (d[0], d[1]) and row g + 8 (d[2],
// d[3]).
DEVICE void mma_16x8x32_s8(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Load 2 or 4 matrices of 8 rows of 16 bytes from shared memory; lane l gives the address of row l % 8 of matrix l / 8
// (of two matrices, lanes from 16 on give none) and gets bytes 4 (l % 4) .. 4 (l % 4) + 3 of row l / 4 of each.
template <int COUNT>
DEVICE void load_matrices(uint32_t (&d)[COUNT], const void* row) {
    static_assert(COUNT == 2 || COUNT == 4);
    const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
    if constexpr (COUNT == 4)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                     : "r"(at)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                     : "=r"(d[0]), "=r"(d[1])
                     : "r"(at)
                     : "memory");
}

// Copy BYTES (4, 8 or 16; both addresses multiples of it) from global to shared memory without waiting; where `wanted`
// is false, zeros are written and nothing is read.
template <int BYTES>
DEVICE void copy_async(void* shared, const void* global, bool wanted) {
    const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    const int size = wanted ? BYTES : 0;
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(size) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(global), "n"(BYTES), "r"(size)
                     : "memory");
}
// The same with 8 or 16 bytes, or nothing at all. Other accesses to memory may move over it: nobody may use this piece
// of shared memory between the barriers before and after.
template <int BYTES>
DEVICE void copy_async_if(bool wanted, void* shared, const void* global) {
    const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    if constexpr (BYTES == 16)
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 0; @p cp.async.cg.shared.global [%1], [%2], 16; }" ::"r"(
                         uint32_t(wanted)),
                     "r"(to), "l"(global));
    else
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 0; @p cp.async.ca.shared.global [%1], [%2], %3; }" ::"r"(
                         uint32_t(wanted)),
                     "r"(to), "l"(global), "n"(BYTES));
}
DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Wait until at most PENDING committed groups of this thread are still under way.
template <int PENDING>
DEVICE void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Fill N pieces of shared memory from global memory without waiting (16-byte aligned, `bytes` multiples of 16), called
// by all threads of a block; nobody may read it before fill_wait, which all threads call, alternating `parity` from 0.
// `arrival` is a word of shared memory that fill_init has prepared. The copy engine does it where there is one.
DEVICE void fill_init(uint64_t* arrival) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x != 0) return;
    const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(arrival));
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
template <int N>
DEVICE void fill(void* const (&shared)[N], const void* const (&global)[N], const uint32_t (&bytes)[N],
                 uint64_t* arrival) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) {
        const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(arrival));
        uint32_t sum = 0;
        for (int i = 0; i < N; ++i) sum += bytes[i];
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // earlier reads come before
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at), "r"(sum) : "memory");
        for (int i = 0; i < N; ++i)
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                    static_cast<uint32_t>(__cvta_generic_to_shared(shared[i]))),
                "l"(global[i]), "r"(bytes[i]), "r"(at)
                : "memory");
    }
#else
    for (int i = 0; i < N; ++i)
        for (uint32_t at = threadIdx.x * 16; at < bytes[i]; at += blockDim.x * 16)
            copy_async<16>(static_cast<uint8_t*>(shared[i]) + at, static_cast<const uint8_t*>(global[i]) + at, true);
    copy_async_commit();
#endif
}
DEVICE void fill_wait(uint64_t* arrival, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
    const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(arrival));
    uint32_t done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(at), "r"(parity)
                     : "memory");
    } while (!done);
#else
    copy_async_wait<0>();
    __syncthreads();
#endif
}

// A barrier in two steps: a warp arrives, and goes on; it waits where it needs that all warps have. `arrival` is a word
// of shared memory, prepared for so many warps; a warp's lanes call all of it together, alternating `parity` from 0.
// Two steps where there are such words, else one.
DEVICE void arrival_init(uint64_t* arrival, int warps) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x != 0) return;
    const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(arrival));
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(warps) : "memory");
#endif
}
DEVICE void arrive(uint64_t* arrival) {
    __syncwarp();
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x % 32 != 0) return;
    const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(arrival));
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at) : "memory");
#endif
}
// Each thread arrives by itself, once what it has begun to copy is there; `arrival` is prepared for all threads.
DEVICE void copies_arrive(uint64_t* arrival) {
#if __CUDA_ARCH__ >= 900
    const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(arrival));
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(at) : "memory");
#else
    copy_async_commit();
    copy_async_wait<0>();
#endif
}
DEVICE void arrival_wait(uint64_t* arrival, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
    fill_wait(arrival, parity);
#else
    __syncthreads();
#endif
}

// The two halves of a register as floats, the high one first. Each is one conversion, whereas shifts would come beside.
DEVICE float2 floats_from_u16_pair(uint32_t pair) {
    float2 values;
    asm("{ .reg .u16 low, high; mov.b32 {low, high}, %2; cvt.rn.f32.u16 %0, high; cvt.rn.f32.u16 %1, low; }"
        : "=f"(values.x), "=f"(values.y)
        : "r"(pair));
    return values;
}

// The low and the high word of a product, in one instruction.
DEVICE uint2 product_words(uint32_t a, uint32_t b) {
    uint2 words;
    asm("{ .reg .u64 product; mul.wide.u32 product, %2, %3; mov.b64 {%0, %1}, product; }"
        : "=r"(words.x), "=r"(words.y)
        : "r"(a), "r"(b));
    return words;
}

// Values of memory read before this are not kept in registers to be used again behind it.
DEVICE void forget() { asm volatile("" ::: "memory"); }

// bits & mask ^ other, of constants, in one instruction, which takes one of them from a register.
DEVICE uint32_t masked_xor(uint32_t bits, uint32_t mask, uint32_t other) {
    uint32_t result;
    asm("lop3.b32 %0, %1, %2, %3, 0x6A;" : "=r"(result) : "r"(bits), "r"(mask), "r"(other));
    return result;
}

// Nearest integer, ties to even, clamped to [-128, 127].
DEVICE int round_to_int8(float value) {
    int rounded;
    asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(rounded) : "f"(value));
    return rounded;
}

// Two values as bytes, the first in the low one of a register's lower half: nearest integers, ties to even, clamped to
// [-128, 127]; NaN becomes 0.
DEVICE uint32_t int8_pair(float low, float high) {
    int a, b;
    uint32_t pair;
    asm("cvt.rni.s32.f32 %0, %1;" : "=r"(a) : "f"(low));
    asm("cvt.rni.s32.f32 %0, %1;" : "=r"(b) : "f"(high));
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, 0;" : "=r"(pair) : "r"(b), "r"(a));
    return pair;
}

// Add one to `count` where value >= limit.
DEVICE void count_at_least(int& count, float value, float limit) {
    asm("{ .reg .pred p; setp.ge.f32 p, %1, %2; @p add.s32 %0, %0, 1; }" : "+r"(count) : "f"(value), "f"(limit));
}

// Nothing that is computed from this value may move to before this point.
DEVICE void anchor(int& value) { asm volatile("" : "+r"(value)::"memory"); }

// threadIdx.x, read anew: what follows from it is not kept in registers from before.
DEVICE uint32_t thread_anew() {
    uint32_t thread;
    asm volatile("mov.u32 %0, %tid.x;" : "=r"(thread));
    return thread;
}

// Cycles that this multiprocessor has counted, modulo 2³².
DEVICE uint32_t cycles_now() {
    uint32_t cycles;
    asm volatile("mov.u32 %0, %clock;" : "=r"(cycles)::"memory");
    return cycles;
}

// Barrier `id` (1 to 15) of `threads` threads of the block.
DEVICE void barrier(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

}  // namespace ryle
