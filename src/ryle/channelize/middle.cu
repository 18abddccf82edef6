// A pass of the Fourier transform of many channels between the two kernels, in place: rows of CHANNELS/RADIX points,
// too long for a block of the last kernel, become MIDDLE rows each.
#include "butterflies.cuh"
#include "passes.cuh"
#include "points.cuh"
#include "ryle/gpu/device.cuh"

using namespace ryle;

constexpr int WIDE = MIDDLE > 16 ? 1 : 2;  // spectra of a thread
constexpr int LANES = TILE / WIDE;
constexpr int LENGTH = CHANNELS / RADIX, POINTS = LENGTH / MIDDLE;

// A thread for each WIDE spectra and MIDDLE points that are POINTS apart.
KERNEL(256, MIDDLE > 8 ? 2 : 4)
middle(float2* __restrict__ y,  // [tile][RADIX][MIDDLE][POINTS][TILE]: points of a row, then row k2 of POINTS points
       const float2* __restrict__ turns,  // [POINTS][MIDDLE] W_LENGTH^(a·k2)
       int tiles) {
    const int64_t task = int64_t(blockIdx.x) * 256 + threadIdx.x;
    const int a = int(task / LANES % POINTS);
    const int64_t row = task / LANES / POINTS;
    if (row >= int64_t(tiles) * RADIX) return;
    float2* at = y + (row * LENGTH + a) * TILE + task % LANES * WIDE;
    constexpr int APART = POINTS * TILE;
    float2 v[WIDE][MIDDLE];
#pragma unroll
    for (int b = 0; b < MIDDLE; ++b) read_point(v, b, at + b * APART);
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
