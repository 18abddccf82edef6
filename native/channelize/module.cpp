// ryle.channelize._native: CPU hot loops of the F-engine.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels.h"

namespace nb = nanobind;

namespace ryle {
namespace {

// Best first.
std::vector<const ChannelizeKernels*> available() {
    std::vector<const ChannelizeKernels*> found;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512vbmi"))
        found.push_back(&channelize_avx512);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        found.push_back(&channelize_avx2);
#endif
    found.push_back(&channelize_portable);
    return found;
}

const ChannelizeKernels& kernels(const std::string& isa) {
    static const std::vector<const ChannelizeKernels*> found = available();
    if (isa.empty()) return *found.front();
    for (const ChannelizeKernels* one : found)
        if (isa == one->name) return *one;
    throw std::invalid_argument("this machine has no instruction set '" + isa + "'");
}

template <typename T>
using Vector1 = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// FIR of the spectra whose windows start at samples[starts[row]]; a negative start makes its row zero.
void fir(Vector1<const float> samples, Vector1<const int64_t> starts, Vector1<const float> weights, int taps,
         nb::ndarray<float, nb::ndim<2>, nb::device::cpu> out, int step, const std::string& isa) {
    const int64_t rows = int64_t(starts.size());
    const int64_t blocks = (step + kColumns - 1) / kColumns;
    if (taps < 1 || taps > 256) throw std::invalid_argument("taps must be 1 to 256");
    if (int64_t(weights.size()) != blocks * taps * kColumns) throw std::invalid_argument("weights of the wrong length");
    if (int64_t(out.shape(0)) < rows || int64_t(out.shape(1)) < step || out.stride(1) != 1)
        throw std::invalid_argument("output of the wrong shape");
    for (int64_t row = 0; row < rows; row++)
        if (starts.data()[row] > int64_t(samples.size()) - int64_t(taps) * step)
            throw std::invalid_argument("a window leaves the samples");
    const ChannelizeKernels& chosen = kernels(isa);
    for (int64_t row = 0; row < rows;) {
        const int64_t start = starts.data()[row];
        if (start < 0) {
            std::memset(out.data() + row * out.stride(0), 0, step * sizeof(float));
            row++;
            continue;
        }
        int64_t end = row + 1;
        while (end < rows && starts.data()[end] == start + (end - row) * step) end++;
        chosen.fir({samples.data() + start, weights.data(), out.data() + row * out.stride(0), ptrdiff_t(out.stride(0)),
                    int(end - row), taps, step});
        row = end;
    }
}

// Which windows, that begin at sample `starts[input][spectrum]` of the first packet, are there as a whole.
void whole_windows(nb::ndarray<const int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> starts, int64_t window,
                   nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> present,
                   int64_t packet_samples, nb::ndarray<bool, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) {
    const size_t inputs = starts.shape(0), spectra = starts.shape(1), packets = present.shape(1);
    if (present.shape(0) != inputs || out.shape(0) != inputs || out.shape(1) != spectra)
        throw std::invalid_argument("arrays of different shapes");
    if (window < 1 || packet_samples < 1) throw std::invalid_argument("window and packet_samples must be positive");
    const int64_t last = int64_t(packets) * packet_samples - window;
    std::vector<int32_t> missing(packets + 1);  // before each packet
    for (size_t i = 0; i < inputs; i++) {
        const int64_t* start = starts.data() + i * spectra;
        const uint8_t* there = present.data() + i * packets;
        bool* whole = out.data() + i * spectra;
        for (size_t s = 0; s < spectra; s++) whole[s] = start[s] >= 0 && start[s] <= last;
        if (packets == 0 || std::memchr(there, 0, packets) == nullptr) continue;
        for (size_t p = 0; p < packets; p++) missing[p + 1] = missing[p] + (there[p] == 0);
        for (size_t s = 0; s < spectra; s++)
            if (whole[s])
                whole[s] = missing[(start[s] + window - 1) / packet_samples + 1] == missing[start[s] / packet_samples];
    }
}

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

Turn turn(double angle) { return {std::cos(angle), std::sin(angle)}; }

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
            next[0] = turn(phase[row] - angle * (tiles.channels / 2)) * quarter_turns[quarters[row] & 3];
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

// Where the value of channel k and spectrum s (from the first of the output) lies.
enum class Form { blocks, heaps, packed_heaps };
struct Output {
    Form form;
    uint8_t* base;
    ptrdiff_t channel_stride;   // bytes between channels
    ptrdiff_t group_stride;     // bytes between K-blocks or heaps
    ptrdiff_t spectrum_stride;  // heaps: bytes between spectra
    int64_t group;              // spectra of a K-block (64) or a heap
};

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

struct Post {
    Vector1<const uint8_t> valid;
    Vector1<const double> fine, phase;
    Vector1<const int64_t> quarters;
};

// Interleaved complex; not an array of complex numbers, because it may start at an odd float.
using Spectra = nb::ndarray<const float, nb::ndim<2>, nb::device::cpu>;

Tile make_tile(const Spectra& spectra, const Turns& turns, const uint8_t* valid, const std::vector<float>& gain_re,
               const std::vector<float>& gain_im, int first_row, int rows, const Tiles& tiles, int tile) {
    Tile t{};
    t.spectra = spectra.data() + first_row * spectra.stride(0) + 2 * tiles.first(tile);
    t.row_stride = spectra.stride(0);
    t.valid = valid + first_row;
    t.lane_re = turns.lane_re.data() + first_row * kTile;
    t.lane_im = turns.lane_im.data() + first_row * kTile;
    t.base_re = turns.base_re.data() + first_row * tiles.count + tile;
    t.base_im = turns.base_im.data() + first_row * tiles.count + tile;
    t.base_stride = tiles.count;
    t.gain_re = gain_re.data() + tiles.first(tile);
    t.gain_im = gain_im.data() + tiles.first(tile);
    t.rows = rows;
    t.channels = tiles.width(tile);
    return t;
}

// What lies past the last channel is read but does not matter.
int padded(int channels) { return (channels + kTile - 1) / kTile * kTile; }

void split_gains(const std::complex<float>* gains, int channels, std::vector<float>& re, std::vector<float>& im) {
    re.assign(padded(channels), 0.0f), im.assign(padded(channels), 0.0f);
    for (int c = 0; c < channels; c++) re[c] = gains[c].real(), im[c] = gains[c].imag();
}

void check_post(const Spectra& spectra, const Vector1<const uint8_t>& valid, const Vector1<const double>& fine,
                const Vector1<const double>& phase, const Vector1<const int64_t>& quarters, int channels) {
    const size_t rows = valid.size();
    if (fine.size() != rows || phase.size() != rows || quarters.size() != rows || spectra.shape(0) < rows)
        throw std::invalid_argument("arrays of different numbers of spectra");
    if (int64_t(spectra.shape(1)) < 2 * padded(channels) || spectra.stride(1) != 1)
        throw std::invalid_argument("rows of spectra must be padded to a multiple of 64 channels");
}

int64_t quantize(Spectra spectra, Vector1<const uint8_t> valid, Vector1<const double> fine, Vector1<const double> phase,
                 Vector1<const int64_t> quarters, double slope, Vector1<const std::complex<float>> gains, bool dither,
                 uint64_t seed, uint64_t first_spectrum, uint32_t input, int limit, int form, Vector1<uint8_t> out,
                 int64_t offset, int64_t channel_stride, int64_t group_stride, int64_t spectrum_stride, int64_t group,
                 int64_t out_spectrum, const std::string& isa) {
    const int rows = int(valid.size()), channels = int(gains.size());
    const Tiles tiles(channels);
    check_post(spectra, valid, fine, phase, quarters, channels);
    const Output output{Form(form), out.data() + offset, channel_stride, group_stride, spectrum_stride, group};
    const int64_t width = output.form == Form::blocks ? kRowBytes : output.form == Form::heaps ? 2 : 1;
    if (output.form == Form::blocks && (out_spectrum % kBlock || rows % kBlock))
        throw std::invalid_argument("K-blocks are written 64 spectra at a time");
    const int64_t last = out_spectrum + rows - 1;
    const int64_t end =
        offset + (channels - 1) * channel_stride + last / group * group_stride +
        (output.form == Form::blocks ? 0 : (rows >= group ? group - 1 : last % group)) * spectrum_stride + width;
    if (rows > 0 && (offset < 0 || end > int64_t(out.size()))) throw std::invalid_argument("output too small");
    const ChannelizeKernels& chosen = kernels(isa);
    thread_local Turns turns;
    thread_local std::vector<float> gain_re, gain_im;
    turns.make(rows, tiles, slope, fine.data(), phase.data(), quarters.data());
    split_gains(gains.data(), channels, gain_re, gain_im);
    alignas(64) int8_t turned[kTile * kRowBytes] = {};
    alignas(64) uint32_t words[kTile * 4 * kTile];
    int64_t saturated = 0;
    for (int row = 0; row < rows; row += kTile) {
        for (int tile = 0; tile < tiles.count; tile++) {
            if (tiles.width(tile) <= 0) continue;
            Tile t = make_tile(spectra, turns, valid.data(), gain_re, gain_im, row, std::min(kTile, rows - row), tiles,
                               tile);
            if (dither) {
                const Dither all{{uint32_t(seed), uint32_t(seed >> 32)},
                                 uint32_t(tiles.place(tile)),
                                 t.channels,
                                 first_spectrum + row,
                                 input,
                                 t.rows,
                                 t.valid,
                                 words};
                if (tile % 4 == 0) chosen.dither(all);
                t.words = words + tile % 4 * kTile;
            }
            t.limit = float(limit);
            saturated += chosen.tile(t, turned);
            write_tile(output, tiles.first(tile), t.channels, out_spectrum + row, t.rows, turned);
        }
    }
    return saturated;
}

void rotate(Spectra spectra, Vector1<const uint8_t> valid, Vector1<const double> fine, Vector1<const double> phase,
            Vector1<const int64_t> quarters, double slope, Vector1<const std::complex<float>> gains,
            nb::ndarray<std::complex<float>, nb::ndim<2>, nb::c_contig, nb::device::cpu> out, const std::string& isa) {
    const int rows = int(valid.size()), channels = int(gains.size());
    const Tiles tiles(channels);
    check_post(spectra, valid, fine, phase, quarters, channels);
    if (int(out.shape(0)) != rows || int(out.shape(1)) != channels)
        throw std::invalid_argument("output of the wrong shape");
    const ChannelizeKernels& chosen = kernels(isa);
    Turns turns;
    std::vector<float> gain_re, gain_im;
    turns.make(rows, tiles, slope, fine.data(), phase.data(), quarters.data());
    split_gains(gains.data(), channels, gain_re, gain_im);
    for (int row = 0; row < rows; row += kTile) {
        for (int tile = 0; tile < tiles.count; tile++) {
            if (tiles.width(tile) <= 0) continue;
            Tile t = make_tile(spectra, turns, valid.data(), gain_re, gain_im, row, std::min(kTile, rows - row), tiles,
                               tile);
            t.floats = reinterpret_cast<float*>(out.data() + int64_t(row) * channels + tiles.first(tile));
            t.floats_stride = 2 * channels;
            chosen.tile(t, nullptr);
        }
    }
}

std::vector<std::string> instruction_sets() {
    std::vector<std::string> names;
    for (const ChannelizeKernels* one : available()) names.emplace_back(one->name);
    return names;
}

}  // namespace
}  // namespace ryle

NB_MODULE(_native, m) {
    nb::set_leak_warnings(false);  // the interpreter frees nothing at exit
    using release = nb::call_guard<nb::gil_scoped_release>;
    using nb::arg;
    m.doc() = "CPU hot loops of the F-engine";
    m.attr("COLUMNS") = ryle::kColumns;
    m.attr("TILE") = ryle::kTile;
    m.def("instruction_sets", &ryle::instruction_sets);
    m.def("fir", &ryle::fir, arg("samples"), arg("starts"), arg("weights"), arg("taps"), arg("out"), arg("step"),
          arg("isa") = "", release());
    m.def("whole_windows", &ryle::whole_windows, arg("starts"), arg("window"), arg("present"), arg("packet_samples"),
          arg("out"), release());
    m.def("quantize", &ryle::quantize, arg("spectra"), arg("valid"), arg("fine"), arg("phase"), arg("quarters"),
          arg("slope"), arg("gains"), arg("dither"), arg("seed"), arg("first_spectrum"), arg("input"), arg("limit"),
          arg("form"), arg("out"), arg("offset"), arg("channel_stride"), arg("group_stride"), arg("spectrum_stride"),
          arg("group"), arg("out_spectrum"), arg("isa") = "", release());
    m.def("rotate", &ryle::rotate, arg("spectra"), arg("valid"), arg("fine"), arg("phase"), arg("quarters"),
          arg("slope"), arg("gains"), arg("out"), arg("isa") = "", release());
}
