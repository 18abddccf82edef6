// The F-engine's two hot loops. One source (kernels_body.h) is compiled once for each instruction set.
#pragma once
#include <cstddef>
#include <cstdint>

#include "chunk.h"

namespace ryle {

constexpr int kTile = kBlock;  // channels and spectra of one tile of the post-processing
constexpr int kColumns = 16;   // columns that one block of FIR weights covers

// Weighted sums of `taps` frames of `step` floats, for `rows` spectra whose windows follow one another.
struct Fir {
    const float* samples;  // first sample of the first window
    const float* weights;  // [column block][tap][kColumns], zeros past the last column
    float* out;
    ptrdiff_t out_stride;  // floats between successive spectra
    int rows;
    int taps;
    int step;
};

// Random words of the dither: Philox4x32-7 of the counters (first_counter + i, spectrum mod 2^32, spectrum >> 32,
// input).
struct Dither {
    uint32_t key[2];
    uint32_t first_counter;
    int counters;  // <= kTile
    uint64_t first_spectrum;
    uint32_t input;
    int rows;
    const uint8_t* valid;  // [rows]; the words of other spectra are left alone
    uint32_t* words;       // [rows][4][kTile]: word w of counter i at [w][i], up to the next multiple of 16 counters
};

// Up to 64 channels of up to 64 spectra: delay, phase, gain, dither, quantization and corner turn. Channels are read up
// to the next multiple of 16.
struct Tile {
    const float* spectra;  // interleaved complex, first channel of the tile
    ptrdiff_t row_stride;  // floats between successive spectra
    const uint8_t* valid;  // [rows]
    const float* lane_re;  // [rows][kTile]: turn of each channel against the tile's first
    const float* lane_im;
    const float* base_re;  // [rows], base_stride apart: turn of the tile's first channel
    const float* base_im;
    ptrdiff_t base_stride;
    const float* gain_re;  // [kTile]
    const float* gain_im;
    int rows;
    int channels;           // <= kTile
    const uint32_t* words;  // [rows], 4 * kTile apart: a word of dither for each channel; null for none
    float limit;            // 127 or 7
    float* floats;          // if set: values before dither as interleaved complex, nothing else is done
    ptrdiff_t floats_stride;
};

struct ChannelizeKernels {
    const char* name;
    void (*fir)(const Fir&);
    void (*dither)(const Dither&);
    // turned: [kTile channels] rows of a K-block, spectra past `rows` undefined; returns the saturated values.
    int64_t (*tile)(const Tile&, int8_t* turned);
};

extern const ChannelizeKernels channelize_portable;
#if defined(__x86_64__)
extern const ChannelizeKernels channelize_avx2;
extern const ChannelizeKernels channelize_avx512;
#endif

}  // namespace ryle
