// Discrete Fourier transforms of 2 to 32 points in registers, forward (e^{-j2πft}), natural order in and out.
//
// Radix 2, decimated in time: E + w·O and E - w·O of the transforms E and O of the even and odd points. The second is
// 2 E - (E + w·O), so that a butterfly takes six instructions whatever w is, and turns of the inputs cost nothing where
// they can be joined with those that are in the transform already.
#pragma once
#include "ryle/gpu/device.cuh"

namespace ryle {

DEVICE float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
DEVICE float2 operator-(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
DEVICE float2 operator*(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
DEVICE float2 conj(float2 a) { return make_float2(a.x, -a.y); }
DEVICE float2 minus_j(float2 a) { return make_float2(a.y, -a.x); }
// a·b + c
DEVICE float2 multiply_add(float2 a, float2 b, float2 c) {
    return make_float2(fmaf(a.x, b.x, fmaf(-a.y, b.y, c.x)), fmaf(a.x, b.y, fmaf(a.y, b.x, c.y)));
}
// 2 a - b
DEVICE float2 twice_less(float2 a, float2 b) { return make_float2(fmaf(2.0f, a.x, -b.x), fmaf(2.0f, a.y, -b.y)); }

// cos(2π k / 32), k = 0 to 8.
DEVICE constexpr float cosine_32(int k) {
    constexpr float COSINES[9] = {1.0f,
                                  0.98078528040323045f,
                                  0.92387953251128676f,
                                  0.83146961230254524f,
                                  0.70710678118654752f,
                                  0.55557023301960222f,
                                  0.38268343236508977f,
                                  0.19509032201612827f,
                                  0.0f};
    return COSINES[k];
}

// e^{-j2πk/R}, k below R/2, R at most 32.
template <int R>
DEVICE constexpr float2 root(int k) {
    const int i = k * (32 / R);
    return i <= 8 ? float2{cosine_32(i), -cosine_32(8 - i)} : float2{-cosine_32(16 - i), -cosine_32(i - 8)};
}

// The same for any k below R.
template <int R>
DEVICE constexpr float2 turn(int k) {
    const float2 half = root<R>(k % (R / 2));
    return k < R / 2 ? half : float2{-half.x, -half.y};
}

template <int R>
DEVICE void dft(float2 (&z)[R]) {
    if constexpr (R > 1) {
        float2 even[R / 2], odd[R / 2];
#pragma unroll
        for (int k = 0; k < R / 2; ++k) {
            even[k] = z[2 * k];
            odd[k] = z[2 * k + 1];
        }
        dft(even);
        dft(odd);
#pragma unroll
        for (int k = 0; k < R / 2; ++k) {
            if (k % (R / 4 > 0 ? R / 4 : 1) == 0) {  // by 1 or -j
                const float2 turned = k == 0 ? odd[k] : minus_j(odd[k]);
                z[k] = even[k] + turned;
                z[k + R / 2] = even[k] - turned;
            } else {
                z[k] = multiply_add(root<R>(k), odd[k], even[k]);
                z[k + R / 2] = twice_less(even[k], z[k]);
            }
        }
    }
}

// The transform of w^i z[i]; `turns` holds w^(N/2), w^(N/4), then for R = 8 to N w^(N/R) e^{-j2πk/R}, k below R/4.
template <int R, int N>
DEVICE void dft_of_turned(float2 (&z)[R], const float2 (&turns)[N / 2]) {
    if constexpr (R > 1) {
        float2 even[R / 2], odd[R / 2];
#pragma unroll
        for (int k = 0; k < R / 2; ++k) {
            even[k] = z[2 * k];
            odd[k] = z[2 * k + 1];
        }
        dft_of_turned<R / 2, N>(even, turns);
        dft_of_turned<R / 2, N>(odd, turns);
#pragma unroll
        for (int k = 0; k < R / 2; ++k) {
            const float2 turn = R == 2 ? turns[0] : k < R / 4 ? turns[R / 4 + k] : minus_j(turns[k]);
            z[k] = multiply_add(turn, odd[k], even[k]);
            z[k + R / 2] = twice_less(even[k], z[k]);
        }
    }
}

}  // namespace ryle
