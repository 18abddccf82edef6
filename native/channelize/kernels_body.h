// Body of kernels_*.cpp, which define the vector type and its width for their instruction set:
//   Vector, LANES, LOAD(pointer), STORE(pointer, vector), MULTIPLY_ADD(a, b, c), MULTIPLY_ADD_1(a, b, c), FIR_ROWS
// Everything here has internal linkage, so that no function compiled for one instruction set can stand in for another.
#include <cstring>

#include "channelize/kernels.h"

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
}

// Philox4x32-7 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") of 16 successive first counter words.
void philox(const Tile& t, uint64_t spectrum, uint32_t words[4][16]) {
    uint32_t c0[16], c1[16], c2[16], c3[16];
    for (int i = 0; i < 16; i++) {
        c0[i] = t.first_counter + i;
        c1[i] = uint32_t(spectrum);
        c2[i] = uint32_t(spectrum >> 32);
        c3[i] = t.input;
    }
    uint32_t key0 = t.key[0], key1 = t.key[1];
    for (int round = 0; round < 7; round++) {
        for (int i = 0; i < 16; i++) {
            const uint64_t product0 = uint64_t(0xD2511F53u) * c0[i];
            const uint64_t product1 = uint64_t(0xCD9E8D57u) * c2[i];
            c0[i] = uint32_t(product1 >> 32) ^ c1[i] ^ key0;
            c1[i] = uint32_t(product1);
            c2[i] = uint32_t(product0 >> 32) ^ c3[i] ^ key1;
            c3[i] = uint32_t(product0);
        }
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    for (int i = 0; i < 16; i++) words[0][i] = c0[i], words[1][i] = c1[i], words[2][i] = c2[i], words[3][i] = c3[i];
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
            b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14,
                                                   30, 15, 31);
        }
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) a[i] = b[i];
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) std::memcpy(out + i * out_stride, &a[i], 16);
}

// Adding this to a float below 2^22 leaves it rounded half to even.
constexpr float kRound = 12582912.0f;

int64_t tile(const Tile& t, int8_t* turned) {
    alignas(64) int8_t parts[2][kTile][kTile];  // [re, im][spectrum][channel]
    int64_t saturated = 0;
    float enabled[kTile];
    for (int c = 0; c < kTile; c++) enabled[c] = c < t.channels;
    for (int row = 0; row < t.rows; row++) {
        if (!t.valid[row]) {
            std::memset(parts[0][row], 0, kTile);
            std::memset(parts[1][row], 0, kTile);
            if (t.floats) std::memset(t.floats + row * t.floats_stride, 0, 2 * t.channels * sizeof(float));
            continue;
        }
        const float* spectrum = t.spectra + row * t.row_stride;
        const float* lane_re = t.lane_re + row * kTile;
        const float* lane_im = t.lane_im + row * kTile;
        const float base_re = t.base_re[row * t.base_stride], base_im = t.base_im[row * t.base_stride];
        alignas(64) float re[kTile], im[kTile];
        for (int c = 0; c < kTile; c++) {
            const float turn_re = MULTIPLY_ADD_1(lane_re[c], base_re, -(lane_im[c] * base_im));
            const float turn_im = MULTIPLY_ADD_1(lane_re[c], base_im, lane_im[c] * base_re);
            const float factor_re = MULTIPLY_ADD_1(turn_re, t.gain_re[c], -(turn_im * t.gain_im[c]));
            const float factor_im = MULTIPLY_ADD_1(turn_re, t.gain_im[c], turn_im * t.gain_re[c]);
            const float x = spectrum[2 * c], y = spectrum[2 * c + 1];
            re[c] = MULTIPLY_ADD_1(x, factor_re, -(y * factor_im));
            im[c] = MULTIPLY_ADD_1(x, factor_im, y * factor_re);
        }
        if (t.floats) {
            for (int c = 0; c < t.channels; c++) {
                t.floats[row * t.floats_stride + 2 * c] = re[c];
                t.floats[row * t.floats_stride + 2 * c + 1] = im[c];
            }
            continue;
        }
        if (t.dither) {
            uint32_t words[4][16];
            philox(t, t.first_spectrum + row, words);
            alignas(64) uint32_t ordered[kTile];
            for (int i = 0; i < 16; i++)
                for (int w = 0; w < 4; w++) ordered[4 * i + w] = words[w][i];
            // (r + 0.5)/65536 - 0.5 in steps that are all exact.
            for (int c = 0; c < kTile; c++) {
                re[c] += float(int32_t(ordered[c] >> 16)) * (1.0f / 65536) + (0.5f / 65536 - 0.5f);
                im[c] += float(int32_t(ordered[c] & 0xFFFF)) * (1.0f / 65536) + (0.5f / 65536 - 0.5f);
            }
        }
        const float limit = t.limit, beyond = t.limit + 1.0f;
        float count = 0.0f;
        for (int c = 0; c < kTile; c++) {
            // The comparisons are written so that NaN saturates.
            float a = re[c] < beyond ? re[c] : beyond, b = im[c] < beyond ? im[c] : beyond;
            a = a > -beyond ? a : -beyond, b = b > -beyond ? b : -beyond;
            a = (a + kRound) - kRound, b = (b + kRound) - kRound;
            const float p = a < limit ? a : limit, q = b < limit ? b : limit;
            re[c] = p > -limit ? p : -limit, im[c] = q > -limit ? q : -limit;
            enabled[c] = (re[c] != a) | (im[c] != b) ? 1.0f : 0.0f;
        }
        for (int c = 0; c < t.channels; c++) count += enabled[c];
        saturated += int64_t(count);
        for (int c = 0; c < kTile; c++) {
            parts[0][row][c] = int8_t(int32_t(re[c]));
            parts[1][row][c] = int8_t(int32_t(im[c]));
        }
    }
    if (t.floats) return 0;
    for (int part = 0; part < 2; part++)
        for (int row = 0; row < t.rows; row += 16)
            for (int c = 0; c < t.channels; c += 16)
                transpose16(&parts[part][row][c], kTile, turned + c * 2 * kTile + part * kTile + row, 2 * kTile);
    return saturated;
}

}  // namespace
}  // namespace ryle
