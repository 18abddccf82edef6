// Discrete Fourier transforms of 2, 4, 8 and 16 points in registers, forward (e^{-j2πft}), natural order in and out.
#pragma once
#include "ryle/gpu/device.cuh"

namespace ryle {

DEVICE float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
DEVICE float2 operator-(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
DEVICE float2 operator*(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
DEVICE float2 conj(float2 a) { return make_float2(a.x, -a.y); }
DEVICE float2 minus_j(float2 a) { return make_float2(a.y, -a.x); }

template <int R> DEVICE void dft(float2 (&z)[R]);

template <> DEVICE void dft<1>(float2 (&)[1]) {}

template <> DEVICE void dft<2>(float2 (&z)[2]) {
    const float2 sum = z[0] + z[1];
    z[1] = z[0] - z[1];
    z[0] = sum;
}

template <> DEVICE void dft<4>(float2 (&z)[4]) {
    const float2 a = z[0] + z[2], b = z[0] - z[2], c = z[1] + z[3], d = minus_j(z[1] - z[3]);
    z[0] = a + c;
    z[1] = b + d;
    z[2] = a - c;
    z[3] = b - d;
}

template <> DEVICE void dft<8>(float2 (&z)[8]) {
    constexpr float H = 0.70710678118654752f;
    float2 even[4] = {z[0], z[2], z[4], z[6]}, odd[4] = {z[1], z[3], z[5], z[7]};
    dft<4>(even);
    dft<4>(odd);
    const float2 turned[4] = {odd[0], make_float2(H * (odd[1].x + odd[1].y), H * (odd[1].y - odd[1].x)),
                              minus_j(odd[2]), make_float2(H * (odd[3].y - odd[3].x), -H * (odd[3].x + odd[3].y))};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        z[k] = even[k] + turned[k];
        z[k + 4] = even[k] - turned[k];
    }
}

template <> DEVICE void dft<16>(float2 (&z)[16]) {
    constexpr float C = 0.92387953251128676f, S = 0.38268343236508977f, H = 0.70710678118654752f;
    // z[4 b + a]: four transforms over b, turns by W16^(a k), four transforms over a.
    float2 rows[4][4];
#pragma unroll
    for (int a = 0; a < 4; ++a) {
#pragma unroll
        for (int b = 0; b < 4; ++b) rows[a][b] = z[4 * b + a];
        dft<4>(rows[a]);
    }
    rows[1][1] = rows[1][1] * make_float2(C, -S);
    rows[1][2] = make_float2(H * (rows[1][2].x + rows[1][2].y), H * (rows[1][2].y - rows[1][2].x));
    rows[1][3] = rows[1][3] * make_float2(S, -C);
    rows[2][1] = make_float2(H * (rows[2][1].x + rows[2][1].y), H * (rows[2][1].y - rows[2][1].x));
    rows[2][2] = minus_j(rows[2][2]);
    rows[2][3] = make_float2(H * (rows[2][3].y - rows[2][3].x), -H * (rows[2][3].x + rows[2][3].y));
    rows[3][1] = rows[3][1] * make_float2(S, -C);
    rows[3][2] = make_float2(H * (rows[3][2].y - rows[3][2].x), -H * (rows[3][2].x + rows[3][2].y));
    rows[3][3] = rows[3][3] * make_float2(-C, S);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        float2 column[4] = {rows[0][k], rows[1][k], rows[2][k], rows[3][k]};
        dft<4>(column);
#pragma unroll
        for (int m = 0; m < 4; ++m) z[k + 4 * m] = column[m];
    }
}

} // namespace ryle
