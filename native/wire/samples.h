// Packed big-endian samples to numbers: one kernel for every width, compiled once for each instruction set.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ryle {

// `data` starts on a byte boundary at a sample; `bits` is 1-10, 12 or 16. A sample of any of these widths lies within
// two successive bytes, which is what every form of the kernel relies on. Nothing past the last sample's byte is read.
using UnpackFunction = void (*)(const uint8_t* data, size_t count, int bits, float* out);
// Sum of squares, in an order that depends on nothing but `count`.
using SumSquaresFunction = double (*)(const float* samples, size_t count);

struct SampleKernels {
    const char* name;
    UnpackFunction unpack;
    SumSquaresFunction sum_squares;
};

extern const SampleKernels samples_portable;
#if defined(__x86_64__)
extern const SampleKernels samples_avx2;
extern const SampleKernels samples_avx512;
#endif

namespace {

inline float sample_at(const uint8_t* data, size_t index, int bits) {
    const size_t bit = index * bits;
    const size_t byte = bit >> 3;
    const unsigned offset = bit & 7;
    uint32_t word = uint32_t(data[byte]) << 24;
    if (offset + bits > 8) word |= uint32_t(data[byte + 1]) << 16;
    const int32_t value = int32_t(word << offset) >> (32 - bits);
    return float(bits == 1 ? 2 * value + 1 : value);
}

// Sixteen double accumulators: exact for integer samples while the sum stays below 2^53.
inline double sum_squares_plain(const float* samples, size_t count) {
    double sums[16] = {};
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        for (size_t lane = 0; lane < 16; lane++) {
            const double value = samples[i + lane];
            sums[lane] += value * value;
        }
    }
    for (size_t lane = 0; i < count; i++, lane++) sums[lane] += double(samples[i]) * double(samples[i]);
    double total = 0.0;
    for (double sum : sums) total += sum;
    return total;
}

}  // namespace
}  // namespace ryle
