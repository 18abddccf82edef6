// Stretches of packed streams of samples.
#include "packed.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <stdexcept>

namespace ryle {
namespace {

void unpack_portable(const uint8_t* data, size_t count, int bits, float* out) {
    for (size_t i = 0; i < count; i++) out[i] = sample_at(data, i, bits);
}

// Best first.
std::vector<const SampleKernels*> available() {
    std::vector<const SampleKernels*> found;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512vbmi"))
        found.push_back(&samples_avx512);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        found.push_back(&samples_avx2);
#endif
    found.push_back(&samples_portable);
    return found;
}

}  // namespace

const SampleKernels& sample_kernels(const std::string& isa) {
    static const std::vector<const SampleKernels*> found = available();
    if (isa.empty()) return *found.front();
    for (const SampleKernels* one : found)
        if (isa == one->name) return *one;
    throw std::invalid_argument("this machine has no instruction set '" + isa + "'");
}

namespace {

float big_endian_float(const uint8_t* data) {
    const uint32_t word =
        uint32_t(data[0]) << 24 | uint32_t(data[1]) << 16 | uint32_t(data[2]) << 8 | uint32_t(data[3]);
    return std::bit_cast<float>(word);
}

}  // namespace

void unpack_range(const uint8_t* data, int bits, size_t first, size_t count, const SampleKernels& isa, float* out) {
    if (bits == 32) {
        for (size_t i = 0; i < count; i++) out[i] = big_endian_float(data + 4 * (first + i));
        return;
    }
    while (count > 0 && first * bits % 8 != 0) {
        *out++ = sample_at(data, first++, bits);
        count--;
    }
    isa.unpack(data + first * bits / 8, count, bits, out);
}

uint64_t sum_squares_range(const uint8_t* data, int bits, size_t first, size_t count, const SampleKernels& isa) {
    uint64_t before = 0;
    for (; count > 0 && first * bits % 8 != 0; first++, count--) {
        const int64_t value = int64_t(sample_at(data, first, bits));
        before += uint64_t(value * value);
    }
    return before + isa.sum_squares(data + first * bits / 8, count, bits);
}

double sum_squares_float_range(const uint8_t* data, size_t first, size_t count) {
    double total = 0.0;
    for (size_t i = first; i < first + count; i++) {
        const double value = big_endian_float(data + 4 * i);
        total += value * value;
    }
    return total;
}

void count_levels(const uint8_t* data, int bits, size_t first, size_t count, const SampleKernels& isa, float level,
                  int reach, int64_t* counts) {
    constexpr float kWhole = 1.5f * (1 << 23);  // added and taken off again, it rounds half to even
    const float most = float(reach), unit = 1.0f / level;
    float values[2048];
    int32_t places[2048];
    std::vector<int64_t> found(size_t(2 * reach + 2));  // and behind them what is no number
    for (size_t done = 0; done < count;) {
        const size_t some = std::min(std::size(values), count - done);
        unpack_range(data, bits, first + done, some, isa, values);
        for (size_t i = 0; i < some; i++) {
            float value = values[i] * unit;
            value = value > most ? most : value;
            value = value < -most ? -most : value;
            const float rounded = value + kWhole - kWhole;
            places[i] = value == value ? int32_t(rounded + most) : 2 * reach + 1;
        }
        for (size_t i = 0; i < some; i++) found[size_t(places[i])]++;
        done += some;
    }
    for (int i = 0; i <= 2 * reach; i++) counts[i] += found[size_t(i)];
}

std::vector<std::string> sample_instruction_sets() {
    std::vector<std::string> names;
    for (const SampleKernels* one : available()) names.emplace_back(one->name);
    return names;
}

const SampleKernels samples_portable = {"portable", unpack_portable, sum_squares_plain};

}  // namespace ryle
