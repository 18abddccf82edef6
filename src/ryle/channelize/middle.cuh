// A pass of the Fourier transform of many channels between the two halves, in place: rows of CHANNELS/RADIX points, too
// long for a block of the second half, become MIDDLE rows each.
#pragma once
#include "butterflies.cuh"
#include "passes.cuh"
#include "points.cuh"
#include "ryle/gpu/device.cuh"

namespace ryle::mid {

constexpr int WIDE = MIDDLE > 16 ? 1 : 2;  // spectra of a thread
constexpr int LANES = TILE / WIDE;
constexpr int LENGTH = CHANNELS / RADIX, POINTS = LENGTH / MIDDLE;
constexpr int TASKS =
    RADIX * POINTS * LANES;  // of a tile, a thread for each: WIDE spectra and MIDDLE points POINTS apart

// `tile` [RADIX][MIDDLE][POINTS][TILE]: points of a row, then row k2 of POINTS points; what other blocks may have
// written is read where they wrote it. `turns` [POINTS][MIDDLE] W_LENGTH^(a·k2).
DEVICE void turn_points(float2* tile, const float2* turns, int task) {
    const int a = task / LANES % POINTS, row = task / LANES / POINTS;
    float2* at = tile + (row * LENGTH + a) * TILE + task % LANES * WIDE;
    constexpr int APART = POINTS * TILE;
    float2 v[WIDE][MIDDLE];
#pragma unroll
    for (int b = 0; b < MIDDLE; ++b) {
        if constexpr (WIDE == 2) {
            const float4 two = __ldcg(reinterpret_cast<const float4*>(at + b * APART));
            v[0][b] = make_float2(two.x, two.y);
            v[1][b] = make_float2(two.z, two.w);
        } else {
            v[0][b] = __ldcg(at + b * APART);
        }
    }
#pragma unroll
    for (int w = 0; w < WIDE; ++w) dft(v[w]);
#pragma unroll
    for (int k = 0; k < MIDDLE; k += 2) {
        float2 two[2];
        read_table(two, turns + a * MIDDLE + k);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
            for (int w = 0; w < WIDE; ++w)
                if (k + i > 0) v[w][k + i] = v[w][k + i] * two[i];
            write_point(v, k + i, at + (k + i) * APART);
        }
    }
}

}  // namespace ryle::mid
