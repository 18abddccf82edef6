// Python's view of what a capture does besides assembling: recording packets and verifying payloads.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "recorder.h"
#include "verify.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace ryle;

namespace {

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Marks = nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Streams = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::dict counts_of(const Recorder& recorder) {
    const RecorderCounts c = recorder.counts();
    nb::dict d;
    d["packets"] = c.packets;
    d["bytes"] = c.bytes;
    d["unrecorded"] = c.unrecorded;
    d["files"] = c.files;
    d["written"] = c.written;
    d["fill"] = c.fill;
    d["busy_seconds"] = c.busy_seconds;
    d["direct"] = c.direct;
    d["file"] = c.file;
    d["error"] = c.error;
    return d;
}

}  // namespace

void bind_capture(nb::module_& m) {
    nb::class_<Recorder, Sink>(m, "Recorder", "Packets as they came, to pcap files, on their way to another sink.")
        .def(
            "__init__",
            [](Recorder* self, Sink* next, std::string stem, const std::vector<nb::bytes>& heads,
               std::int64_t file_bytes, double file_seconds, std::int64_t keep, std::size_t buffer_bytes,
               std::size_t buffers, bool direct) {
                RecorderPlan plan{std::move(stem), file_bytes, file_seconds, keep, buffer_bytes, buffers, direct, {}};
                for (const nb::bytes& head : heads) {
                    const auto* data = static_cast<const std::uint8_t*>(head.data());
                    plan.heads.emplace_back(data, data + head.size());
                }
                new (self) Recorder(std::move(plan), next);
            },
            "next"_a.none(), "stem"_a, "heads"_a, "file_bytes"_a, "file_seconds"_a, "keep"_a, "buffer_bytes"_a,
            "buffers"_a, "direct"_a, nb::keep_alive<1, 2>())
        .def("close", &Recorder::close, nb::call_guard<nb::gil_scoped_release>())
        .def("counts", &counts_of);
    m.def(
        "verify_payloads",
        [](std::uint32_t filling, std::uint64_t seed, const Streams& streams, std::uint64_t first, std::uint64_t period,
           const Bytes& data, const Marks& present, std::size_t part) {
            if (filling > 2) throw std::invalid_argument("unknown filling");
            const std::size_t parts = part ? (data.shape(2) + part - 1) / part : 1;
            if (part % 8) throw std::invalid_argument("parts of heaps are whole 64-bit words");
            if (data.shape(0) != streams.size() || present.shape(0) != data.shape(0) ||
                present.shape(1) != data.shape(1) * parts)
                throw std::invalid_argument("payloads, marks and streams are not of the same chunk");
            const nb::gil_scoped_release released;
            const Verified v =
                verify_payloads(static_cast<Filling>(filling), seed, {streams.data(), streams.size()}, first, period,
                                data.data(), present.data(), data.shape(1), data.shape(2), part);
            return std::make_tuple(v.packets, v.wrong_packets, v.wrong_bytes, v.first_head, v.first_packet);
        },
        "filling"_a, "seed"_a, "streams"_a, "first"_a, "period"_a, "data"_a, "present"_a, "part"_a = 0,
        "Packets looked at, wrong ones, wrong bytes, and head and packet of the first wrong one.");
}
