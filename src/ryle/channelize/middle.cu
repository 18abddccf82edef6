// A pass of the Fourier transform of many channels between the two kernels, in place: rows of CHANNELS/RADIX points, too long for
// a block of the last kernel, become MIDDLE rows each.
#include "butterflies.cuh"
#include "ryle/gpu/device.cuh"

using namespace ryle;

constexpr int TILE = 16, WIDE = 2, THREADS = 256; // spectra side by side, those of a thread
constexpr int LENGTH = CHANNELS / RADIX, POINTS = LENGTH / MIDDLE;

// A thread for each pair of spectra and MIDDLE points that are POINTS apart.
KERNEL(THREADS, MIDDLE > 8 ? 2 : 4)
middle(float2 *__restrict__ y,           // [tile][RADIX][MIDDLE][POINTS][TILE]: points of a row, then row k2 of POINTS points
       const float2 *__restrict__ turns, // [POINTS][MIDDLE] W_LENGTH^(a·k2)
       int tiles) {
    const int64_t task = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    const int a = int(task / (TILE / WIDE) % POINTS);
    const int64_t row = task / (TILE / WIDE) / POINTS;
    if (row >= int64_t(tiles) * RADIX) return;
    float4 *at = reinterpret_cast<float4 *>(y + (row * LENGTH + a) * TILE + task % (TILE / WIDE) * WIDE);
    constexpr int APART = POINTS * TILE / WIDE;
    float2 v[WIDE][MIDDLE];
#pragma unroll
    for (int b = 0; b < MIDDLE; ++b) {
        const float4 two = __ldcs(at + b * APART);
        v[0][b] = make_float2(two.x, two.y);
        v[1][b] = make_float2(two.z, two.w);
    }
    dft(v[0]);
    dft(v[1]);
#pragma unroll
    for (int k = 0; k < MIDDLE; k += 2) {
        const float4 turn = __ldg(reinterpret_cast<const float4 *>(turns + a * MIDDLE + k));
#pragma unroll
        for (int w = 0; w < WIDE; ++w) {
            if (k > 0) v[w][k] = v[w][k] * make_float2(turn.x, turn.y);
            v[w][k + 1] = v[w][k + 1] * make_float2(turn.z, turn.w);
        }
#pragma unroll
        for (int i = k; i < k + 2; ++i) __stcs(at + i * APART, make_float4(v[0][i].x, v[0][i].y, v[1][i].x, v[1][i].y));
    }
}
