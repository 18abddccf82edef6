// Points of the intermediate array, in which the values of neighbouring spectra lie side by side, and tables that all
// share.
#pragma once
#include "ryle/gpu/device.cuh"

namespace ryle {

// Point `i` of W (1 or 2) neighbouring spectra.
template <int W, int N>
DEVICE void read_point(float2 (&v)[W][N], int i, const float2* from) {
    if constexpr (W == 2) {
        const float4 two = *reinterpret_cast<const float4*>(from);
        v[0][i] = make_float2(two.x, two.y);
        v[1][i] = make_float2(two.z, two.w);
    } else {
        v[0][i] = *from;
    }
}
template <int W, int N>
DEVICE void write_point(const float2 (&v)[W][N], int i, float2* to) {
    if constexpr (W == 2)
        *reinterpret_cast<float4*>(to) = make_float4(v[0][i].x, v[0][i].y, v[1][i].x, v[1][i].y);
    else
        *to = v[0][i];
}

// Numbers of a table that all share: WHOLE has it in shared memory.
template <class T>
DEVICE T of_table(const T* from) {
#ifdef WHOLE
    return *from;
#else
    return __ldg(from);
#endif
}

// N numbers, two at a time.
template <int N>
DEVICE void read_table(float2 (&to)[N], const float2* from) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
        const float4 two = of_table(reinterpret_cast<const float4*>(from + i));
        to[i] = make_float2(two.x, two.y);
        to[i + 1] = make_float2(two.z, two.w);
    }
}

}  // namespace ryle
