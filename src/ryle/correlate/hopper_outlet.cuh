// How a warpgroup's sums leave its registers for the output.
#pragma once
#include "ryle/correlate/hopper.cuh"
#include "ryle/correlate/hopper_shape.cuh"

namespace ryle {

// Sums begin there, not at zero: high bits that stay the same whichever sign a sum has take less power; at 4096 times
// that makes up to 2 % in speed. They may wrap; what is taken away here makes them exact.
constexpr uint32_t START = 0x00555555;

DEVICE int since_start(int sum) { return static_cast<int>(sum - START); }

// x - x^T of 64 rows with themselves, and so since the start.
template <int X, int WARPGROUP>
DEVICE void turn(int (&x)[X / 2], int* scratch) {
    const int q = threadIdx.x % 4, row = threadIdx.x % 128 / 32 * 16;
#pragma unroll
    for (int i = 0; i < X / 4; ++i) {
        int* to = scratch + (row + own_row<false>(i % 2)) * TURN_PITCH + 8 * (i / 2) + 2 * q;
        *reinterpret_cast<int2*>(to) = make_int2(x[2 * i], x[2 * i + 1]);
    }
    barrier(1 + WARPGROUP, 128);
#pragma unroll
    for (int i = 0; i < X / 2; ++i)
        x[i] -= scratch[(8 * (i / 4) + 2 * q + i % 2) * TURN_PITCH + row + own_row<false>(i / 2 % 2)];
    barrier(1 + WARPGROUP, 128);
}

// Give the warps that have the CORNER's real parts its imaginary ones, since the start, which the next warps have.
template <int CORNER, int WARPGROUP>
DEVICE void pass(int (&im)[CORNER / 2], const int (&corner)[CORNER / 2], int* scratch) {
    int thread = threadIdx.x % 128;
    anchor(thread);  // or places would be held from one tile to the next
    if (thread >= 2 * CORNER && thread < 4 * CORNER)
#pragma unroll
        for (int i = 0; i < CORNER / 2; ++i) scratch[i * 2 * CORNER + thread - 2 * CORNER] = since_start(corner[i]);
    barrier(1 + WARPGROUP, 128);
#pragma unroll
    for (int i = 0; i < CORNER / 2; ++i) im[i] = scratch[i * 2 * CORNER + thread % (2 * CORNER)];
    barrier(1 + WARPGROUP, 128);
}

// Write sums, or add them without waiting for what is there.
DEVICE void put(int* to, const int2& sums, bool add) {
    if (add) {
        atomicAdd(to, sums.x);
        atomicAdd(to + 1, sums.y);
    } else {
        *reinterpret_cast<int2*>(to) = sums;
    }
}
DEVICE void put(int* to, const int4& sums, bool add) {
    if (add) {
        put(to, make_int2(sums.x, sums.y), add);
        put(to + 2, make_int2(sums.z, sums.w), add);
    } else {
        *reinterpret_cast<int4*>(to) = sums;
    }
}

// With one polarization the sums' places are no multiples of 16 bytes: each product's are written by themselves.
template <int COUNT, bool STARTED, bool PAIRED, int SIZE>
DEVICE void write_each(int* to, const int (&re)[SIZE], const int (&im)[COUNT / 2], int from, int row, int column,
                       bool add) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int own = row + own_row<PAIRED>(half), first = column + threadIdx.x % 4 * 2;
        const int last = own < INPUTS ? own - first : -1;
        int* here = to + 2 * (row_place(own) + first);
#pragma unroll
        for (int k = 0; k < COUNT / 4; ++k) {
            const int c = k / 2 * 8 + k % 2, i = k / 2 * 4 + 2 * half + k % 2;
            const int imaginary = STARTED ? since_start(im[i]) : im[i];
            if (c <= last) put(here + 2 * c, make_int2(since_start(re[from + i]) >> SHIFT, imaginary >> SHIFT), add);
        }
    }
}

// Write the sums of a warp's 16 rows, of the warpgroup's 64 from `row` on, with COUNT columns from `column` on; in a
// TRIANGLE some lie beyond the diagonal, and `im` are since the start. `re` may begin with `from` that belong to other
// columns.
//
// With two polarizations a lane has 16 bytes of a row, and the antenna's other row has the next 16: four lanes of two
// rows make up 128 bytes. Those whose place is past the end of a line are one step late, so that every line of 128
// bytes is written whole at once.
template <int COUNT, bool TRIANGLE, bool PAIRED, int SIZE>
DEVICE void write(int* to, const int (&re)[SIZE], const int (&im)[COUNT / 2], int from, int row, int column, bool add) {
    row += threadIdx.x % 128 / 32 * 16;
    if constexpr (POLS == 1) {
        write_each<COUNT, !TRIANGLE, PAIRED>(to, re, im, from, row, column, add);
        return;
    }
    constexpr int STEPS = COUNT / 8;
    const int q = threadIdx.x % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int own = row + own_row<PAIRED>(half), antenna = own / 2;
        if (antenna >= ANTENNAS) continue;
        const int begin = antenna * (antenna + 1) / 2 + column / 2, last = antenna - column / 2 - q;
        const bool late = begin % 4 + q >= 4;
        int* here = to + 8 * begin + 8 * q + 4 * (own % 2) - (late ? 32 : 0);
#pragma unroll
        for (int k = 0; k <= STEPS; ++k) {
            const int d = 4 * min(k, STEPS - 1) + 2 * half, e = 4 * max(k - 1, 0) + 2 * half;
            const auto take = [&](bool started, int now, int before) {
                const int sum = late ? before : now;
                return (started ? since_start(sum) : sum) >> SHIFT;
            };
            const auto real = [&](int i) { return take(true, re[from + d + i], re[from + e + i]); };
            const auto imag = [&](int i) { return take(!TRIANGLE, im[d + i], im[e + i]); };
            const int4 sums = make_int4(real(0), imag(0), real(1), imag(1));
            if ((k > 0 || !late) && (k < STEPS || late) && (!TRIANGLE || 4 * (k - late) <= last))
                put(here + 32 * k, sums, add);
        }
    }
}

}  // namespace ryle
