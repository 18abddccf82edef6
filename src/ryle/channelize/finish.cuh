// What follows the Fourier transform, of a few values in registers: the step from pairs of real samples to real
// samples, delay and phase.
#pragma once
#include "butterflies.cuh"

namespace ryle {

// How a spectrum is to be turned, from windows.cu.
struct Spectrum {
    float2
        phase;  // e^{j phase}; NaN if the spectrum is not valid, so that all its values are, which are rounded to zero
    float angle;                   // from one channel to the next, radians
    float valid;                   // 1 or 0
    float2 eighth, three_eighths;  // e^{j angle n/8}, e^{j angle 3n/8}
};

// Of a tile of 16 spectra, in the order that windows.cu leaves.
DEVICE Spectrum read_spectrum(const float4* tile, int s) {
    const float4 a = tile[s % 2 * 8 + s / 2], b = tile[16 + s % 2 * 8 + s / 2];
    return {make_float2(a.x, a.y), a.z, a.w, make_float2(b.x, b.y), make_float2(b.z, b.w)};
}

// e^{j angle} for angles within ±π/8: Taylor series, error below 2^-25.
DEVICE float2 small_turn(float angle) {
    const float s = angle * angle;
    const float sine = angle * fmaf(s, fmaf(s, fmaf(s, -1.9841270e-4f, 8.3333333e-3f), -0.16666667f), 1.0f);
    const float cosine = fmaf(s, fmaf(s, fmaf(s, -1.3888889e-3f, 4.1666667e-2f), -0.5f), 1.0f);
    return make_float2(cosine, sine);
}

// Turns of channel c and of its image n - c.
struct Turns {
    float2 channel, image;
};

// Those of a channel within n/8 of the centre of the band, `distance` channels above it.
DEVICE Turns turns_at(const Spectrum& spectrum, int distance) {
    const float2 turn = small_turn(spectrum.angle * float(distance)), phase = spectrum.phase;
    const float2 a = make_float2(phase.x * turn.x, phase.y * turn.x);
    return {make_float2(fmaf(-phase.y, turn.y, a.x), fmaf(phase.x, turn.y, a.y)),
            make_float2(fmaf(phase.y, turn.y, a.x), fmaf(-phase.x, turn.y, a.y))};
}

// Those of a channel above (`up`) or below it, e^{j angle distance} being `by`.
DEVICE Turns turned(const Turns& turns, float2 by, bool up) {
    const float2 a = make_float2(by.x * turns.channel.x, by.x * turns.channel.y),
                 b = make_float2(by.x * turns.image.x, by.x * turns.image.y);
    const float sine = up ? by.y : -by.y;
    return {make_float2(fmaf(-sine, turns.channel.y, a.x), fmaf(sine, turns.channel.x, a.y)),
            make_float2(fmaf(sine, turns.image.y, b.x), fmaf(-sine, turns.image.x, b.y))};
}

// From values a, b of channels c and n - c of the transform of pairs of real samples to those of the transform of the
// samples, times two; m = -j e^{-jπc/n}.
DEVICE void separate(float2& a, float2& b, float2 m) {
    const float2 sum = make_float2(a.x + b.x, a.y - b.y), difference = make_float2(a.x - b.x, a.y + b.y);
    a = multiply_add(difference, m, sum);
    b = conj(twice_less(sum, a));
}

}  // namespace ryle
