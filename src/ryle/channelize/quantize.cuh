// What becomes of channels after the Fourier transform: from pairs of real samples to real samples, delay and phase,
// gains, dither, rounding and clamping, into shared memory.
#pragma once
#include "philox.cuh"
#include "points.cuh"
#include "transform_shape.cuh"

namespace ryle {

// The limit by which values are clamped, which NaN passes.
DEVICE float clamped(float value) {
    value = value > float(LIMIT) ? float(LIMIT) : value;
    return value < -float(LIMIT) ? -float(LIMIT) : value;
}

// gain·value + noise
DEVICE float2 amplified(float2 gain, float2 value, float2 noise) {
    return make_float2(fmaf(gain.x, value.x, fmaf(-gain.y, value.y, noise.x)),
                       fmaf(gain.x, value.y, fmaf(gain.y, value.x, noise.y)));
}

// A butterfly of the last pass: the channel of output 0, where that is in shared memory and in tables by butterflies.
struct Butterfly {
    int base;
    uint8_t* staged;
    int entry;
};
// Butterfly p of one of a tile's two rows, from spectrum s on.
DEVICE Butterfly butterfly_of(const Tile& tile, int row, int p, int s) {
    return {tile.row(row) + ROWS * p, tile.staged + (row * POINTS + p) * (2 * TILE) + of_spectrum(s),
            2 * (tile.row(row) * (POINTS / 2) + p)};
}

// Put the parts of a spectrum's value where they are staged.
DEVICE void stage(uint8_t* at, uint32_t parts) {
    if constexpr (PAIRED) {
        *reinterpret_cast<uint16_t*>(at) = uint16_t(parts);
    } else {
        at[0] = uint8_t(parts);
        at[TILE] = uint8_t(parts >> 8);
    }
}

// What the pairs of a round are: slot t has output I + t·LAST/4 and its image.
struct Regular {
    DEVICE int output(int, int, int regular) const { return regular; }
    DEVICE int base(int base) const { return base; }
    DEVICE Turns turns(int t, const Turns& centre, const Spectrum& spectrum) const {
        return turned(centre, t == 1 || t == 2 ? spectrum.eighth : spectrum.three_eighths, t > 1);
    }
    // Words of dither, from those of the outputs and of the images.
    DEVICE uint2 dither(int t, const uint4& up, const uint4& down) const {
        return t == 0   ? make_uint2(up.x, down.w)
               : t == 1 ? make_uint2(up.y, down.z)
               : t == 2 ? make_uint2(up.z, down.y)
                        : make_uint2(up.w, down.x);
    }
};

// Finish the outputs v[side][w][I + t·LAST/4], t = 0 to 3, of two butterflies, of WIDE spectra from s on; the second
// one's output LAST-1-j is the image of the first one's output j. Counts in `over` the values that are clamped; writes
// complex floats to `floats` [stream][count][CHANNELS] if that is the output.
template <int I, class Pairs = Regular>
DEVICE void finish_round(const float2 (&v)[2][WIDE][LAST], const Butterfly (&both)[2], int s, const Tile& tile,
                         const float2* mirror, const DitherKeys& keys, float2* floats, int count, int& over,
                         const Pairs& pairs = {}) {
    // Channels base[0] + I·STRIDE + t·n/4, t = 0 to 3, and images base[1] + (Q - 1 - I)·STRIDE + (3 - t)·n/4.
    const int base[2] = {both[0].base, both[1].base}, entry[2] = {both[0].entry, both[1].entry};
    auto output = [&](int side, int t) { return pairs.output(side, t, side ? LAST - 1 - I - t * Q : I + t * Q); };
    uint4 noise[2][WIDE];
    Turns centre[WIDE];
    Spectrum spectrum[WIDE];
    forget();
#pragma unroll
    for (int w = 0; w < WIDE; ++w) {
        spectrum[w] = read_spectrum(tile.spectra, s + w);
        const uint64_t at = tile.first_index + uint32_t(s + w);
        if constexpr (DITHER) {
            noise[0][w] = philox4x32(base[0] + I * STRIDE, uint32_t(at), uint32_t(at >> 32),
                                     keys.first_input + tile.stream, keys.rounds);
            noise[1][w] = philox4x32(base[1] + (Q - 1 - I) * STRIDE, uint32_t(at), uint32_t(at >> 32),
                                     keys.first_input + tile.stream, keys.rounds);
        }
        centre[w] = turns_at(spectrum[w], base[0] + I * STRIDE - CHANNELS / 8);
    }
    float2 value[4][2][WIDE];
    float largest = 0;
#pragma unroll
    for (int order = 0; order < 4; ++order) {
        const int t = order == 0 ? 1 : order == 1 ? 2 : order == 2 ? 0 : 3;  // two that share half of their turns
        const int j = I + t * Q;
        float2 gain0[2], gain1[2], mirrored[2];
        const int up = (2 * I + order / 2) * (2 * P), down = (2 * (Q - 1 - I) + order / 2) * (2 * P);
        read_table(gain0, tile.gains + entry[0] + up);
        read_table(gain1, tile.gains + entry[1] + down);
        if constexpr (!COMPLEX) read_table(mirrored, mirror + entry[0] + up);
#pragma unroll
        for (int w = 0; w < WIDE; ++w) {
            float2 a = v[0][w][j], b = v[1][w][LAST - 1 - j];
            if constexpr (!COMPLEX) separate(a, b, mirrored[order % 2]);
            const Turns turn = pairs.turns(t, centre[w], spectrum[w]);
            float2 dither0 = make_float2(0, 0), dither1 = make_float2(0, 0);
            if constexpr (DITHER) {
                const uint2 words = pairs.dither(t, noise[0][w], noise[1][w]);
                dither0 = dither_of(words.x);
                dither1 = dither_of(words.y);
            }
            a = amplified(gain0[order % 2], a * turn.channel, dither0);
            b = amplified(gain1[1 - order % 2], b * turn.image, dither1);
            largest = fmaxf(largest, fmaxf(fmaxf(fabsf(a.x), fabsf(a.y)), fmaxf(fabsf(b.x), fabsf(b.y))));
            value[t][0][w] = a;
            value[t][1][w] = b;
        }
    }
    if constexpr (OUTPUT == TO_FLOATS) {
#pragma unroll
        for (int t = 0; t < 4; ++t)
#pragma unroll
            for (int side = 0; side < 2; ++side)
#pragma unroll
                for (int w = 0; w < WIDE; ++w) {
                    if (tile.first + s + w < 0 || tile.first + s + w >= count) continue;
                    float2* to = floats + (int64_t(tile.stream) * count + tile.first + s + w) * CHANNELS;
                    to[pairs.base(base[side]) + output(side, t) * STRIDE] =
                        spectrum[w].valid != 0 ? value[t][side][w] : make_float2(0, 0);
                }
    }
    if (largest >= LIMIT + 0.5f) {  // seldom
#pragma unroll
        for (int t = 0; t < 4; ++t)
#pragma unroll
            for (int side = 0; side < 2; ++side)
#pragma unroll
                for (int w = 0; w < WIDE; ++w) {
                    float2& x = value[t][side][w];
                    count_at_least(over, fmaxf(fabsf(x.x), fabsf(x.y)), LIMIT + 0.5f);
                    x = make_float2(clamped(x.x), clamped(x.y));
                }
    }
#pragma unroll
    for (int t = 0; t < 4; ++t)
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            uint8_t* at = both[side].staged + staged_place(output(side, t));
            const float2 x = value[t][side][0];
            if constexpr (WIDE == 2) {
                const float2 y = value[t][side][1];
                *reinterpret_cast<uint16_t*>(at) = uint16_t(int8_pair(x.x, y.x));
                *reinterpret_cast<uint16_t*>(at + TILE) = uint16_t(int8_pair(x.y, y.y));
            } else {
                stage(at, int8_pair(x.x, x.y));
            }
        }
}

// Finish the channels base + t·n/4, t = 0 to 3, of spectrum s, each by itself: their images are among them or
// elsewhere. `pair(t, a, b)` gives the value of one and of its image, `place(t)` where it goes; `entry` is where the
// tables have them.
template <class Pair, class Place>
DEVICE void finish_four(int base, int entry, int s, const Pair& pair, const Place& place, const Tile& tile,
                        const float2* mirror, const DitherKeys& keys, float2* floats, int count, int& over) {
    const Spectrum spectrum = read_spectrum(tile.spectra, s);
    const Turns centre = turns_at(spectrum, base - CHANNELS / 8);
    uint4 noise = make_uint4(0, 0, 0, 0);
    if constexpr (DITHER) {
        const uint64_t at = tile.first_index + uint32_t(s);
        noise = philox4x32(base, uint32_t(at), uint32_t(at >> 32), keys.first_input + tile.stream, keys.rounds);
    }
#pragma unroll
    for (int t = 0; t < 4; ++t) {
        const int outer = t == 0 || t == 3, at = entry + outer * (2 * P) + (t > 1);
        float2 a, b;
        pair(t, a, b);
        if constexpr (!COMPLEX) separate(a, b, of_table(mirror + at));
        const float2 turn = turned(centre, outer ? spectrum.three_eighths : spectrum.eighth, t > 1).channel;
        float2 dither = make_float2(0, 0);
        if constexpr (DITHER) dither = dither_of(t == 0 ? noise.x : t == 1 ? noise.y : t == 2 ? noise.z : noise.w);
        a = amplified(of_table(tile.gains + at), a * turn, dither);
        if constexpr (OUTPUT == TO_FLOATS)
            if (tile.first + s >= 0 && tile.first + s < count)
                floats[(int64_t(tile.stream) * count + tile.first + s) * CHANNELS + base + t * (CHANNELS / 4)] =
                    spectrum.valid != 0 ? a : make_float2(0, 0);
        count_at_least(over, fmaxf(fabsf(a.x), fabsf(a.y)), LIMIT + 0.5f);
        const uint32_t both = int8_pair(clamped(a.x), clamped(a.y));
        stage(place(t), both);
    }
}

// Finish channels j·STRIDE and (j + 1/2)·STRIDE, which are their own images or each other's, of butterflies that lie in
// `edge` [2][LAST][SIDE], of spectra from `from` on; all threads.
DEVICE void finish_edges(const float2* edge, int from, const Tile& tile, const float2* mirror, const DitherKeys& keys,
                         float2* floats, int count, int& over) {
#pragma unroll 1
    for (int task = int(threadIdx.x); task < 2 * Q * SIDE; task += THREADS) {
        const int at = task % SIDE, s = from + at, i = task / SIDE % Q, half = task / SIDE / Q;
        const int row = P == 1 ? half : 0, p = P == 1 ? 0 : half * (P / 2);  // of `staged`
        auto pair = [&](int t, float2& a, float2& b) {
            const int j = i + t * Q;
            a = edge[(half * LAST + j) * SIDE + at];
            b = edge[(half * LAST + (half ? LAST - 1 - j : (LAST - j) % LAST)) * SIDE + at];
        };
        auto place = [&](int t) {
            return tile.staged + (row * POINTS + p + P * (i + t * Q)) * (2 * TILE) + of_spectrum(s);
        };
        finish_four(half * (STRIDE / 2) + i * STRIDE, row * (ROWS / 2) * POINTS + i * (4 * P) + 2 * p, s, pair, place,
                    tile, mirror, keys, floats, count, over);
    }
}

}  // namespace ryle
