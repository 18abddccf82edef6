// ryle.products._native: what the writer of visibilities does with every number.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "normalize.h"

namespace nb = nanobind;

namespace {

using Numbers = nb::ndarray<const std::int64_t, nb::ndim<3>, nb::device::cpu>;  // [channel][product][re, im]
using Counts = nb::ndarray<const std::uint32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Products = nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Signs = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<float, nb::ndim<4>, nb::device::cpu>;  // [row][channel][polarization][re, im]

ryle::products::Kind kind_of(const std::string& name) {
    using ryle::products::Kind;
    if (name == "int64") return Kind::kInt64;
    if (name == "swapped") return Kind::kInt64Swapped;
    if (name == "float64") return Kind::kFloat64;
    throw std::invalid_argument("sums are int64, swapped or float64, not " + name);
}

void normalize(const Numbers& sums, const std::string& kind, const Counts& counts, const Products& product,
               const Signs& sign, std::int64_t first, std::int64_t step, const Out& out) {
    const auto size = [](std::size_t n) { return static_cast<std::int64_t>(n); };
    const std::int64_t channels = size(sums.shape(0)), products = size(sums.shape(1)), groups = size(counts.shape(0));
    const std::int64_t wanted = size(out.shape(1)), last = first + step * (wanted - 1);
    const std::int64_t p = size(out.shape(2));
    if (sums.shape(2) != 2 || sums.stride(2) != 1 || sums.stride(1) != 2 || size(counts.shape(1)) != products ||
        groups < 1 || channels % groups != 0 || out.shape(3) != 2 || out.stride(3) != 1 || out.stride(2) != 2 ||
        out.stride(1) != 2 * p || product.shape(0) != out.shape(0) || size(product.shape(1)) != p ||
        sign.shape(0) != out.shape(0)) {
        throw std::invalid_argument("arrays do not belong together");
    }
    if (wanted == 0) return;
    if ((step != 1 && step != -1) || std::min(first, last) < 0 || std::max(first, last) >= channels) {
        throw std::invalid_argument("channels out of range");
    }
    for (std::size_t n = 0; n < product.size(); ++n) {
        if (product.data()[n] < 0 || product.data()[n] >= products) throw std::invalid_argument("product out of range");
    }
    const ryle::products::Sums from{sums.data(), sums.stride(0),    counts.data(),
                                    products,    channels / groups, kind_of(kind)};
    const ryle::products::Wanted rows{product.data(), sign.data(), size(product.shape(0)), p};
    float* to = out.data();
    const std::int64_t pitch = out.stride(0);
    const nb::gil_scoped_release unlocked;
    ryle::products::normalize(from, rows, first, step, wanted, to, pitch);
}

}  // namespace

NB_MODULE(_native, m) {
    m.def("normalize", &normalize, nb::arg("sums"), nb::arg("kind"), nb::arg("counts"), nb::arg("product"),
          nb::arg("sign"), nb::arg("first"), nb::arg("step"), nb::arg("out"));
}
