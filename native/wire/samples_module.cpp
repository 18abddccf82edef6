// Packed big-endian samples to numbers and back: what Python calls.
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

#include "packed.h"

namespace nb = nanobind;

namespace ryle {
namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstFloats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Words = nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using MutableWords = nb::ndarray<uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using MutableBytes = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void check_range(const Bytes& data, int bits, size_t first, size_t count) {
    if (bits < 1 || bits > 32) throw std::invalid_argument("bits must be 1-10, 12, 16 or 32");
    if ((first + count) * bits > data.size() * 8)
        throw std::invalid_argument("samples wanted past the end of the data");
}

void unpack(const Bytes& data, int bits, size_t first, const Floats& out, const std::string& isa) {
    check_range(data, bits, first, out.size());
    unpack_range(data.data(), bits, first, out.size(), sample_kernels(isa), out.data());
}

uint64_t sum_squares(const Bytes& data, int bits, size_t first, size_t count, const std::string& isa) {
    check_range(data, bits, first, count);
    if (bits > 16) throw std::invalid_argument("sums of integers only");
    return sum_squares_range(data.data(), bits, first, count, sample_kernels(isa));
}

double sum_squares_float(const Bytes& data, size_t first, size_t count) {
    check_range(data, 32, first, count);
    return sum_squares_float_range(data.data(), first, count);
}

void levels(const Bytes& data, int bits, size_t first, size_t count, float level, const Integers& counts,
            const std::string& isa) {
    check_range(data, bits, first, count);
    if (counts.size() % 2 == 0 || !(level > 0)) throw std::invalid_argument("levels are counted from -n to n");
    count_levels(data.data(), bits, first, count, sample_kernels(isa), level, int(counts.size() / 2), counts.data());
}

// Appends `values` to `out`, clamped; `group` successive values (2 for complex) count once when any of them saturates.
size_t pack(const ConstFloats& values, int bits, size_t group, const MutableBytes& out) {
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

void look_up(const Bytes& bytes, const Words& table, const MutableWords& out) {
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

}  // namespace

}  // namespace ryle

void bind_samples(nb::module_& m) {
    using release = nb::call_guard<nb::gil_scoped_release>;
    m.def("unpack", &ryle::unpack, nb::arg("data"), nb::arg("bits"), nb::arg("first"), nb::arg("out"),
          nb::arg("isa") = "", release());
    m.def("sum_squares", &ryle::sum_squares, nb::arg("data"), nb::arg("bits"), nb::arg("first"), nb::arg("count"),
          nb::arg("isa") = "", release());
    m.def("sum_squares_float", &ryle::sum_squares_float, nb::arg("data"), nb::arg("first"), nb::arg("count"),
          release());
    m.def("count_levels", &ryle::levels, nb::arg("data"), nb::arg("bits"), nb::arg("first"), nb::arg("count"),
          nb::arg("level"), nb::arg("counts"), nb::arg("isa") = "", release());
    m.def("pack", &ryle::pack, nb::arg("values"), nb::arg("bits"), nb::arg("group"), nb::arg("out"), release());
    m.def("look_up", &ryle::look_up, nb::arg("bytes"), nb::arg("table"), nb::arg("out"), release());
    m.def("sample_instruction_sets", &ryle::sample_instruction_sets);
}
