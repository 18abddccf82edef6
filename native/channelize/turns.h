// The turns that delay and phase make of each channel of each spectrum.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels.h"

namespace ryle {

// How a spectrum is cut into tiles. Channels c, c + q, c + 2q and c + 3q (q a quarter of the channels, rounded up) take
// the four words of one call of the dither's generator: so tiles at the same place of the four quarters follow each
// other, and the first of them makes the words of all.
struct Tiles {
    int channels, quarter, count;

    explicit Tiles(int channels)
        : channels(channels), quarter((channels + 3) / 4), count(4 * ((quarter + kTile - 1) / kTile)) {}
    int place(int tile) const { return tile / 4 * kTile; }  // in its quarter
    int first(int tile) const { return tile % 4 * quarter + place(tile); }
    // Not above 0 where the last quarter is too short to have this tile.
    int width(int tile) const { return std::min({kTile, quarter - place(tile), channels - first(tile)}); }
};

struct Turn {
    double re, im;
    Turn operator*(Turn b) const { return {re * b.re - im * b.im, re * b.im + im * b.re}; }
};

inline Turn turn(double angle) { return {std::cos(angle), std::sin(angle)}; }

// Turns e^{j(phase + slope·fine·(k - channels/2))}·j^quarters as a product of two factors, e^{j·slope·fine·(k - first)}
// and the turn of a tile's first channel: both are made in double precision and rounded once, so the product is within
// 2^-23 of the truth for any number of channels.
struct Turns {
    std::vector<float> lane_re, lane_im, base_re, base_im;

    void make(int rows, const Tiles& tiles, double slope, const double* fine, const double* phase,
              const int64_t* quarters) {
        lane_re.resize(rows * kTile), lane_im.resize(rows * kTile);
        base_re.resize(rows * tiles.count), base_im.resize(rows * tiles.count);
        static constexpr Turn quarter_turns[4] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
        for (int row = 0; row < rows; row++) {
            const double angle = slope * fine[row];
            double re[kTile] = {1.0}, im[kTile] = {0.0};
            Turn power = turn(angle);
            for (int half = 1; half < kTile; half *= 2, power = power * power)
                for (int i = 0; i < half; i++) {
                    re[half + i] = re[i] * power.re - im[i] * power.im;
                    im[half + i] = re[i] * power.im + im[i] * power.re;
                }
            for (int i = 0; i < kTile; i++) {
                lane_re[row * kTile + i] = float(re[i]);
                lane_im[row * kTile + i] = float(im[i]);
            }
            const Turn step = power;
            Turn quarter = {re[tiles.quarter % kTile], im[tiles.quarter % kTile]};
            for (int left = tiles.quarter / kTile; left > 0; left /= 2, power = power * power)
                if (left % 2) quarter = quarter * power;
            Turn next[4];  // of the next tile of each quarter
            next[0] = turn(phase[row] - angle * (tiles.channels / 2)) * quarter_turns[quarters ? quarters[row] & 3 : 0];
            for (int q = 1; q < 4; q++) next[q] = next[q - 1] * quarter;
            for (int tile = row * tiles.count; tile < (row + 1) * tiles.count; tile += 4)
                for (int q = 0; q < 4; q++) {
                    base_re[tile + q] = float(next[q].re);
                    base_im[tile + q] = float(next[q].im);
                    next[q] = next[q] * step;
                }
        }
    }
};

}  // namespace ryle
