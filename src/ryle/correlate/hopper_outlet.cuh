// How a warpgroup's sums leave its registers for the output.
#pragma once
#include "ryle/correlate/hopper.cuh"
#include "ryle/correlate/hopper_shape.cuh"

namespace ryle {

// Sums begin there, not at zero: high bits that stay the same whichever sign a sum has take less power; at 4096 times
// that makes up to 2 % in speed. They may wrap; what is taken away here makes them exact.
constexpr uint32_t START = 0x00555555;

DEVICE int since_start(int sum) { return static_cast<int>(sum - START); }

// An antenna's products that are laid down, and where in the sums they go; -1 bytes after the last.
struct alignas(16) Row {
    int64_t place;
    int bytes;
};

// A warpgroup's way out. What its warps lay down is sent while they multiply the next tile, when nobody waits for it.
struct Outlet {
    unsigned char* slots;   // [warp][LAID][4 antennas][SLOT_ROW], of one tile
    Row* rows;              // [warp][LAID * 4 antennas]
    uint64_t *laid, *sent;  // [warp]
    int* sums;              // the output
    bool add;
    int parity = 0;  // of the tiles laid down so far

    DEVICE static int warp() { return threadIdx.x % 128 / 32; }
    // Wait until what this warp laid down has been sent.
    DEVICE void claim() const {
        if constexpr (LAID > 0) barrier_wait(sent + warp(), parity ^ 1);
    }
    // Have sent what this warp has laid down: of the antennas that it belongs to, from `antenna` on, the products with
    // `width` from `column` on, those that there are, of a result that begins at `begin`.
    DEVICE void post(int64_t begin, int antenna, int column, int width) {
        if constexpr (LAID == 0) return;
        if (const int lane = threadIdx.x % 32; lane < 4 * LAID) {
            antenna += lane;
            const int live = antenna < ANTENNAS ? max(min(antenna - column + 1, width), 0) : 0;
            rows[4 * LAID * warp() + lane] = {begin + 8ll * (antenna * (antenna + 1) / 2 + column), live * 32};
        }
        tell();
        parity ^= 1;
    }
    // Say that there are no more.
    DEVICE void end() const {
        if constexpr (LAID == 0) return;
        claim();
        if (threadIdx.x % 32 == 0) rows[4 * LAID * warp()] = {0, -1};
        tell();
    }
    // Send what is laid down, tile after tile, until there are no more.
    DEVICE void send_all() const {
        for (int tile = 0;; ++tile) {
            int i = 0;
            for (int warp = 0; warp < 4; ++warp) {
                barrier_wait(laid + warp, tile % 2);
#pragma unroll 1
                for (const int end = i + 4 * LAID; i < end; ++i) {
                    const Row row = rows[i];
                    if (row.bytes < 0) return send_done();
                    if (row.bytes > 0) send(sums + row.place, slots + i * SLOT_ROW, row.bytes, add);
                }
            }
            send_read();
            for (int warp = 0; warp < 4; ++warp) barrier_arrive(sent + warp);
        }
    }

  private:
    DEVICE void tell() const {
        shared_writes_done();
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(laid + warp());
    }
};

// x - x^T of 64 rows with themselves, and so since the start.
template <int X, int WARPGROUP>
DEVICE void turn(const Outlet& outlet, int (&x)[X / 2]) {
    int* scratch = reinterpret_cast<int*>(outlet.slots);
    const int q = threadIdx.x % 4, row = Outlet::warp() * 16;
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

// Add sums without waiting for what is there.
DEVICE void add_to(int* there, int re, int im) {
    atomicAdd(there, re);
    atomicAdd(there + 1, im);
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
            const int2 sum = make_int2(since_start(re[from + i]) >> SHIFT, imaginary >> SHIFT);
            if (c > last) continue;
            if (add)
                add_to(here + 2 * c, sum.x, sum.y);
            else
                *reinterpret_cast<int2*>(here + 2 * c) = sum;
        }
    }
}

// Write the sums of a warp's 16 rows, of the warpgroup's 64 from `row` on, with COUNT columns from `column` on; in a
// TRIANGLE some lie beyond the diagonal, and `im` are since the start. `re` may begin with `from` that belong to other
// columns.
//
// With two polarizations a lane has 16 bytes of a row, and the antenna's other row has the next 16: four lanes of two
// rows make up 128 bytes. The last LAYS halves of the rows are laid down, all of them. Of others, those whose place
// is past the end of a line are one step late, so that every line of 128 bytes is written whole at once; what is laid
// down lies between, for memory takes it more slowly than registers give it.
template <int COUNT, bool TRIANGLE, bool PAIRED, int LAYS, int SIZE>
DEVICE void write(const Outlet& outlet, int64_t begin, const int (&re)[SIZE], const int (&im)[COUNT / 2], int from,
                  int row, int column) {
    row += Outlet::warp() * 16;
    if constexpr (POLS == 1) {
        write_each<COUNT, !TRIANGLE, PAIRED>(outlet.sums + begin, re, im, from, row, column, outlet.add);
        return;
    }
    constexpr int STEPS = COUNT / 8, DIRECT = 2 - LAYS;
    const int q = threadIdx.x % 4, g = threadIdx.x % 32 / 4;
    unsigned char* slot = outlet.slots + Outlet::warp() * LAID * SLOT + g / 2 * SLOT_ROW + (from + q) * 32 + g % 2 * 16;
    const auto lay = [&](int k) {
#pragma unroll
        for (int half = DIRECT; half < 2; ++half) {
            const auto real = [&](int i) { return since_start(re[from + i]) >> SHIFT; };
            const auto imag = [&](int i) { return (TRIANGLE ? im[i] : since_start(im[i])) >> SHIFT; };
            const int i = 4 * k + 2 * half;
            store_shared(slot + (half - DIRECT) * SLOT + 128 * k,
                         make_int4(real(i), imag(i), real(i + 1), imag(i + 1)));
        }
    };
    if constexpr (DIRECT == 0)
#pragma unroll
        for (int k = 0; k < STEPS; ++k) lay(k);
    const auto all = [&](auto add) {
#pragma unroll
        for (int half = 0; half < DIRECT; ++half) {
            const int own = row + own_row<PAIRED>(half), antenna = own / 2;
            const int first = antenna * (antenna + 1) / 2 + column / 2, last = antenna - column / 2 - q;
            const bool live = antenna < ANTENNAS, late = first % 4 + q >= 4;
            int* here = outlet.sums + begin + 8 * first + 8 * q + 4 * (own % 2) - (late ? 32 : 0);
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
                const bool there =
                    live && (k > 0 || !late) && (k < STEPS || late) && (!TRIANGLE || 4 * (k - late) <= last);
                if constexpr (!decltype(add)::value) {
                    store(here + 32 * k, sums, there);
                } else if (there) {
                    add_to(here + 32 * k, sums.x, sums.y);
                    add_to(here + 32 * k + 2, sums.z, sums.w);
                }
                if (half == 0 && k < STEPS) lay(k);
            }
        }
    };
    if (outlet.add)
        all(Constant<true>());
    else
        all(Constant<false>());
}

// Give the warps that have the CORNER's real parts its imaginary ones, since the start, which the next warps have, and
// write both: of inputs from `first` on with themselves.
template <int CORNER, int WARPGROUP>
DEVICE void write_corner(const Outlet& outlet, int64_t begin, const int (&corner)[CORNER / 2], int first) {
    int* scratch = reinterpret_cast<int*>(outlet.slots);
    int im[CORNER / 2], thread = threadIdx.x % 128;
    anchor(thread);  // or places would be held from one tile to the next
    if (thread >= 2 * CORNER && thread < 4 * CORNER)
#pragma unroll
        for (int i = 0; i < CORNER / 2; ++i) scratch[i * 2 * CORNER + thread - 2 * CORNER] = since_start(corner[i]);
    barrier(1 + WARPGROUP, 128);
#pragma unroll
    for (int i = 0; i < CORNER / 2; ++i) im[i] = scratch[i * 2 * CORNER + thread % (2 * CORNER)];
    barrier(1 + WARPGROUP, 128);
    if (Outlet::warp() * 16 < CORNER) write<CORNER, true, false, 0>(outlet, begin, corner, im, 0, first, first);
}

}  // namespace ryle
