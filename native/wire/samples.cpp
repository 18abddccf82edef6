// Packed big-endian samples to numbers and back.
#include "samples.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace nb = nanobind;

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

const SampleKernels& kernels(const std::string& isa) {
    static const std::vector<const SampleKernels*> found = available();
    if (isa.empty()) return *found.front();
    for (const SampleKernels* one : found)
        if (isa == one->name) return *one;
    throw std::invalid_argument("this machine has no instruction set '" + isa + "'");
}

float big_endian_float(const uint8_t* data) {
    const uint32_t word =
        uint32_t(data[0]) << 24 | uint32_t(data[1]) << 16 | uint32_t(data[2]) << 8 | uint32_t(data[3]);
    return std::bit_cast<float>(word);
}

// Samples [first, first + count) of a packed stream.
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

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstFloats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Words = nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using MutableWords = nb::ndarray<uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using MutableBytes = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void check_range(const Bytes& data, int bits, size_t first, size_t count) {
    if (bits < 1 || bits > 32) throw std::invalid_argument("bits must be 1-10, 12, 16 or 32");
    if ((first + count) * bits > data.size() * 8)
        throw std::invalid_argument("samples wanted past the end of the data");
}

void unpack(Bytes data, int bits, size_t first, Floats out, const std::string& isa) {
    check_range(data, bits, first, out.size());
    unpack_range(data.data(), bits, first, out.size(), kernels(isa), out.data());
}

uint64_t sum_squares(Bytes data, int bits, size_t first, size_t count, const std::string& isa) {
    check_range(data, bits, first, count);
    if (bits > 16) throw std::invalid_argument("sums of integers only");
    uint64_t before = 0;
    for (; count > 0 && first * bits % 8 != 0; first++, count--) {
        const int64_t value = int64_t(sample_at(data.data(), first, bits));
        before += uint64_t(value * value);
    }
    return before + kernels(isa).sum_squares(data.data() + first * bits / 8, count, bits);
}

double sum_squares_float(Bytes data, size_t first, size_t count) {
    check_range(data, 32, first, count);
    double total = 0.0;
    for (size_t i = first; i < first + count; i++) {
        const double value = big_endian_float(data.data() + 4 * i);
        total += value * value;
    }
    return total;
}

// Appends `values` to `out`, clamped; `group` successive values (2 for complex) count once when any of them saturates.
size_t pack(ConstFloats values, int bits, size_t group, MutableBytes out) {
    const size_t count = values.size();
    if (count * bits != out.size() * 8) throw std::invalid_argument("the output's length does not fit the samples");
    const float* in = values.data();
    uint8_t* bytes = out.data();
    if (bits == 32) {
        for (size_t i = 0; i < count; i++) {
            const uint32_t word = std::bit_cast<uint32_t>(in[i]);
            for (int byte = 0; byte < 4; byte++) bytes[4 * i + byte] = uint8_t(word >> (24 - 8 * byte));
        }
        return 0;
    }
    const float limit = bits == 1 ? 1.0f : float((1 << (bits - 1)) - 1);
    const uint32_t mask = (1u << bits) - 1;
    uint32_t pending = 0;
    int held = 0;
    size_t saturated = 0;
    for (size_t i = 0; i < count;) {
        bool clamped = false;
        for (size_t part = 0; part < group && i < count; part++, i++) {
            uint32_t code;
            if (bits == 1) {
                code = in[i] < 0.0f;
            } else {
                float value = std::nearbyintf(in[i]);  // half to even, the default rounding mode
                if (!(value <= limit)) value = limit, clamped = true;
                if (value < -limit) value = -limit, clamped = true;
                code = uint32_t(int32_t(value)) & mask;
            }
            pending = pending << bits | code;
            for (held += bits; held >= 8;) *bytes++ = uint8_t(pending >> (held -= 8));
        }
        saturated += clamped;
    }
    return saturated;
}

// For each byte the `n` words that the table has of it.
template <size_t n>
void look_up_words(const uint8_t* bytes, size_t count, const uint32_t* table, uint32_t* out) {
    for (size_t i = 0; i < count; i++, out += n) std::memcpy(out, table + size_t{bytes[i]} * n, 4 * n);
}

void look_up(Bytes bytes, Words table, MutableWords out) {
    const size_t n = table.size() / 256, count = bytes.size();
    if (table.size() % 256 != 0 || out.size() != n * count)
        throw std::invalid_argument("the table must have as many words of each byte as the output has of each");
    switch (n) {
        case 1:
            return look_up_words<1>(bytes.data(), count, table.data(), out.data());
        case 2:
            return look_up_words<2>(bytes.data(), count, table.data(), out.data());
        case 4:
            return look_up_words<4>(bytes.data(), count, table.data(), out.data());
        case 8:
            return look_up_words<8>(bytes.data(), count, table.data(), out.data());
        default:
            throw std::invalid_argument("a byte has 1, 2, 4 or 8 words");
    }
}

std::vector<std::string> instruction_sets() {
    std::vector<std::string> names;
    for (const SampleKernels* one : available()) names.emplace_back(one->name);
    return names;
}

}  // namespace

const SampleKernels samples_portable = {"portable", unpack_portable, sum_squares_plain};

}  // namespace ryle

void bind_samples(nb::module_& m) {
    using release = nb::call_guard<nb::gil_scoped_release>;
    m.def("unpack", &ryle::unpack, nb::arg("data"), nb::arg("bits"), nb::arg("first"), nb::arg("out"),
          nb::arg("isa") = "", release());
    m.def("sum_squares", &ryle::sum_squares, nb::arg("data"), nb::arg("bits"), nb::arg("first"), nb::arg("count"),
          nb::arg("isa") = "", release());
    m.def("sum_squares_float", &ryle::sum_squares_float, nb::arg("data"), nb::arg("first"), nb::arg("count"),
          release());
    m.def("pack", &ryle::pack, nb::arg("values"), nb::arg("bits"), nb::arg("group"), nb::arg("out"), release());
    m.def("look_up", &ryle::look_up, nb::arg("bytes"), nb::arg("table"), nb::arg("out"), release());
    m.def("sample_instruction_sets", &ryle::instruction_sets);
}
