// ryle.correlate._native: the X-engine's CPU hot loops.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <stdexcept>
#include <string>

#include "correlate/accumulate.h"

namespace nb = nanobind;
using ryle::correlate::Accumulator;
using ryle::correlate::Kernel;

namespace {

using Data = nb::ndarray<const std::int8_t, nb::ndim<4>, nb::device::cpu>;
using Valid = nb::ndarray<const std::uint64_t, nb::ndim<3>, nb::device::cpu>;
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
    if (data.shape(3) != ryle::kRowBytes || data.stride(3) != 1 || data.stride(2) != ryle::kRowBytes ||
        valid.stride(2) != 1 || valid.shape(1) != data.shape(1) || valid.shape(2) != data.shape(2) ||
        visibilities.shape(0) != data.shape(0) || counts.shape(0) != valid.shape(0) ||
        counts.shape(1) != visibilities.shape(1) || !self.fits(data.shape(2), visibilities.shape(1))) {
        throw std::invalid_argument("arrays do not belong together");
    }
    const ryle::correlate::Run run{data.data(),
                                   data.stride(0),
                                   data.stride(1),
                                   valid.data(),
                                   valid.stride(0),
                                   valid.stride(1),
                                   static_cast<int>(data.shape(0)),
                                   static_cast<int>(valid.shape(0)),
                                   static_cast<int>(data.shape(1))};
    std::int64_t* sums = visibilities.data();
    std::uint32_t* contributions = counts.data();
    const nb::gil_scoped_release unlocked;
    return self.add(run, sums, contributions);
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
    nb::class_<Accumulator>(m, "Accumulator")
        .def(nb::new_(&make), nb::arg("kernel"), nb::arg("inputs"), nb::arg("product"), nb::arg("products"),
             nb::arg("threads"))
        .def("add", &add, nb::arg("data"), nb::arg("valid"), nb::arg("visibilities"), nb::arg("counts"),
             "Add K-blocks to sums; returns how many valid values were -128.");
}
