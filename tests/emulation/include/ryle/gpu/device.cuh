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

// The values that lane l = 4g + q holds are element (row, k) of a and (k, column) of b as in the real device.cuh, each
// register PER elements along k. `multiply` gets a[16][K] and b[K][8] and makes d[16][8], which takes the lanes' place.
template <typename Element, int PER, int REGISTERS, typename Sum, typename Operand>
static inline void multiply_fragments(Values values) {
    constexpr int K = 4 * PER * (REGISTERS / 2);
    Operand a[16][K], b[K][8];
    for (int lane = 0; lane < 32; ++lane) {
        const int g = lane / 4, q = lane % 4;
        Fragments mine;
        memcpy(&mine, values[lane], sizeof mine);
        for (int r = 0; r < REGISTERS; ++r) {
            Element elements[PER];
            memcpy(elements, &mine.a[r], 4);
            for (int i = 0; i < PER; ++i)
                a[g + 8 * (r % 2)][PER * (q + 4 * (r / 2)) + i] = static_cast<Operand>(elements[i]);
        }
        for (int r = 0; r < REGISTERS / 2; ++r) {
            Element elements[PER];
            memcpy(elements, &mine.b[r], 4);
            for (int i = 0; i < PER; ++i) b[PER * (q + 4 * r) + i][g] = static_cast<Operand>(elements[i]);
        }
    }
    Sum d[16][8] = {};
    for (int row = 0; row < 16; ++row)
        for (int k = 0; k < K; ++k)
            for (int column = 0; column < 8; ++column)
                d[row][column] += static_cast<Sum>(a[row][k]) * static_cast<Sum>(b[k][column]);
    for (int lane = 0; lane < 32; ++lane) {
        const int g = lane / 4, q = lane % 4;
        const Sum mine[4] = {d[g][2 * q], d[g][2 * q + 1], d[g + 8][2 * q], d[g + 8][2 * q + 1]};
        memcpy(values[lane], mine, sizeof mine);
    }
}

template <typename Element, int PER, int REGISTERS, typename Sum, typename Operand, typename T>
static inline void multiply(const char* what, const Place& place, T (&d)[4], const Fragments& mine) {
    const unsigned lane = state.current->lane;
    struct Four {
        Sum sum[4];
    };
    const Four four = meet(what, place, true, ALL, mine, multiply_fragments<Element, PER, REGISTERS, Sum, Operand>,
                           [&](Values values) {
                               Four taken;
                               memcpy(&taken, values[lane], sizeof taken);
                               return taken;
                           });
    for (int i = 0; i < 4; ++i) d[i] = static_cast<T>(static_cast<Sum>(d[i]) + four.sum[i]);
}

}  // namespace emulation

namespace ryle {

DEVICE void mma_16x8x16_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, EMULATED_PLACE) {
    emulation::multiply<_Float16, 2, 4, double, float>("mma_16x8x16_f16", place, d,
                                                       {{a[0], a[1], a[2], a[3]}, {b0, b1}});
}

DEVICE void mma_16x8x8_f16(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b, EMULATED_PLACE) {
    emulation::multiply<_Float16, 2, 2, double, float>("mma_16x8x8_f16", place, d, {{a0, a1}, {b}});
}

DEVICE void mma_16x8x32_s8(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, EMULATED_PLACE) {
    emulation::multiply<signed char, 4, 4, uint32_t, int>("mma_16x8x32_s8", place, d,
                                                          {{a[0], a[1], a[2], a[3]}, {b0, b1}});
}

template <int BYTES>
DEVICE void copy_async(void* shared, const void* global, bool wanted, EMULATED_PLACE) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16);
    emulation::issue_copy(shared, global, BYTES, wanted, place);
}
DEVICE void copy_async_commit() { emulation::commit_copies(); }
template <int PENDING>
DEVICE void copy_async_wait() {
    emulation::finish_copies(PENDING);
}

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

DEVICE void barrier(int id, int threads, EMULATED_PLACE) {
    if (id < 1 || id > 15 || threads < 32 || threads % 32)
        emulation::fail("line %d: barrier(%d, %d): the number must be 1 to 15, the threads a multiple of 32",
                        place.line, id, threads);
    emulation::wait_at_barrier(static_cast<unsigned>(id), static_cast<unsigned>(threads), 0, place);
}

}  // namespace ryle
