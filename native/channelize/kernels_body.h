// Body of kernels_*.cpp, which define the vector type and its width for their instruction set:
//   Vector, Integers, Wide: LANES floats, LANES int32, LANES/2 uint64
//   LOAD(pointer), STORE(pointer, vector), MULTIPLY_ADD(a, b, c), EVEN(a, b), ODD(a, b), also of Integers
//   MULTIPLY_LOW_HALVES(a, b) of Wide
//   LEAVE(): last statement of what is called from outside
//   FIR_ROWS: spectra that the filter sums at once, as many as there are registers for
// Everything here has internal linkage, so that no function compiled for one instruction set can stand in for another.
#include <cstring>

#include "kernels.h"

namespace ryle {
namespace {

// Sums of R spectra over one column block after another. Each frame's columns are first gathered into a small buffer:
// frames lie a power of two apart and would evict one another from the first-level cache. Every output is the sum over
// taps in order, whatever R is, so results do not depend on how spectra are grouped.
template <int R>
void fir_rows(const Fir& f, int row) {
    constexpr int vectors = kColumns / LANES;
    constexpr int max_taps = 256;
    alignas(64) float frames[(max_taps + R) * kColumns];
    const float* samples = f.samples + ptrdiff_t(row) * f.step;
    float* out = f.out + row * f.out_stride;
    const int count = f.taps + R - 1;
    const float* weights = f.weights;
    for (int column = 0; column < f.step; column += kColumns, weights += f.taps * kColumns) {
        const int width = f.step - column < kColumns ? f.step - column : kColumns;
        if (width == kColumns) {
            for (int frame = 0; frame < count; frame++)
                for (int v = 0; v < vectors; v++)
                    STORE(frames + frame * kColumns + v * LANES,
                          LOAD(samples + ptrdiff_t(frame) * f.step + column + v * LANES));
        } else {
            for (int frame = 0; frame < count; frame++) {
                std::memset(frames + frame * kColumns, 0, kColumns * sizeof(float));
                std::memcpy(frames + frame * kColumns, samples + ptrdiff_t(frame) * f.step + column,
                            width * sizeof(float));
            }
        }
        for (int v = 0; v < vectors; v++) {
            Vector sums[R] = {};
            for (int tap = 0; tap < f.taps; tap++) {
                const Vector weight = LOAD(weights + tap * kColumns + v * LANES);
                const float* at = frames + tap * kColumns + v * LANES;
                // Hides that the next tap reads nearly the same frames: carrying them over in registers costs the sums
                // theirs, while reading them again is free.
                asm("" : "+r"(at));
#pragma GCC unroll 32
                for (int r = 0; r < R; r++) sums[r] = MULTIPLY_ADD(weight, LOAD(at + r * kColumns), sums[r]);
            }
            if (width == kColumns) {
#pragma GCC unroll 32
                for (int r = 0; r < R; r++) STORE(out + r * f.out_stride + column + v * LANES, sums[r]);
            } else {
                for (int r = 0; r < R; r++) {
                    alignas(64) float whole[LANES];
                    STORE(whole, sums[r]);
                    for (int lane = 0; lane < LANES && v * LANES + lane < width; lane++)
                        out[r * f.out_stride + column + v * LANES + lane] = whole[lane];
                }
            }
        }
    }
}

void fir(const Fir& f) {
    int row = 0;
    for (; row + FIR_ROWS <= f.rows; row += FIR_ROWS) fir_rows<FIR_ROWS>(f, row);
    for (; row + 4 <= f.rows; row += 4) fir_rows<4>(f, row);
    for (; row < f.rows; row++) fir_rows<1>(f, row);
    LEAVE();
}

// Philox4x32-7 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). Counters differ in their first word
// alone, and spectra in the next two: so the first two rounds come apart into a part that is made once for each counter
// and one that is made once for each spectrum. Each counter word lies in the low half of a 64-bit lane, where the
// widening multiplication finds it; what is in the high half does not matter.
void dither(const Dither& d) {
    constexpr int lanes = LANES / 2;  // counters of a vector
    constexpr uint32_t multiplier0 = 0xD2511F53u, multiplier1 = 0xCD9E8D57u;
    const Wide multipliers0 = Wide{} + uint64_t(multiplier0), multipliers1 = Wide{} + uint64_t(multiplier1);
    uint32_t key0[7], key1[7];
    Wide keys0[7], keys1[7];
    for (uint32_t round = 0; round < 7; round++) {
        key0[round] = d.key[0] + round * 0x9E3779B9u, key1[round] = d.key[1] + round * 0xBB67AE85u;
        keys0[round] = Wide{} + uint64_t(key0[round]), keys1[round] = Wide{} + uint64_t(key1[round]);
    }
    Wide word0[kTile / lanes], word1[kTile / lanes], word2[kTile / lanes];  // after two rounds, but for the spectrum
    const int vectors = (d.counters + 15) / 16 * 16 / lanes;
    for (int v = 0; v < vectors; v++) {
        Wide counters;
        for (int lane = 0; lane < lanes; lane++) counters[lane] = d.first_counter + uint32_t(v * lanes + lane);
        word2[v] = MULTIPLY_LOW_HALVES(counters, multipliers0);
        word1[v] = MULTIPLY_LOW_HALVES((word2[v] >> 32) ^ uint64_t(d.input) ^ keys1[0], multipliers1);
        word0[v] = (word1[v] >> 32) ^ keys0[1];
    }
    for (int row = 0; row < d.rows; row++) {
        if (!d.valid[row]) continue;
        const uint64_t spectrum = d.first_spectrum + uint64_t(row);
        const uint64_t product1 = uint64_t(multiplier1) * uint32_t(spectrum >> 32);
        const uint64_t product0 = uint64_t(multiplier0) * (uint32_t(product1 >> 32) ^ uint32_t(spectrum) ^ key0[0]);
        const Wide row0 = Wide{} + uint64_t(uint32_t(product1)), row3 = Wide{} + uint64_t(uint32_t(product0));
        const Wide row2 = Wide{} + uint64_t(uint32_t(product0 >> 32) ^ key1[1]);
        uint32_t* words = d.words + row * 4 * kTile;
        constexpr int groups = 2;  // worked on together: their words fill a vector
        for (int v = 0; v < vectors; v += groups) {
            Wide c[4][groups];
#pragma GCC unroll 2
            for (int g = 0; g < groups; g++) {
                c[0][g] = word0[v + g] ^ row0;
                c[1][g] = word1[v + g];
                c[2][g] = word2[v + g] ^ row2;
                c[3][g] = row3;
            }
#pragma GCC unroll 5
            for (int round = 2; round < 7; round++) {
#pragma GCC unroll 2
                for (int g = 0; g < groups; g++) {
                    const Wide first = MULTIPLY_LOW_HALVES(c[0][g], multipliers0);
                    const Wide second = MULTIPLY_LOW_HALVES(c[2][g], multipliers1);
                    c[0][g] = (second >> 32) ^ c[1][g] ^ keys0[round];
                    c[1][g] = second;
                    c[2][g] = (first >> 32) ^ c[3][g] ^ keys1[round];
                    c[3][g] = first;
                }
            }
#pragma GCC unroll 4
            for (int w = 0; w < 4; w++) {
                const Integers low = EVEN(Integers(c[w][0]), Integers(c[w][1]));
                std::memcpy(words + w * kTile + v * lanes, &low, sizeof low);
            }
        }
    }
    LEAVE();
}

// 16 rows of 16 bytes, `in_stride` apart, to 16 columns `out_stride` apart: four rounds of byte interleaving.
void transpose16(const int8_t* in, ptrdiff_t in_stride, int8_t* out, ptrdiff_t out_stride) {
    typedef int8_t Bytes __attribute__((vector_size(16)));
    Bytes a[16], b[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) std::memcpy(&a[i], in + i * in_stride, 16);
#pragma GCC unroll 4
    for (int round = 0; round < 4; round++) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            b[2 * i] = __builtin_shufflevector(a[i], a[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            b[2 * i + 1] =
                __builtin_shufflevector(a[i], a[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        }
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) a[i] = b[i];
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) std::memcpy(out + i * out_stride, &a[i], 16);
}

// Adding this to a float below 2^22 and taking it away again leaves it rounded half to even.
constexpr float kRound = 12582912.0f;

// Greatest and least written so that NaN becomes the limit and saturates.
inline Vector clamp(Vector value, float limit) {
    const Vector high = Vector{} + limit, low = -high;
    value = value < high ? value : high;
    return value > low ? value : low;
}

inline Vector uniform(Integers halves) {
    // (r + 0.5)/65536 - 0.5, in which every step is exact.
    return MULTIPLY_ADD(__builtin_convertvector(halves, Vector), Vector{} + 1.0f / 65536,
                        Vector{} + (0.5f / 65536 - 0.5f));
}

inline void store_bytes(int8_t* to, Vector values) {
    typedef int8_t Bytes __attribute__((vector_size(LANES)));
    const Bytes bytes = __builtin_convertvector(__builtin_convertvector(values, Integers), Bytes);
    std::memcpy(to, &bytes, sizeof bytes);
}

int64_t tile(const Tile& t, int8_t* turned) {
    alignas(64) int8_t parts[2][kTile][kTile];  // [re, im][spectrum][channel]
    alignas(64) int32_t channel[LANES];
    for (int lane = 0; lane < LANES; lane++) channel[lane] = lane;
    Integers channels, saturated = {};
    std::memcpy(&channels, channel, sizeof channels);
    const float limit = t.limit;
    const int width = (t.channels + 15) / 16 * 16;
    for (int row = 0; row < t.rows; row++) {
        if (!t.valid[row]) {
            std::memset(parts[0][row], 0, width);
            std::memset(parts[1][row], 0, width);
            if (t.floats) std::memset(t.floats + row * t.floats_stride, 0, 2 * t.channels * sizeof(float));
            continue;
        }
        const float* spectrum = t.spectra + row * t.row_stride;
        const float* lane_re = t.lane_re + row * kTile;
        const float* lane_im = t.lane_im + row * kTile;
        const Vector base_re = Vector{} + t.base_re[row * t.base_stride];
        const Vector base_im = Vector{} + t.base_im[row * t.base_stride];
        for (int c = 0; c < width; c += LANES) {
            const Vector turn_re = MULTIPLY_ADD(LOAD(lane_re + c), base_re, -(LOAD(lane_im + c) * base_im));
            const Vector turn_im = MULTIPLY_ADD(LOAD(lane_re + c), base_im, LOAD(lane_im + c) * base_re);
            const Vector gain_re = LOAD(t.gain_re + c), gain_im = LOAD(t.gain_im + c);
            const Vector factor_re = MULTIPLY_ADD(turn_re, gain_re, -(turn_im * gain_im));
            const Vector factor_im = MULTIPLY_ADD(turn_re, gain_im, turn_im * gain_re);
            const Vector front = LOAD(spectrum + 2 * c), back = LOAD(spectrum + 2 * c + LANES);
            const Vector x = EVEN(front, back), y = ODD(front, back);
            Vector re = MULTIPLY_ADD(x, factor_re, -(y * factor_im));
            Vector im = MULTIPLY_ADD(x, factor_im, y * factor_re);
            if (t.floats) {
                for (int lane = 0; lane < LANES && c + lane < t.channels; lane++) {
                    t.floats[row * t.floats_stride + 2 * (c + lane)] = re[lane];
                    t.floats[row * t.floats_stride + 2 * (c + lane) + 1] = im[lane];
                }
                continue;
            }
            if (t.words) {
                Integers word;
                std::memcpy(&word, t.words + row * 4 * kTile + c, sizeof word);
                re += uniform((word >> 16) & 0xFFFF);
                im += uniform(word & 0xFFFF);
            }
            re = (clamp(re, limit + 1.0f) + kRound) - kRound;
            im = (clamp(im, limit + 1.0f) + kRound) - kRound;
            const Vector clamped_re = clamp(re, limit), clamped_im = clamp(im, limit);
            saturated -= ((clamped_re != re) | (clamped_im != im)) & (channels < t.channels - c);
            store_bytes(&parts[0][row][c], clamped_re);
            store_bytes(&parts[1][row][c], clamped_im);
        }
    }
    if (t.floats) {
        LEAVE();
        return 0;
    }
    for (int part = 0; part < 2; part++)
        for (int row = 0; row < t.rows; row += 16)
            for (int c = 0; c < t.channels; c += 16)
                transpose16(&parts[part][row][c], kTile, turned + c * kRowBytes + row_place(row, part), kRowBytes);
    int64_t total = 0;
    for (int lane = 0; lane < LANES; lane++) total += saturated[lane];
    LEAVE();
    return total;
}

}  // namespace
}  // namespace ryle
