// Python's view of sources: see ryle.receive.sources.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <exception>
#include <memory>
#include <optional>
#include <system_error>
#include <tuple>

#include "sources.h"
#include "wire/layout_binding.h"

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

Source* ring_source(Sink& sink, const std::string& interface, const std::vector<std::uint16_t>& ports,
                    std::uint32_t block_bytes, std::uint32_t blocks, int threads, int group,
                    const std::vector<int>& cores) {
    std::vector<std::unique_ptr<Worker>> workers;
    for (int i = 0; i < threads; ++i)
        workers.push_back(ring_worker("ring-" + std::to_string(i),
                                      {interface, ports, block_bytes, blocks, threads > 1 ? group : -1}, sink));
    return new Source(std::move(workers), cores);
}

Source* synthetic_source(Sink& sink, const LayoutTuple& layout, const std::vector<nb::bytes>& heads,
                         std::uint64_t first, std::uint64_t step, std::int64_t packets, double rate,
                         const std::vector<int>& cores) {
    SyntheticOptions options{to_layout(layout), {}, first, step, packets, rate};
    for (const nb::bytes& head : heads) {
        const auto* data = static_cast<const std::uint8_t*>(head.data());
        options.heads.emplace_back(data, data + head.size());
    }
    std::vector<std::unique_ptr<Worker>> workers;
    workers.push_back(synthetic_worker("synthetic", options, sink));
    return new Source(std::move(workers), cores);
}

Source* pcap_source(Sink& sink, const std::string& path,
                    const std::optional<std::vector<std::tuple<nb::bytes, std::uint16_t>>>& ends, double speed,
                    std::int64_t loops, int threads, const std::shared_ptr<PcapCounts>& counts,
                    const std::vector<int>& cores) {
    PcapOptions options{path, !ends, {}, speed, loops, threads};
    if (ends)
        for (const auto& [address, port] : *ends) {
            const auto* data = static_cast<const std::uint8_t*>(address.data());
            options.ends.push_back({{data, data + address.size()}, port});
        }
    return new Source(pcap_workers(std::move(options), counts, sink), cores);
}

nb::dict counts_of(const PcapCounts& counts) {
    nb::dict d;
    const std::pair<const char*, const std::atomic<std::int64_t>*> values[] = {
        {"records", &counts.records},
        {"datagrams", &counts.datagrams},
        {"fragments", &counts.fragments},
        {"truncated", &counts.truncated},
        {"other", &counts.other},
        {"malformed", &counts.malformed},
        {"cut", &counts.cut},
    };
    for (const auto& [name, value] : values) d[name] = value->load(std::memory_order_relaxed);
    return d;
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
        d["interruptions"] = r.interruptions;
        d["discarded"] = r.discarded;
        list.append(d);
    }
    return list;
}

}  // namespace

void bind_sources(nb::module_& m) {
    using namespace nb::literals;
    nb::register_exception_translator([](const std::exception_ptr& p, void*) {
        try {
            std::rethrow_exception(p);
        } catch (const std::system_error& e) {
            PyObject* arguments = Py_BuildValue("(is)", e.code().value(), e.what());
            PyErr_SetObject(PyExc_OSError, arguments);
            Py_XDECREF(arguments);
        }
    });
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
    m.def("ring_source", &ring_source, "sink"_a, "interface"_a, "ports"_a, "block_bytes"_a, "blocks"_a, "threads"_a,
          "group"_a, "cores"_a, nb::keep_alive<0, 1>());
    nb::class_<PcapCounts>(m, "PcapCounts", "What became of the records of a capture.")
        .def(nb::init<>())
        .def_prop_ro("account", &counts_of)
        .def_prop_ro("bytes", [](const PcapCounts& c) { return c.bytes.load(std::memory_order_relaxed); });
    m.def("pcap_source", &pcap_source, "sink"_a, "path"_a, "ends"_a.none(), "speed"_a, "loops"_a, "threads"_a,
          "counts"_a, "cores"_a, nb::keep_alive<0, 1>());
    m.def("synthetic_source", &synthetic_source, "sink"_a, "layout"_a, "heads"_a, "first"_a, "step"_a, "packets"_a,
          "rate"_a, "cores"_a, nb::keep_alive<0, 1>());
}
