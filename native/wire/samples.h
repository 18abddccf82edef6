// Packed big-endian samples to numbers: one kernel for every width, compiled once for each instruction set.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ryle {

// `data` starts on a byte boundary at a sample; `bits` is 1-10, 12 or 16. A sample of any of these widths lies within
// two successive bytes, which is what every form of the kernel relies on. Nothing past the last sample's byte is read.
using UnpackFunction = void (*)(const uint8_t* data, size_t count, int bits, float* out);
using SumSquaresFunction = uint64_t (*)(const uint8_t* data, size_t count, int bits);

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

inline uint64_t sum_squares_plain(const uint8_t* data, size_t count, int bits) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        const int64_t value = int64_t(sample_at(data, i, bits));
        sum += uint64_t(value * value);
    }
    return sum;
}

// Sums of two squares, at most 2^(2 bits - 1), that 32 bits can add up.
inline size_t exact_depth(int bits) { return bits <= 10 ? 4096 : size_t(1) << (32 - 2 * bits); }

}  // namespace
}  // namespace ryle
