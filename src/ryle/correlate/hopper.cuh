// Hopper's own means: barriers that count bytes, the copy engine, matrix instructions of a warpgroup. For sm_90a.
//
// Kept apart from the kernel so that tests can run it with an emulated form of this file.
#pragma once
#include "ryle/gpu/device.cuh"

namespace ryle {

// Where something lies in shared memory, as the instructions here name it.
DEVICE uint32_t shared_address(const void* shared) { return static_cast<uint32_t>(__cvta_generic_to_shared(shared)); }

// A barrier in 8 bytes of shared memory: a phase ends when `count` threads have arrived and the bytes they expect are
// there.
DEVICE void barrier_init(uint64_t* barrier, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}
// Let the copy engine see the barriers that this thread initialised.
DEVICE void barrier_init_done() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEVICE void barrier_arrive(uint64_t* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
DEVICE void barrier_arrive_expecting(uint64_t* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}
// Wait until the phase of this parity (0 for the first) has ended.
DEVICE void barrier_wait(uint64_t* barrier, int parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
}

// As load_matrices of 4 with each transposed in halves of words: lane l gets the halves l / 4 of rows 2 (l % 4) and
// 2 (l % 4) + 1 of each.
DEVICE void load_matrices_transposed(uint32_t (&d)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(shared_address(row))
                 : "memory");
}
// The reverse of load_matrices of 4.
DEVICE void store_matrices(void* row, const uint32_t (&d)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(shared_address(row)), "r"(d[0]),
                 "r"(d[1]), "r"(d[2]), "r"(d[3])
                 : "memory");
}

// 16 bytes of shared memory in the first lane, zeros in others; without a branch.
DEVICE int4 load_first(const void* from) {
    int4 d;
    asm volatile(
        "{\n.reg .pred first;\nsetp.eq.u32 first, %5, 0;\n"
        "mov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
        "@first ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];\n}"
        : "=&r"(d.x), "=&r"(d.y), "=&r"(d.z), "=&r"(d.w)
        : "r"(shared_address(from)), "r"(threadIdx.x % 32)
        : "memory");
    return d;
}

// The least of each half of three words, as signed 16 bits.
DEVICE uint32_t least_halves(uint32_t a, uint32_t b, uint32_t c) { return __vimin3_s16x2(a, b, c); }

// The greater of each half of two words, as signed 16 bits.
DEVICE uint32_t greater_halves(uint32_t a, uint32_t b) {
    uint32_t d;
    asm("max.s16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}

// Let the matrix units and the copy engine see what this thread has written to shared memory.
DEVICE void shared_writes_done() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Let this thread fetch by a CUtensorMap in global memory that the host has written.
DEVICE void map_acquire(const void* map) {
    asm volatile("fence.proxy.tensormap::generic.acquire.sys [%0], 128;" ::"l"(map) : "memory");
}
// Fetch the box at (bytes, polarization, antenna, block, channel) of the array that `map` describes, a CUtensorMap in
// global memory; its bytes count for the barrier, those of rows that do not exist, which become zero, included.
DEVICE void fetch_box(void* shared, const void* map, uint64_t* barrier, int antenna, int block, int channel) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%2, %2, %3, %4, %5}], [%6];" ::"r"(shared_address(shared)),
        "l"(map), "r"(0), "r"(antenna), "r"(block), "r"(channel), "r"(shared_address(barrier))
        : "memory");
}
// Fetch the box at (x, y, z) of samples.
DEVICE void fetch_samples(void* shared, const void* map, uint64_t* barrier, int x, int y, int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(shared)),
        "l"(map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier))
        : "memory");
}
// Fetch so many bytes, a multiple of 16 as both addresses are.
DEVICE void fetch(void* shared, const void* global, uint64_t* barrier, int bytes) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(shared)),
                 "l"(global), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

// Write to global memory where `there`, and to shared memory, in the order in which they are told.
DEVICE void store(int* to, const int4& v, bool there) {
    asm volatile(
        "{\n"
        ".reg .pred there;\n"
        "setp.ne.s32 there, %5, 0;\n"
        "@there st.global.v4.s32 [%0], {%1, %2, %3, %4};\n"
        "}" ::"l"(to),
        "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(static_cast<int>(there))
        : "memory");
}
DEVICE void store_shared(void* to, const int4& v) {
    asm volatile("st.shared.v4.s32 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(to)), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w)
                 : "memory");
}

// Send so many bytes, a multiple of 16 as both addresses are, to global memory without waiting, or `add` them as int32
// to what is there. What another thread wrote to shared memory it must have told of with shared_writes_done.
DEVICE void send(void* global, const void* shared, int bytes, bool add) {
    if (add)
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%0], [%1], %2;" ::"l"(global),
                     "r"(shared_address(shared)), "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
                     "r"(shared_address(shared)), "r"(bytes)
                     : "memory");
}
// Wait until all that this thread has sent has been read from shared memory, or has arrived.
DEVICE void send_read() { asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory"); }
DEVICE void send_done() { asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory"); }

// Change this warpgroup's registers; the pool is what the kernel was launched with.
template <int REGISTERS>
DEVICE void registers_take() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS>
DEVICE void registers_give() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// Before the first of a run of matrix instructions, and after registers that they use have changed.
DEVICE void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
DEVICE void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// Nothing that reads these registers may move to before this point.
template <int COUNT>
DEVICE void settle(int (&registers)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

// What the matrix unit is told of b: rows of 128 bytes, 128-byte swizzle, at this shared address.
DEVICE uint64_t rows_descriptor(uint32_t address) {
    constexpr uint64_t SWIZZLE_128 = 1ull << 62, EIGHT_ROWS = uint64_t(1024 >> 4) << 32, UNUSED = 1ull << 16;
    return SWIZZLE_128 | EIGHT_ROWS | UNUSED | (address & 0x3FFFF) >> 4;
}

// d[64 x N] += a[64 x 32] · b[32 x N], bytes in, int32 out, started only. Warp w of the warpgroup holds rows 16w to
// 16w + 15 of a and d as in mma_16x8x32_s8, columns 8n to 8n + 7 of d in d[4n .. 4n+3]; column c of b is the 32 bytes
// from the descriptor's address on, of row c.
template <int N>
DEVICE void wgmma(int (&d)[N / 2], const uint32_t (&a)[4], uint64_t b);

// clang-format off
#define L0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define L1 "%8, %9, %10, %11, %12, %13, %14, %15"
#define L2 "%16, %17, %18, %19, %20, %21, %22, %23"
#define L3 "%24, %25, %26, %27, %28, %29, %30, %31"
#define L4 "%32, %33, %34, %35, %36, %37, %38, %39"
#define L5 "%40, %41, %42, %43, %44, %45, %46, %47"
#define L6 "%48, %49, %50, %51, %52, %53, %54, %55"
#define L7 "%56, %57, %58, %59, %60, %61, %62, %63"
#define L8 "%64, %65, %66, %67, %68, %69, %70, %71"
#define L9 "%72, %73, %74, %75, %76, %77, %78, %79"
#define L10 "%80, %81, %82, %83, %84, %85, %86, %87"
#define L11 "%88, %89, %90, %91, %92, %93, %94, %95"
#define D(i)                                                                                                           \
    "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), "+r"(d[i + 4]), "+r"(d[i + 5]), "+r"(d[i + 6]),        \
        "+r"(d[i + 7])
#define WGMMA(n, list, a0, a1, a2, a3, descriptor, ...)                                                                \
    template <> DEVICE void wgmma<n>(int(&d)[n / 2], const uint32_t(&a)[4], uint64_t b) {                     \
        asm volatile("{\n.reg .pred plus;\nsetp.ne.b32 plus, 1, 0;\n"                                         \
                     "wgmma.mma_async.sync.aligned.m64n" #n "k32.s32.s8.s8 {" list "}, {%" #a0 ", %" #a1 ", %" #a2      \
                     ", %" #a3 "}, %" #descriptor ", plus;\n}"                                                         \
                     : __VA_ARGS__                                                                                     \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)                                                   \
                     : "memory");                                                                                      \
    }
WGMMA(16, L0, 8, 9, 10, 11, 12, D(0))
WGMMA(32, L0 ", " L1, 16, 17, 18, 19, 20, D(0), D(8))
WGMMA(48, L0 ", " L1 ", " L2, 24, 25, 26, 27, 28, D(0), D(8), D(16))
WGMMA(64, L0 ", " L1 ", " L2 ", " L3, 32, 33, 34, 35, 36, D(0), D(8), D(16), D(24))
WGMMA(80, L0 ", " L1 ", " L2 ", " L3 ", " L4, 40, 41, 42, 43, 44, D(0), D(8), D(16), D(24), D(32))
WGMMA(96, L0 ", " L1 ", " L2 ", " L3 ", " L4 ", " L5, 48, 49, 50, 51, 52, D(0), D(8), D(16), D(24), D(32), D(40))
WGMMA(112, L0 ", " L1 ", " L2 ", " L3 ", " L4 ", " L5 ", " L6, 56, 57, 58, 59, 60, D(0), D(8), D(16), D(24), D(32), D(40), D(48))
WGMMA(128, L0 ", " L1 ", " L2 ", " L3 ", " L4 ", " L5 ", " L6 ", " L7, 64, 65, 66, 67, 68, D(0), D(8), D(16), D(24), D(32), D(40), D(48), D(56))
WGMMA(144, L0 ", " L1 ", " L2 ", " L3 ", " L4 ", " L5 ", " L6 ", " L7 ", " L8, 72, 73, 74, 75, 76, D(0), D(8), D(16), D(24), D(32), D(40), D(48), D(56), D(64))
WGMMA(160, L0 ", " L1 ", " L2 ", " L3 ", " L4 ", " L5 ", " L6 ", " L7 ", " L8 ", " L9, 80, 81, 82, 83, 84, D(0), D(8), D(16), D(24), D(32), D(40), D(48), D(56), D(64), D(72))
WGMMA(176, L0 ", " L1 ", " L2 ", " L3 ", " L4 ", " L5 ", " L6 ", " L7 ", " L8 ", " L9 ", " L10, 88, 89, 90, 91, 92, D(0), D(8), D(16), D(24), D(32), D(40), D(48), D(56), D(64), D(72), D(80))
WGMMA(192, L0 ", " L1 ", " L2 ", " L3 ", " L4 ", " L5 ", " L6 ", " L7 ", " L8 ", " L9 ", " L10 ", " L11, 96, 97, 98, 99, 100, D(0), D(8), D(16), D(24), D(32), D(40), D(48), D(56), D(64), D(72), D(80), D(88))
#undef L0
#undef L1
#undef L2
#undef L3
#undef L4
#undef L5
#undef L6
#undef L7
#undef L8
#undef L9
#undef L10
#undef L11
#undef D
#undef WGMMA
// clang-format on

}  // namespace ryle
