// Python's view of the sender of rows.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <system_error>

#include "datagrams.h"
#include "rows.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace ryle;

namespace {

using Rows = nb::ndarray<const std::int8_t, nb::ndim<5>, nb::c_contig, nb::device::cpu>;
using Words = nb::ndarray<const std::uint64_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

void send_blocks(RowSender& self, const Rows& rows, const Words& words, std::int64_t first_block) {
    const RowPlan& p = self.plan();
    if (rows.shape(1) != p.antennas.size() || rows.shape(2) != p.channels || rows.shape(3) != p.pols ||
        rows.shape(4) != 128 || words.shape(0) != rows.shape(0) || words.shape(1) != rows.shape(1) ||
        words.shape(2) != rows.shape(3) || first_block < 0)
        throw std::invalid_argument("rows and validity do not belong to this sender");
    const auto* data = reinterpret_cast<const std::uint8_t*>(rows.data());
    try {
        const nb::gil_scoped_release unlocked;
        self.send(data, words.data(), static_cast<std::int64_t>(rows.shape(0)), first_block);
    } catch (const std::system_error& error) {
        PyErr_SetObject(PyExc_OSError, nb::make_tuple(error.code().value(), error.what()).ptr());
        throw nb::python_error();
    }
}

}  // namespace

void bind_send_rows(nb::module_& m) {
    const auto counter = [](Counter RowSender::* which) {
        return [which](const RowSender& self) { return (self.*which).get(); };
    };
    nb::class_<RowSender>(m, "RowSender", "Sends packets of rows; see ryle.send.rows.")
        .def(
            "__init__",
            [](RowSender* self, int socket, const std::vector<std::pair<std::string, std::uint16_t>>& endpoints,
               std::vector<std::uint32_t> antennas, std::uint32_t channels, std::uint32_t share,
               std::uint32_t packet_channels, std::uint32_t pols, std::uint32_t begin) {
                new (self) RowSender(socket, addresses(endpoints),
                                     {std::move(antennas), channels, share, packet_channels, pols, begin});
            },
            "socket"_a, "endpoints"_a, "antennas"_a, "channels"_a, "share"_a, "packet_channels"_a, "pols"_a, "begin"_a)
        .def("send", &send_blocks, "rows"_a, "words"_a, "first_block"_a)
        .def("stop", &RowSender::stop)
        .def_prop_rw("rate", &RowSender::rate, &RowSender::pace)
        .def_prop_ro("packets", counter(&RowSender::packets))
        .def_prop_ro("withheld", counter(&RowSender::withheld))
        .def_prop_ro("bytes", counter(&RowSender::bytes))
        .def_prop_ro("calls", counter(&RowSender::calls))
        .def_prop_ro("full", counter(&RowSender::full))
        .def_prop_ro("waits", counter(&RowSender::waits))
        .def_prop_ro("segments", &RowSender::segments)
        .def(
            "fill",
            [](const RowSender& self, std::size_t endpoint, bool table) {
                if (endpoint >= self.plan().channels / self.plan().share) throw nb::index_error();
                return table ? self.queues().fill_from_table(endpoint) : self.queues().fill(endpoint);
            },
            "endpoint"_a, "table"_a = false, "Bytes that wait in sockets of this host there.");
}
