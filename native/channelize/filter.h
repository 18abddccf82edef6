// From packed samples to spectra before they are turned: unpacking, the filter, and a Fourier transform of others'.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels.h"
#include "wire/samples.h"

namespace ryle {

struct Piece {
    const uint8_t* data;
    int64_t values;
};

// Values of one input: packed pieces that follow one another.
struct Stream {
    std::vector<Piece> pieces;
    int bits;
    const SampleKernels& kernels;

    int64_t values() const;
    void unpack(int64_t low, int64_t high, float* out) const;
    // Adds the squares of values [low, high), of integers to `exact`, of floats to `sum`.
    void squares(int64_t low, int64_t high, uint64_t& exact, double& sum) const;
};

// The windows of a batch of one input's spectra, few enough to stay in cache.
struct Windows {
    const int64_t* starts;  // value of the stream at which each row's window begins
    const uint8_t* valid;   // what is not valid becomes a row of zeros
    int64_t rows;
};

class Filter {
  public:
    // Transforms rows [row, row + rows) of the frames in place.
    using Transform = std::function<void(int64_t row, int64_t rows)>;

    // `weights` as `Fir` reads them. `group`: rows that are filtered and transformed together, a multiple of 16.
    Filter(int parts, int taps, int64_t step, std::vector<float> weights, int64_t group,
           const ChannelizeKernels& kernels);

    // Filter and transform windows into rows of `frames`, `stride` floats apart. Rows up to the next multiple of 16 are
    // written. What a real transform gives, Re 0, Re 1, Im 1, Re 2, ..., is moved apart: Re 0 lies in the float before
    // the row, and a zero at its place. Nothing is done if no window is valid.
    void apply(const Stream& stream, const Windows& windows, bool conjugated, float* frames, ptrdiff_t stride,
               const Transform& transform) const;

    int64_t window() const { return taps_ * step_; }  // values
    int64_t step() const { return step_; }

  private:
    void fir(const float* samples, const int64_t* offsets, int64_t rows, float* out, ptrdiff_t stride) const;

    int parts_, taps_;
    int64_t step_;
    std::vector<float> weights_;
    int64_t group_;
    const ChannelizeKernels& kernels_;
};

}  // namespace ryle
