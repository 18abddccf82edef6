// What is done to spectra behind the transform: turned, scaled, dithered, quantized and put in their places.
#pragma once
#include <complex>
#include <cstddef>
#include <cstdint>

#include "kernels.h"

namespace ryle {

// Channels that are read of a spectrum; what lies past the last does not matter.
constexpr int padded(int channels) { return (channels + kTile - 1) / kTile * kTile; }

// Spectra of one input, as the filter leaves them, and what turns and scales them.
struct Turned {
    const float* spectra;  // interleaved complex, rows `stride` floats apart, padded to a multiple of 64 channels
    ptrdiff_t stride;
    int rows, channels;
    const uint8_t* valid;   // [rows]
    const double* fine;     // [rows] samples of delay that turn by `slope` from a channel to the next
    const double* phase;    // [rows]
    const int64_t* coarse;  // [rows] of which each sample turns by a quarter; null: none does
    double slope;
    const std::complex<float>* gains;  // [channels]
};

struct Quantizing {
    bool dither;
    uint64_t seed;
    uint32_t input;
    int limit;
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

    // Whether `rows` spectra from `first` on lie within `bytes` from the base.
    bool holds(int64_t first, int rows, int channels, int64_t bytes) const;
};

// Row 0 is spectrum `first_spectrum` since sync, and `out_spectrum` of the output; returns the saturated values.
int64_t quantize(const Turned& turned, const Quantizing& how, uint64_t first_spectrum, const Output& output,
                 int64_t out_spectrum, const ChannelizeKernels& kernels);

// The values before dither and quantization: [row][channel].
void rotate(const Turned& turned, std::complex<float>* out, const ChannelizeKernels& kernels);

}  // namespace ryle
