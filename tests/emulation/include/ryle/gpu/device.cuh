// The emulated form of src/ryle/gpu/device.cuh: the same functions, in C++ that exchanges values between fibers.
#pragma once

#include "emulation/launch.h"
// cuda.h comes last: it makes int64_t long long, which no system header after it would survive.
#include "emulation/copies.h"
#include "emulation/cuda.h"

static_assert(sizeof(int64_t) == 8 && sizeof(void*) == 8);

#define DEVICE __device__ __forceinline__
#define OUT_OF_LINE __device__ __attribute__((noinline))
#define KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#define SHARED_BYTES(name) unsigned char* const name = emulation::state.shared

namespace emulation {

struct Fragments {
    uint32_t a[4], b[2];
};

// The values that lane l = 4g + q holds are elements (row, k) of a and (k, column) of b as the real device.cuh tells,
// four along k in each register. Makes a[16][32] b[32][8] of them, which takes the lanes' place. Half of the time that
// kernels take is spent here, hence the attributes.
__attribute__((noinline, optimize("O3"), no_sanitize("undefined"))) static void multiply_fragments(Values values) {
    constexpr int K = 32;
    int a[16][K], b[K][8];
    for (int g = 0; g < 8; ++g) {
        for (int q = 0; q < 4; ++q) {
            Fragments mine;
            memcpy(&mine, values[4 * g + q], sizeof mine);
            signed char elements[4];
            for (int r = 0; r < 4; ++r) {
                memcpy(elements, &mine.a[r], 4);
                for (int i = 0; i < 4; ++i) a[g + 8 * (r % 2)][4 * (q + 4 * (r / 2)) + i] = elements[i];
            }
            for (int r = 0; r < 2; ++r) {
                memcpy(elements, &mine.b[r], 4);
                for (int i = 0; i < 4; ++i) b[4 * (q + 4 * r) + i][g] = elements[i];
            }
        }
    }
    for (int row = 0; row < 16; ++row) {
        int d[8] = {};
        for (int k = 0; k < K; ++k)
            for (int column = 0; column < 8; ++column) d[column] += a[row][k] * b[k][column];
        for (int q = 0; q < 4; ++q) memcpy(values[row % 8 * 4 + q] + row / 8 * 2 * sizeof(int), d + 2 * q, 2 * sizeof(int));
    }
}

}  // namespace emulation

namespace emulation {

static inline void arrive_one(uint64_t* arrival) {
    const uint64_t expected = *arrival >> 16 & 0xFFFF;
    if ((*arrival & 0xFFFF) + 1 < expected)
        ++*arrival;
    else
        *arrival = ((*arrival >> 32) + 1) << 32 | expected << 16;
}

}  // namespace emulation

namespace ryle {

DEVICE void mma_16x8x32_s8(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, EMULATED_PLACE) {
    struct Four {
        int sum[4];
    };
    const emulation::Fragments mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    const Four four = emulation::meet("mma_16x8x32_s8", place, true, emulation::ALL, mine,
                                      emulation::multiply_fragments, [&](auto values) {
                                          Four taken;
                                          memcpy(&taken, values[emulation::state.current->lane], sizeof taken);
                                          return taken;
                                      });
    // Sums wrap, as they do there.
    for (int i = 0; i < 4; ++i) d[i] = static_cast<int>(static_cast<uint32_t>(d[i]) + static_cast<uint32_t>(four.sum[i]));
}

template <int COUNT>
DEVICE void load_matrices(uint32_t (&d)[COUNT], const void* row, EMULATED_PLACE) {
    static_assert(COUNT == 2 || COUNT == 4);
    struct Own {
        const unsigned char* row;
    } own = {static_cast<const unsigned char*>(row)};
    const unsigned lane = emulation::state.current->lane;
    if (lane < 8 * COUNT) {
        const ptrdiff_t at = own.row - emulation::state.shared;
        if (at < 0 || at % 16 || static_cast<uint64_t>(at) + 16 > emulation::state.shared_bytes)
            emulation::fail("load_matrices, line %d: a row at byte %td of shared memory", place.line, at);
    }
    struct Taken {
        uint32_t d[COUNT];
    };
    const Taken taken = emulation::meet(
        "load_matrices", place, false, emulation::ALL, own, [](auto) {},
        [&](auto values) {
            Taken mine;
            for (int i = 0; i < COUNT; ++i) {
                Own given;
                memcpy(&given, values[8 * i + lane / 4], sizeof given);
                memcpy(&mine.d[i], given.row + lane % 4 * 4, 4);
            }
            return mine;
        });
    for (int i = 0; i < COUNT; ++i) d[i] = taken.d[i];
}

template <int BYTES>
DEVICE void copy_async(void* shared, const void* global, bool wanted, EMULATED_PLACE) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16);
    emulation::issue_copy(shared, global, BYTES, wanted, place);
}
template <int BYTES>
DEVICE void copy_async_if(bool wanted, void* shared, const void* global, EMULATED_PLACE) {
    if (wanted) emulation::issue_copy(shared, global, BYTES, true, place);
}
DEVICE void copy_async_commit() { emulation::commit_copies(); }
template <int PENDING>
DEVICE void copy_async_wait() {
    emulation::finish_copies(PENDING);
}

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

// As the copy engine does it: one thread tells it, the others only wait, and nobody for them.
DEVICE void fill_init(uint64_t* arrival) {
    if (threadIdx.x == 0) *arrival = 0;
}
template <int N>
DEVICE void fill(void* const (&shared)[N], const void* const (&global)[N], const uint32_t (&bytes)[N],
                 uint64_t* arrival, EMULATED_PLACE) {
    if (threadIdx.x == 0) emulation::begin_load(arrival, shared, global, bytes, N, place);
}
DEVICE void fill_wait(uint64_t* arrival, uint32_t parity) {
    volatile uint64_t* const fillings = arrival;
    while (*fillings % 2 == parity) {
        if (emulation::finish_load(arrival))
            *fillings = *fillings + 1;
        else
            emulation::pause();
    }
}

// In the upper half how often all have arrived; below how many are to, and how many have.
DEVICE void arrival_init(uint64_t* arrival, int warps) {
    if (threadIdx.x == 0) *arrival = static_cast<uint64_t>(warps) << 16;
}
DEVICE void arrive(uint64_t* arrival) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) emulation::arrive_one(arrival);
}
DEVICE void copies_arrive(uint64_t* arrival) {
    copy_async_commit();
    copy_async_wait<0>();
    emulation::arrive_one(arrival);
}
DEVICE void arrival_wait(uint64_t* arrival, uint32_t parity) {
    const volatile uint64_t* const state = arrival;
    while ((*state >> 32) % 2 == parity) emulation::pause();
}

DEVICE uint32_t cycles_now() {
    static uint32_t cycles;
    return ++cycles;
}
DEVICE uint32_t thread_anew() { return threadIdx.x; }
DEVICE void anchor(int& value) { (void)value; }
DEVICE void count_at_least(int& count, float value, float limit) { count += value >= limit; }

DEVICE uint32_t masked_xor(uint32_t bits, uint32_t mask, uint32_t other) { return (bits & mask) ^ other; }

DEVICE int round_to_int8(float value) {
    const float rounded = rintf(value);
    return value != value ? 0 : rounded < -128 ? -128 : rounded > 127 ? 127 : static_cast<int>(rounded);
}
DEVICE uint32_t int8_pair(float low, float high) {
    return static_cast<uint32_t>((round_to_int8(low) & 255) | (round_to_int8(high) & 255) << 8);
}

DEVICE float2 floats_from_u16_pair(uint32_t pair) {
    return make_float2(static_cast<float>(pair >> 16), static_cast<float>(pair & 0xFFFF));
}
DEVICE uint2 product_words(uint32_t a, uint32_t b) {
    const uint64_t product = uint64_t(a) * b;
    return make_uint2(static_cast<uint32_t>(product), static_cast<uint32_t>(product >> 32));
}
DEVICE void forget() {}

DEVICE void barrier(int id, int threads, EMULATED_PLACE) {
    if (id < 1 || id > 15 || threads < 32 || threads % 32)
        emulation::fail("line %d: barrier(%d, %d): the number must be 1 to 15, the threads a multiple of 32",
                        place.line, id, threads);
    emulation::wait_at_barrier(static_cast<unsigned>(id), static_cast<unsigned>(threads), 0, place);
}

}  // namespace ryle
