// From packed big-endian samples of BITS bits to single precision, two neighbouring ones of a row at a time, and the
// sum of their squares.
#pragma once
#include "ryle/gpu/device.cuh"

namespace ryle {

// Two values of BITS bits that begin anywhere in a word and end in the next at the latest.
struct Unpacker {
    uint32_t bytes;  // which of eight bytes to take, the first of four highest
    uint32_t shift;

    // `bit`: where the first value begins, counted from a word's first byte.
    explicit DEVICE Unpacker(uint32_t bit) : bytes(0x0123 + bit / 8 % 4 * 0x1111), shift(bit % 8) {
        if (1 < BITS && BITS < 12) shift = 9 - shift;  // then the values are the first bits of a float's fraction
    }

    DEVICE float2 operator()(uint32_t first, uint32_t second) const {
        if constexpr (BITS == 32) {
            return make_float2(__uint_as_float(__byte_perm(first, 0, 0x0123)),
                               __uint_as_float(__byte_perm(second, 0, 0x0123)));
        } else {
            const uint32_t window = __byte_perm(first, second, bytes);
            if constexpr (BITS == 1) {  // 0 is +1, 1 is -1
                constexpr uint32_t ONE = 0x3f800000, SIGN = 0x80000000;
                return make_float2(__uint_as_float((window << shift & SIGN) ^ ONE),
                                   __uint_as_float((window << (shift + 1) & SIGN) ^ ONE));
            } else if constexpr (BITS < 12) {
                // 2^BITS + v is a float whose fraction begins with v; 2^(2 BITS) + v has v after BITS zeros. The sign
                // bit of v is turned over, so that v is 2^(BITS-1) too large but never negative.
                constexpr int B = BITS < 12 ? BITS : 1;  // this is compiled for other widths, too
                constexpr uint32_t LEADING = ((1u << B) - 1) << (23 - B), TRAILING = LEADING >> B, SIGN = 1u << 22;
                constexpr float HALF = 1 << (B - 1), ONE = 1 << B;
                const uint32_t values = window >> shift;
                return make_float2(__uint_as_float(masked_xor(values, LEADING, (127 + B) << 23 | SIGN)) - (ONE + HALF),
                                   __uint_as_float(masked_xor(values, TRAILING, (127 + 2 * B) << 23 | SIGN >> B)) -
                                       (ONE * ONE + HALF));
            } else {
                return make_float2(float(int(window << shift) >> (32 - BITS)),
                                   float(int(window << (shift + BITS)) >> (32 - BITS)));
            }
        }
    }
};

// Exact sum of the squares of samples (of 32 bits, floating-point ones: in double precision).
template <int WIDTH>
struct Squares {
    using Counter = unsigned long long;
    Counter total = 0;

    template <int N>
    DEVICE void add(const float2 (&v)[N]) {
#pragma unroll
        for (int j = 0; j < N; ++j) {
            const int a = int(v[j].x), b = int(v[j].y);
            total += uint32_t(a * a) + uint32_t(b * b);
        }
    }
    DEVICE void add_to(Counter* counter) {
#pragma unroll
        for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(~0u, total, step);
        if (threadIdx.x % 32 == 0 && total != 0) atomicAdd(counter, total);
    }
};
template <>
struct Squares<32> {
    using Counter = double;
    Counter total = 0;

    template <int N>
    DEVICE void add(const float2 (&v)[N]) {
#pragma unroll
        for (int j = 0; j < N; ++j) total += double(v[j].x) * double(v[j].x) + double(v[j].y) * double(v[j].y);
    }
    DEVICE void add_to(Counter* counter) {
#pragma unroll
        for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(~0u, total, step);
        if (threadIdx.x % 32 == 0 && total != 0) atomicAdd(counter, total);
    }
};
// Up to 10 bits, of up to 2^15 values in all: N pairs stay below 2^24, where single precision is exact.
template <int WIDTH>
    requires(WIDTH <= 10)
struct Squares<WIDTH> {
    using Counter = unsigned long long;
    uint32_t total = 0;

    template <int N>
    DEVICE void add(const float2 (&v)[N]) {
        static_assert(2 * N * (1 << (2 * WIDTH - 2)) < 1 << 24);
        float part = 0;
#pragma unroll
        for (int j = 0; j < N; ++j) part = fmaf(v[j].x, v[j].x, fmaf(v[j].y, v[j].y, part));
        total += uint32_t(part);
    }
    DEVICE void add_to(Counter* counter) {
        const uint32_t sum = __reduce_add_sync(~0u, total);
        if (threadIdx.x % 32 == 0 && sum != 0) atomicAdd(counter, Counter(sum));
    }
};

}  // namespace ryle
