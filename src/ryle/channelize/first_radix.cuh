// The first radix of the transform, of the filtered columns of a strip.
#pragma once
#include "butterflies.cuh"
#include "filter_shape.cuh"

namespace ryle {

// A radix of 16 is done as two of 8, for its outputs in turn, one of 32 as four: 16 values would not fit into the
// registers beside the sums.
constexpr int PARTS = RADIX > 8 ? RADIX / 8 : 1;

// Transforms the legs of a spectrum's points: `y` [RADIX][STRIP] becomes `to` [RADIX: k1][POINTS][SIDE], turned by
// `turns` [STRIP][RADIX], where wanted. TILE threads that follow one another, of as many spectra, work on the same
// point.
DEVICE void first_radix(const float2* y, const float2* turns, float2* to, bool wanted) {
    const int tid = threadIdx.x;
#pragma unroll(RADIX < 8 ? 2 : 1)
    for (int point = tid / TILE; point < STRIP; point += THREADS / TILE) {
        const float2* column_of = y + point;
        const float2* turns_of = turns + point * RADIX;
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            float2 z[RADIX / PARTS];
#pragma unroll
            for (int r = 0; r < RADIX / PARTS; ++r) {
                z[r] = column_of[r * STRIP];
                if constexpr (PARTS == 2) {
                    const float2 other = column_of[(r + RADIX / 2) * STRIP];
                    z[r] = part ? (z[r] - other) * root<RADIX>(r) : z[r] + other;
                }
            }
            dft(z);
#pragma unroll
            for (int r = 0; r < RADIX / PARTS; ++r) {
                const int k1 = r * PARTS + part;
                if (k1 > 0) z[r] = z[r] * turns_of[k1];
                if (wanted) to[(k1 * POINTS + point) * SIDE] = z[r];
            }
        }
    }
}

// Does outputs PART, PART + 4, ... of a radix of 32: the transform of inputs turned by W_32^(r·PART). Thread numbers
// are read anew: registers are too few to keep what follows from them.
template <int PART>
DEVICE void part_of_32(const float2* y, const float2* turns, float2* to, bool wanted) {
    const int tid = thread_anew(), point = tid / TILE % STRIP, s = tid % TILE;
    y += s * PITCH + point;
    turns += point * RADIX + PART;
    to += s / SIDE * (CHANNELS * SIDE) + (PART * POINTS + point) * SIDE + s % SIDE;
    float2 z[8];
#pragma unroll
    for (int r = 0; r < 8; ++r) {
        auto leg = [&](int q) { return y[(r + 8 * q) * STRIP]; };
        const float2 even = PART % 2 ? leg(0) - leg(2) : leg(0) + leg(2);
        const float2 odd = PART % 2 ? minus_j(leg(1) - leg(3)) : leg(1) + leg(3);
        z[r] = PART < 2 ? even + odd : even - odd;
    }
    if constexpr (PART == 0)
        dft(z);
    else
        dft_of_turned<8, 8>(z, {turn<32>(4 * PART), turn<32>(2 * PART), turn<32>(PART), turn<32>(PART + 4)});
#pragma unroll
    for (int r = 0; r < 8; ++r) {
        if (PART > 0 || r > 0) z[r] = z[r] * turns[r * PARTS];
        if (wanted) to[r * (PARTS * POINTS * SIDE)] = z[r];
    }
}

// The same of all spectra of a tile: `y` [TILE][PITCH: 32][STRIP] becomes `to` [TILE/SIDE][32: k1][POINTS][SIDE]. Two
// threads share a point: one does parts 0 and 2, one parts 1 and 3.
DEVICE void first_radix_32(const float2* y, const float2* turns, float2* to, bool wanted) {
    static_assert(RADIX != 32 || THREADS / TILE == 2 * STRIP);
#pragma unroll 1
    for (int part = thread_anew() / (THREADS / 2); part < PARTS; part += 2)
        unrolled<4>([&](auto k) {  // the same for all of a warp
            if (part == k.value) part_of_32<k.value>(y, turns, to, wanted);
        });
}

}  // namespace ryle
