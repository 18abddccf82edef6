// The emulated form of src/ryle/gpu/device.cuh: the same functions, in C++ that exchanges values between fibers.
#pragma once

#include "emulation/launch.h"
// cuda.h comes last: it makes int64_t long long, which no system header after it would survive.
#include "emulation/copies.h"
#include "emulation/cuda.h"

static_assert(sizeof(int64_t) == 8 && sizeof(void*) == 8);

#define DEVICE __device__ __forceinline__
#define KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#define SHARED_BYTES(name) unsigned char* const name = emulation::state.shared

namespace emulation {

struct Fragments {
    uint32_t a[4], b[2];
};

// The values that lane l = 4g + q holds are elements (row, k) of a and (k, column) of b as the real device.cuh tells,
// PER elements along k in each register. Makes a[16][K] b[K][8] of them, which takes the lanes' place. Half of the time
// that kernels take is spent here, hence the attributes.
template <typename Element, int PER, int REGISTERS, typename Sum>
__attribute__((noinline, optimize("O3"), no_sanitize("undefined"))) static void multiply_fragments(Values values) {
    constexpr int K = 4 * PER * (REGISTERS / 2);
    // Products are exact in either: 22 bits of two halves, 15 of two bytes.
    using Factor = std::conditional_t<std::is_same_v<Element, _Float16>, float, int>;
    Factor a[16][K], b[K][8];
    for (int g = 0; g < 8; ++g) {
        for (int q = 0; q < 4; ++q) {
            Fragments mine;
            memcpy(&mine, values[4 * g + q], sizeof mine);
            for (int r = 0; r < REGISTERS; ++r) {
                Element elements[PER];
                memcpy(elements, &mine.a[r], 4);
                for (int i = 0; i < PER; ++i)
                    a[g + 8 * (r % 2)][PER * (q + 4 * (r / 2)) + i] = static_cast<Factor>(elements[i]);
            }
            for (int r = 0; r < REGISTERS / 2; ++r) {
                Element elements[PER];
                memcpy(elements, &mine.b[r], 4);
                for (int i = 0; i < PER; ++i) b[PER * (q + 4 * r) + i][g] = static_cast<Factor>(elements[i]);
            }
        }
    }
    for (int row = 0; row < 16; ++row) {
        Sum d[8] = {};
        for (int k = 0; k < K; ++k)
            for (int column = 0; column < 8; ++column) d[column] += static_cast<Sum>(a[row][k] * b[k][column]);
        for (int q = 0; q < 4; ++q)
            memcpy(values[row % 8 * 4 + q] + row / 8 * 2 * sizeof(Sum), d + 2 * q, 2 * sizeof(Sum));
    }
}

template <typename Element, int PER, int REGISTERS, typename Sum, typename T>
static inline void multiply(const char* what, const Place& place, T (&d)[4], const Fragments& mine) {
    const unsigned lane = state.current->lane;
    struct Four {
        Sum sum[4];
    };
    const Four four =
        meet(what, place, true, ALL, mine, multiply_fragments<Element, PER, REGISTERS, Sum>, [&](Values values) {
            Four taken;
            memcpy(&taken, values[lane], sizeof taken);
            return taken;
        });
    for (int i = 0; i < 4; ++i) d[i] = static_cast<T>(static_cast<Sum>(d[i]) + four.sum[i]);
}

}  // namespace emulation

namespace ryle {

DEVICE void mma_16x8x16_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, EMULATED_PLACE) {
    emulation::multiply<_Float16, 2, 4, double>("mma_16x8x16_f16", place, d, {{a[0], a[1], a[2], a[3]}, {b0, b1}});
}

DEVICE void mma_16x8x8_f16(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b, EMULATED_PLACE) {
    emulation::multiply<_Float16, 2, 2, double>("mma_16x8x8_f16", place, d, {{a0, a1}, {b}});
}

DEVICE void mma_16x8x16_f16_first(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, EMULATED_PLACE) {
    for (float& value : d) value = 0;
    mma_16x8x16_f16(d, a, b0, b1, place);
}
DEVICE void mma_16x8x8_f16_first(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b, EMULATED_PLACE) {
    for (float& value : d) value = 0;
    mma_16x8x8_f16(d, a0, a1, b, place);
}
DEVICE void mma_16x8x32_s8(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, EMULATED_PLACE) {
    emulation::multiply<signed char, 4, 4, uint32_t>("mma_16x8x32_s8", place, d, {{a[0], a[1], a[2], a[3]}, {b0, b1}});
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

DEVICE void fill_init(uint64_t* arrival) { (void)arrival; }
template <int N>
DEVICE void fill(void* const (&shared)[N], const void* const (&global)[N], const uint32_t (&bytes)[N],
                 uint64_t* arrival) {
    (void)arrival;
    for (int i = 0; i < N; ++i)
        for (uint32_t at = threadIdx.x * 16; at < bytes[i]; at += blockDim.x * 16)
            copy_async<16>(static_cast<uint8_t*>(shared[i]) + at, static_cast<const uint8_t*>(global[i]) + at, true);
    copy_async_commit();
}
DEVICE void fill_wait(uint64_t* arrival, uint32_t parity) {
    (void)arrival, (void)parity;
    copy_async_wait<0>();
    __syncthreads();
}

DEVICE void anchor(int& value) { (void)value; }
DEVICE void count_at_least(int& count, float value, float limit) { count += value >= limit; }

DEVICE uint32_t half2_add(uint32_t a, uint32_t b) {
    _Float16 x[2], y[2];
    memcpy(x, &a, 4);
    memcpy(y, &b, 4);
    const _Float16 sum[2] = {static_cast<_Float16>(static_cast<float>(x[0]) + static_cast<float>(y[0])),
                             static_cast<_Float16>(static_cast<float>(x[1]) + static_cast<float>(y[1]))};
    uint32_t bits;
    memcpy(&bits, sum, 4);
    return bits;
}
DEVICE uint32_t half2_fma(uint32_t a, uint32_t b, uint32_t c) {
    _Float16 x[2], y[2], z[2];
    memcpy(x, &a, 4);
    memcpy(y, &b, 4);
    memcpy(z, &c, 4);
    _Float16 sum[2];  // exact in double precision, then rounded once
    for (int i = 0; i < 2; ++i)
        sum[i] =
            static_cast<_Float16>(static_cast<double>(x[i]) * static_cast<double>(y[i]) + static_cast<double>(z[i]));
    uint32_t bits;
    memcpy(&bits, sum, 4);
    return bits;
}
DEVICE constexpr uint32_t half2_negative(uint32_t a) { return a ^ 0x80008000u; }
DEVICE uint32_t half2_from_floats(float low, float high) {
    const _Float16 packed[2] = {static_cast<_Float16>(low), static_cast<_Float16>(high)};
    uint32_t bits;
    memcpy(&bits, packed, 4);
    return bits;
}

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
DEVICE void forget() {}

DEVICE void barrier(int id, int threads, EMULATED_PLACE) {
    if (id < 1 || id > 15 || threads < 32 || threads % 32)
        emulation::fail("line %d: barrier(%d, %d): the number must be 1 to 15, the threads a multiple of 32",
                        place.line, id, threads);
    emulation::wait_at_barrier(static_cast<unsigned>(id), static_cast<unsigned>(threads), 0, place);
}

}  // namespace ryle
