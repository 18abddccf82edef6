// ryle.correlate._native: the X-engine's CPU hot loops.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "accumulate.h"
#include "packets.h"

namespace nb = nanobind;
using ryle::correlate::Accumulator;
using ryle::correlate::Kernel;

namespace {

using Data = nb::ndarray<const std::int8_t, nb::ndim<5>, nb::device::cpu>;     // [channel][block][antenna][pol][128]
using Valid = nb::ndarray<const std::uint64_t, nb::ndim<4>, nb::device::cpu>;  // [group][block][antenna][pol]
using Visibilities = nb::ndarray<std::int64_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Counts = nb::ndarray<std::uint32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Products = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::unique_ptr<Accumulator> make(const std::string& name, int inputs, const Products& product, int products,
                                  int threads) {
    if (inputs < 1 || threads < 1 || product.shape(0) != static_cast<std::size_t>(inputs) * (inputs + 1) / 2) {
        throw std::invalid_argument("inputs, product and threads do not belong together");
    }
    for (std::size_t n = 0; n < product.shape(0); ++n) {
        if (product(n) < 0 || product(n) >= products) throw std::invalid_argument("product out of range");
    }
    for (const Kernel* kernel : ryle::correlate::kernels()) {
        if (name != kernel->name) continue;
        if (const char* reason = kernel->unavailable()) throw std::invalid_argument(reason);
        return std::make_unique<Accumulator>(*kernel, inputs,
                                             std::vector<std::int32_t>(product.data(), product.data() + product.size()),
                                             products, threads);
    }
    throw std::invalid_argument("unknown kernel " + name);
}

// Shapes and the inner strides are the caller's promise, checked in ryle.correlate.cpu; what would reach outside an
// array is checked here as well.
std::uint64_t add(Accumulator& self, const Data& data, const Valid& valid, const Visibilities& visibilities,
                  const Counts& counts) {
    if (data.shape(4) != ryle::kRowBytes || data.stride(4) != 1 || valid.shape(1) != data.shape(1) ||
        valid.shape(2) != data.shape(2) || valid.shape(3) != data.shape(3) || visibilities.shape(0) != data.shape(0) ||
        counts.shape(0) != valid.shape(0) || counts.shape(1) != visibilities.shape(1) ||
        !self.fits(data.shape(2) * data.shape(3), visibilities.shape(1))) {
        throw std::invalid_argument("arrays do not belong together");
    }
    const ryle::correlate::Run run{data.data(),
                                   data.stride(0),
                                   data.stride(1),
                                   {data.stride(2), data.stride(3)},
                                   valid.data(),
                                   valid.stride(0),
                                   valid.stride(1),
                                   {valid.stride(2), valid.stride(3)},
                                   static_cast<int>(data.shape(0)),
                                   static_cast<int>(valid.shape(0)),
                                   static_cast<int>(data.shape(1)),
                                   static_cast<int>(data.shape(3))};
    std::int64_t* sums = visibilities.data();
    std::uint32_t* contributions = counts.data();
    const nb::gil_scoped_release unlocked;
    return self.add(run, sums, contributions);
}

using Table = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Octets = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The least and the greatest value of some entries of a table.
std::pair<std::int64_t, std::int64_t> range(const Table& table, std::size_t first, std::size_t count) {
    const auto [least, most] = std::minmax_element(table.data() + first, table.data() + first + count);
    return {*least, *most};
}

std::uint64_t unpack(const nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::device::cpu>& packets,
                     const Octets& present, const Table& spectrum_rows, const Table& spectrum_bytes,
                     const Table& channel_rows, const Table& channel_bytes, const Table& input_rows,
                     const Table& input_bytes, const Octets& conjugated, int groups, int bits, int flip, bool swapped,
                     int first_block, const nb::ndarray<std::int8_t, nb::ndim<4>, nb::c_contig, nb::device::cpu>& data,
                     const nb::ndarray<std::uint64_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>& valid) {
    const std::size_t channels = channel_rows.size(), inputs = input_rows.size(), blocks = data.shape(1);
    const std::size_t first = std::size_t(first_block) * ryle::kBlock, spectra = blocks * ryle::kBlock;
    if (first_block < 0 || first + spectra > spectrum_rows.size() || spectrum_bytes.size() != spectrum_rows.size() ||
        channel_bytes.size() != channels || input_bytes.size() != inputs || conjugated.size() != inputs || groups < 1 ||
        channels % groups != 0 || (bits != 4 && bits != 8) || data.shape(0) != channels || data.shape(2) != inputs ||
        data.shape(3) != ryle::kRowBytes || valid.shape(0) != std::size_t(groups) || valid.shape(1) != blocks ||
        valid.shape(2) != inputs || present.size() != packets.shape(0) ||
        (packets.shape(1) > 1 && packets.stride(1) != 1)) {
        throw std::invalid_argument("arrays do not belong together");
    }
    if (blocks == 0 || channels == 0 || inputs == 0) return 0;
    const auto [s0, s1] = range(spectrum_rows, first, spectra);
    const auto [c0, c1] = range(channel_rows, 0, channels);
    const auto [i0, i1] = range(input_rows, 0, inputs);
    const auto [t0, t1] = range(spectrum_bytes, first, spectra);
    const auto [d0, d1] = range(channel_bytes, 0, channels);
    const auto [j0, j1] = range(input_bytes, 0, inputs);
    if (s0 + c0 + i0 < 0 || s1 + c1 + i1 >= std::int64_t(packets.shape(0)) || t0 + d0 + j0 < 0 ||
        t1 + d1 + j1 + bits / 4 > std::int64_t(packets.shape(1))) {
        throw std::invalid_argument("samples would lie outside the packets");
    }
    const ryle::correlate::PacketRun run{packets.data(),
                                         packets.stride(0),
                                         present.data(),
                                         spectrum_rows.data(),
                                         spectrum_bytes.data(),
                                         channel_rows.data(),
                                         channel_bytes.data(),
                                         input_rows.data(),
                                         input_bytes.data(),
                                         conjugated.data(),
                                         static_cast<int>(channels),
                                         groups,
                                         static_cast<int>(inputs),
                                         first_block,
                                         static_cast<int>(blocks),
                                         bits,
                                         flip,
                                         swapped};
    std::int8_t* rows = data.data();
    std::uint64_t* words = valid.data();
    const nb::gil_scoped_release unlocked;
    return ryle::correlate::unpack_packets(run, rows, words);
}

}  // namespace

NB_MODULE(_native, m) {
    nb::set_leak_warnings(false);  // the interpreter frees nothing at exit
    m.doc() = "CPU hot loops of the X-engine";
    m.attr("RUN_BLOCKS") = ryle::correlate::kRunBlocks;
    m.def(
        "kernels",
        [] {
            nb::dict status;
            for (const Kernel* kernel : ryle::correlate::kernels()) {
                const char* reason = kernel->unavailable();
                status[kernel->name] = reason ? nb::cast(reason) : nb::none();
            }
            return status;
        },
        "Kernels of this build, fastest first, each with the reason why this CPU cannot run it, or None.");
    m.def("unpack_packets", &unpack, nb::arg("packets"), nb::arg("present"), nb::arg("spectrum_rows"),
          nb::arg("spectrum_bytes"), nb::arg("channel_rows"), nb::arg("channel_bytes"), nb::arg("input_rows"),
          nb::arg("input_bytes"), nb::arg("conjugated"), nb::arg("groups"), nb::arg("bits"), nb::arg("flip"),
          nb::arg("swapped"), nb::arg("first_block"), nb::arg("data"), nb::arg("valid"),
          "Make K-blocks and validity of others' packets; returns how many valid parts had the lowest value.");
    nb::class_<Accumulator>(m, "Accumulator")
        .def(nb::new_(&make), nb::arg("kernel"), nb::arg("inputs"), nb::arg("product"), nb::arg("products"),
             nb::arg("threads"))
        .def("add", &add, nb::arg("data"), nb::arg("valid"), nb::arg("visibilities"), nb::arg("counts"),
             "Add K-blocks to sums; returns how many valid values were -128.");
}
