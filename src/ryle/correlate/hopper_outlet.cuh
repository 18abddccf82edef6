// How a warpgroup's sums leave: through shared memory, where they are put in order, by the copy engine.
#pragma once
#include "ryle/correlate/hopper.cuh"
#include "ryle/correlate/hopper_shape.cuh"

namespace ryle {

// Where a warpgroup's sums are transposed and leave from. Two that have one outlet take turns, the one ahead first.
constexpr int AHEAD = LEAD > 0;
template <int WARPGROUP>
struct Outlet {
    int* words;
    bool used = false;

    // Some time after the last use: the copy engine has taken what this warpgroup left, it is the other's turn.
    DEVICE void pass_on() {
        if constexpr (ONE_OUTLET) {
            sums_taken();
            __syncwarp();
            if (WARPGROUP != AHEAD || used) barrier_pass(3 + WARPGROUP, 256);
        }
        used = false;
    }
    // Wait for this warpgroup's turn.
    DEVICE void take() {
        used = true;
        if constexpr (ONE_OUTLET) {
            barrier(4 - WARPGROUP, 256);
        } else {
            sums_taken();
            barrier(1 + WARPGROUP, 128);
        }
    }
    DEVICE void close() {
        if (WARPGROUP == AHEAD) pass_on();  // nobody waits for the other any more
        sums_taken();
    }
};

// x - x^T of 64 rows with themselves.
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

// Lay the sums of a warp's 16 rows with COUNT columns into the outlet, from `column` of the rows there on; `re` may
// begin with those of other columns.
template <int COUNT, bool PAIRED, int SIZE>
DEVICE void lay(int* words, const int (&re)[SIZE], const int (&im)[COUNT / 2], int from, int column) {
    const int q = threadIdx.x % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int own = own_row<PAIRED>(half), antenna = threadIdx.x % 128 / 32 * 8 + own / 2;
        int* to =
            words + 4 * column + 8 * q + 4 * (own % 2) + (SMALL ? antenna * (antenna + 1) / 2 * 8 : antenna * PITCH);
#pragma unroll
        for (int n = 0; n < COUNT / 8; ++n) {
            const int d = 4 * n + 2 * half;
            const int4 sums =
                make_int4(re[from + d] >> SHIFT, im[d] >> SHIFT, re[from + d + 1] >> SHIFT, im[d + 1] >> SHIFT);
            if (!SMALL || 4 * n + q <= antenna) *reinterpret_cast<int4*>(to + 32 * n) = sums;
        }
    }
}

// Let the copy engine take what a warp has laid into the outlet: of antennas from row `first_row` on with `columns`
// columns from `first_column` on, `column` of the rows there.
DEVICE void send(int* to, const int* words, int first_row, int first_column, int columns, int column) {
    shared_writes_done();
    __syncwarp();
    const int lane = threadIdx.x % 32, own = threadIdx.x % 128 / 32 * 8 + (SMALL ? 0 : lane);
    const int antenna = first_row / 2 + own, begin = first_column / 2;
    if (lane >= (SMALL ? 1 : 8) || antenna >= ANTENNAS) return;
    const int place = antenna * (antenna + 1) / 2;  // times 8 words
    if constexpr (SMALL) {                          // all rows of the warp are neighbours
        const int end = min(antenna + 8, ANTENNAS);
        write_sums(to + 8 * place, words + 8 * place, (end * (end + 1) / 2 - place) * 32);
    } else {
        const int count = min(antenna + 1 - begin, columns / 2);
        write_sums(to + 8 * (place + begin), words + own * PITCH + 4 * column, count * 32);
    }
}

// Write sums, or add them without waiting for what is there.
DEVICE void put_pair(int* to, const int4& sums, bool add) {
    if (add) {
        atomicAdd(to, sums.x);
        atomicAdd(to + 1, sums.y);
        atomicAdd(to + 2, sums.z);
        atomicAdd(to + 3, sums.w);
    } else {
        *reinterpret_cast<int4*>(to) = sums;
    }
}

// With two polarizations, write those of a warp's 16 rows from registers: 16 bytes of a lane are 128 of four lanes of
// two rows. Lanes pass on to the next columns where a line of 128 bytes ends, so that lines are written whole.
template <int COUNT, bool TRIANGLE, bool PAIRED, int SIZE>
DEVICE void write(int* to, const int (&re)[SIZE], const int (&im)[COUNT / 2], int from, int row, int column, bool add) {
    const int q = threadIdx.x % 4;
    row += threadIdx.x % 128 / 32 * 16;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int own = row + own_row<PAIRED>(half), antenna = own / 2;
        if (antenna >= ANTENNAS) continue;
        const int begin = antenna * (antenna + 1) / 2 + column / 2, last = antenna - column / 2 - q;
        const bool late = DIRECT == 2 && begin % 4 + q >= 4;
        int* here = to + 8 * begin + 8 * q + 4 * (own % 2) - (late ? 32 : 0);
#pragma unroll
        for (int k = 0; k < COUNT / 8 + (DIRECT == 2); ++k) {
            const int d = 4 * min(k, COUNT / 8 - 1) + 2 * half, e = 4 * max(k - 1, 0) + 2 * half;
            const auto take = [&](int now, int before) { return (late ? before : now) >> SHIFT; };
            const int4 sums = make_int4(take(re[from + d], re[from + e]), take(im[d], im[e]),
                                        take(re[from + d + 1], re[from + e + 1]), take(im[d + 1], im[e + 1]));
            if ((k > 0 || !late) && (k < COUNT / 8 || late) && (!TRIANGLE || 4 * (k - late) <= last))
                put_pair(here + 32 * k, sums, add);
        }
    }
}

// With one polarization the sums' places are no multiples of 16 bytes: write those of a warp's 16 rows one by one.
template <int COUNT, bool PAIRED, int SIZE>
DEVICE void put(int* to, const int (&re)[SIZE], const int (&im)[COUNT / 2], int from, int row, int column, bool add) {
    const int q = threadIdx.x % 4;
    row += threadIdx.x % 128 / 32 * 16;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        Pairs pairs(to, row + own_row<PAIRED>(half));
#pragma unroll
        for (int n = 0; n < COUNT / 8; ++n) {
            const int d = 4 * n + 2 * half, c = column + 8 * n + 2 * q;
            const int4 before = add ? pairs.get(c) : make_int4(0, 0, 0, 0);
            pairs.put(c, before, re[from + d], -im[d], re[from + d + 1], -im[d + 1]);
        }
    }
}

}  // namespace ryle
