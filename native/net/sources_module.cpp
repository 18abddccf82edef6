// Python's view of sources: see ryle.net.sources.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "sources.h"

namespace nb = nanobind;
using namespace ryle;

namespace {

using Sockets = std::vector<std::tuple<int, std::uint32_t>>;

Source* udp_source(Sink& sink, const std::vector<Sockets>& threads, bool gro, std::uint32_t largest,
                   const std::vector<int>& cores) {
    std::vector<std::unique_ptr<Worker>> workers;
    for (const Sockets& given : threads) {
        std::vector<UdpSocket> sockets;
        for (const auto& [descriptor, port] : given) sockets.push_back({descriptor, port});
        workers.push_back(udp_worker("udp-" + std::to_string(workers.size()), sockets, gro, largest, sink));
    }
    return new Source(std::move(workers), cores);
}

nb::list reports(const Source& source) {
    nb::list list;
    for (const ThreadReport& r : source.report()) {
        nb::dict d;
        d["name"] = r.name;
        d["core"] = r.core;
        d["running"] = r.running;
        d["cpu_seconds"] = r.cpu_seconds;
        d["wall_seconds"] = r.wall_seconds;
        d["packets"] = r.packets;
        d["bytes"] = r.bytes;
        d["calls"] = r.calls;
        d["kernel_drops"] = r.kernel_drops;
        list.append(d);
    }
    return list;
}

}  // namespace

void bind_sources(nb::module_& m) {
    using namespace nb::literals;
    nb::class_<Source>(m, "Source", "Threads that receive.")
        .def("start", &Source::start)
        .def("stop", &Source::stop)
        .def(
            "join",
            [](Source& s, double timeout) {
                return s.join(std::chrono::nanoseconds(static_cast<std::int64_t>(timeout * 1e9)));
            },
            "timeout"_a, nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("running", &Source::running)
        .def_prop_ro("error", &Source::error)
        .def("reports", &reports);
    m.def("udp_source", &udp_source, "sink"_a, "threads"_a, "gro"_a, "largest"_a, "cores"_a, nb::keep_alive<0, 1>());
}
