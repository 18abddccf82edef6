// The pass between the first and the last one of the transform, of rows too long for two.
#pragma once
#include "points.cuh"
#include "transform_shape.cuh"

namespace ryle {

// Where a row has input `a` of the last pass's butterfly e + FIRST·c, of those that the pass before it wrote for e and
// c: turned over by e where spectra are few, so that neighbouring butterflies lie in different banks.
DEVICE constexpr uint32_t place_of(uint32_t e, uint32_t a) {
    constexpr uint32_t TURNS = TILE / SIDE;
    return a / TURNS * TURNS + (a % TURNS ^ e % TURNS);
}
// Where a row has input `a` of the last pass's butterfly p.
DEVICE constexpr int point_of(int p, int a) {
    return SECOND == 1 ? p * LAST + a : (p % FIRST * SECOND + p / FIRST) * LAST + int(place_of(p % FIRST, a));
}

// Transforms N points of `z` [2][POINTS][SIDE] that are LAST apart, from APART·e + a on, for all e and a; `turns` are
// those of their inputs [FIRST][N/2], as dft_of_turned takes them. A warp has all a of some e.
template <int N>
DEVICE void second_pass(float2* z, const float2* turns) {
    static_assert(32 % (LAST * SIDE / 2) == 0 || SECOND == 1);
#pragma unroll 1
    for (uint32_t task = threadIdx.x; task < 2 * FIRST * LAST * (SIDE / 2); task += THREADS) {
        const uint32_t s = task % (SIDE / 2) * 2, a = task / (SIDE / 2) % LAST, e = task / (SIDE / 2) / LAST % FIRST,
                       row = task / (SIDE / 2) / LAST / FIRST;
        float2* at = z + (row * POINTS + e * APART) * SIDE + s;
        float2 v[2][N], of_inputs[N / 2];
#pragma unroll
        for (int c = 0; c < N; ++c) read_point(v, c, at + (c * LAST + a) * SIDE);
        read_table(of_inputs, turns + e * (N / 2));
#pragma unroll
        for (int w = 0; w < 2; ++w) dft_of_turned<N, N>(v[w], of_inputs);
        __syncwarp();
#pragma unroll
        for (int c = 0; c < N; ++c) write_point(v, c, at + (c * LAST + place_of(e, a)) * SIDE);
    }
}

}  // namespace ryle
