#include "post.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "turns.h"

namespace ryle {
namespace {

void write_tile(const Output& out, int64_t first_channel, int channels, int64_t first_spectrum, int rows,
                const int8_t* turned) {
    for (int c = 0; c < channels; c++) {
        const int8_t* values = turned + c * kRowBytes;
        uint8_t* row = out.base + (first_channel + c) * out.channel_stride;
        if (out.form == Form::blocks) {
            std::memcpy(row + first_spectrum / kBlock * out.group_stride, values, kRowBytes);
            continue;
        }
        int64_t heap = first_spectrum / out.group, within = first_spectrum % out.group;
        for (int s = 0; s < rows; heap++, within = 0) {
            uint8_t* to = row + heap * out.group_stride + within * out.spectrum_stride;
            const int end = int(std::min<int64_t>(rows, s + out.group - within));
            if (out.form == Form::heaps) {
                for (; s < end; s++, to += out.spectrum_stride)
                    to[0] = uint8_t(values[row_place(s, 0)]), to[1] = uint8_t(values[row_place(s, 1)]);
            } else {
                for (; s < end; s++, to += out.spectrum_stride)
                    *to = uint8_t(values[row_place(s, 0)] << 4 | (values[row_place(s, 1)] & 15));
            }
        }
    }
}

// Turns and gains of a batch, as tiles take them.
struct Factors {
    Turns turns;
    std::vector<float> gain_re, gain_im;

    void make(const Turned& t, const Tiles& tiles) {
        turns.make(t.rows, tiles, t.slope, t.fine, t.phase, t.coarse);
        gain_re.assign(padded(t.channels), 0.0f), gain_im.assign(padded(t.channels), 0.0f);
        for (int c = 0; c < t.channels; c++) gain_re[c] = t.gains[c].real(), gain_im[c] = t.gains[c].imag();
    }

    Tile tile(const Turned& from, const Tiles& tiles, int row, int number) const {
        Tile t{};
        t.spectra = from.spectra + row * from.stride + 2 * tiles.first(number);
        t.row_stride = from.stride;
        t.valid = from.valid + row;
        t.lane_re = turns.lane_re.data() + row * kTile;
        t.lane_im = turns.lane_im.data() + row * kTile;
        t.base_re = turns.base_re.data() + row * tiles.count + number;
        t.base_im = turns.base_im.data() + row * tiles.count + number;
        t.base_stride = tiles.count;
        t.gain_re = gain_re.data() + tiles.first(number);
        t.gain_im = gain_im.data() + tiles.first(number);
        t.rows = std::min(kTile, from.rows - row);
        t.channels = tiles.width(number);
        return t;
    }
};

bool any_valid(const Turned& turned, int first, int count) {
    return std::any_of(turned.valid + first, turned.valid + first + count, [](uint8_t valid) { return valid != 0; });
}

}  // namespace

bool Output::holds(int64_t first, int rows, int channels, int64_t bytes) const {
    const int64_t width = form == Form::blocks ? kRowBytes : form == Form::heaps ? 2 : 1, last = first + rows - 1;
    const int64_t spectra = form == Form::blocks ? 0 : (rows >= group ? group - 1 : last % group);
    return rows == 0 ||
           (channels - 1) * channel_stride + last / group * group_stride + spectra * spectrum_stride + width <= bytes;
}

int64_t quantize(const Turned& turned, const Quantizing& how, uint64_t first_spectrum, const Output& output,
                 int64_t out_spectrum, const ChannelizeKernels& kernels) {
    const Tiles tiles(turned.channels);
    thread_local Factors factors;
    if (any_valid(turned, 0, turned.rows)) factors.make(turned, tiles);
    alignas(64) int8_t corner[kTile * kRowBytes] = {};
    alignas(64) uint32_t words[kTile * 4 * kTile];
    int64_t saturated = 0;
    for (int row = 0; row < turned.rows; row += kTile) {
        const int rows = std::min(kTile, turned.rows - row);
        if (!any_valid(turned, row, rows)) {  // an engine that fell behind passes over what was never received
            std::memset(corner, 0, sizeof corner);
            for (int number = 0; number < tiles.count; number++)
                write_tile(output, tiles.first(number), tiles.width(number), out_spectrum + row, rows, corner);
            continue;
        }
        for (int number = 0; number < tiles.count; number++) {
            if (tiles.width(number) <= 0) continue;
            Tile t = factors.tile(turned, tiles, row, number);
            if (how.dither) {
                const Dither all{{uint32_t(how.seed), uint32_t(how.seed >> 32)},
                                 uint32_t(tiles.place(number)),
                                 t.channels,
                                 first_spectrum + row,
                                 how.input,
                                 t.rows,
                                 t.valid,
                                 words};
                if (number % 4 == 0) kernels.dither(all);
                t.words = words + number % 4 * kTile;
            }
            t.limit = float(how.limit);
            saturated += kernels.tile(t, corner);
            write_tile(output, tiles.first(number), t.channels, out_spectrum + row, t.rows, corner);
        }
    }
    return saturated;
}

void rotate(const Turned& turned, std::complex<float>* out, const ChannelizeKernels& kernels) {
    const Tiles tiles(turned.channels);
    thread_local Factors factors;
    factors.make(turned, tiles);
    for (int row = 0; row < turned.rows; row += kTile) {
        for (int number = 0; number < tiles.count; number++) {
            if (tiles.width(number) <= 0) continue;
            Tile t = factors.tile(turned, tiles, row, number);
            t.floats = reinterpret_cast<float*>(out + int64_t(row) * turned.channels + tiles.first(number));
            t.floats_stride = 2 * turned.channels;
            kernels.tile(t, nullptr);
        }
    }
}

}  // namespace ryle
