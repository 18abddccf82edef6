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

// The least and the greatest entry of a table.
std::pair<std::int64_t, std::int64_t> range(const Table& table) {
    const auto [least, most] = std::minmax_element(table.data(), table.data() + table.size());
    return {*least, *most};
}

std::uint64_t unpack(const Octets& packets,
                     const nb::ndarray<const std::uint64_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>& valid,
                     const Table& spectrum, const Table& channel, const Table& input, const Octets& conjugated,
                     int bits, int flip, bool swapped,
                     const nb::ndarray<std::int8_t, nb::ndim<4>, nb::c_contig, nb::device::cpu>& data) {
    const std::size_t channels = channel.size(), inputs = input.size(), groups = valid.shape(0),
                      blocks = valid.shape(1);
    if (spectrum.size() != blocks * ryle::kBlock || conjugated.size() != inputs || groups == 0 ||
        channels % groups != 0 || (bits != 4 && bits != 8) || data.shape(0) != channels || data.shape(1) != blocks ||
        data.shape(2) != inputs || data.shape(3) != ryle::kRowBytes || valid.shape(2) != inputs) {
        throw std::invalid_argument("arrays do not belong together");
    }
    if (blocks == 0 || channels == 0 || inputs == 0) return 0;
    const auto [s0, s1] = range(spectrum);
    const auto [c0, c1] = range(channel);
    const auto [i0, i1] = range(input);
    if (s0 + c0 + i0 < 0 || s1 + c1 + i1 + bits / 4 > std::int64_t(packets.size())) {
        throw std::invalid_argument("samples would lie outside the packets");
    }
    const ryle::correlate::PacketRun run{packets.data(),
                                         valid.data(),
                                         spectrum.data(),
                                         channel.data(),
                                         input.data(),
                                         conjugated.data(),
                                         static_cast<int>(channels),
                                         static_cast<int>(groups),
                                         static_cast<int>(inputs),
                                         static_cast<int>(blocks),
                                         bits,
                                         flip,
                                         swapped};
    std::int8_t* rows = data.data();
    const nb::gil_scoped_release unlocked;
    return ryle::correlate::unpack_packets(run, rows);
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
    m.def("unpack_packets", &unpack, nb::arg("packets"), nb::arg("valid"), nb::arg("spectrum"), nb::arg("channel"),
          nb::arg("input"), nb::arg("conjugated"), nb::arg("bits"), nb::arg("flip"), nb::arg("swapped"),
          nb::arg("data"), "Make K-blocks of packets; returns how many valid parts had the lowest value.");
    nb::class_<Accumulator>(m, "Accumulator")
        .def(nb::new_(&make), nb::arg("kernel"), nb::arg("inputs"), nb::arg("product"), nb::arg("products"),
             nb::arg("threads"))
        .def("add", &add, nb::arg("data"), nb::arg("valid"), nb::arg("visibilities"), nb::arg("counts"),
             "Add K-blocks to sums; returns how many valid values were -128.");
}
