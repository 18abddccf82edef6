// Python's view of the sender: plans, sources, ports, threads.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>

#include "datagrams.h"
#include "faults.h"
#include "socket.h"
#include "threads.h"
#include "wire/layout_binding.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace ryle;

namespace {

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Counts = nb::ndarray<std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
// index, header, identity, lag, turn, turns
using StreamTuple = std::tuple<std::uint32_t, nb::bytes, std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t>;
using RouteTuple = std::tuple<std::string, std::uint16_t, std::string, std::uint16_t>;

std::vector<StreamPlan> to_streams(const std::vector<StreamTuple>& given) {
    std::vector<StreamPlan> streams;
    for (const auto& [index, header, identity, lag, turn, turns] : given) {
        const auto* data = static_cast<const std::uint8_t*>(header.data());
        streams.push_back({index, {data, data + header.size()}, identity, lag, turn, turns});
    }
    return streams;
}

template <typename T>
std::vector<T> copy(const Column<T>& column) {
    return {column.data(), column.data() + column.size()};
}

// Rows of a source's streams in an array of shape (streams, kFates + 2): fates, packets and bytes handed to the port.
void counts_into(const PacketSource& source, Counts& out) {
    if (out.shape(0) != source.streams().size() || out.shape(1) != kFates + 2)
        throw std::invalid_argument("the output needs a row for each stream");
    for (std::size_t at = 0; at < source.streams().size(); ++at) {
        std::int64_t* row = out.data() + at * (kFates + 2);
        const StreamCounts& counts = source.counts(at);
        for (std::size_t f = 0; f < kFates; ++f) row[f] = counts.fates[f].get();
        row[kFates] = counts.packets.get();
        row[kFates + 1] = counts.bytes.get();
    }
}

nb::list events_of(const PacketSource& source) {
    nb::list events;
    for (const Event& e : source.events())
        events.append(nb::make_tuple(static_cast<std::uint32_t>(e.fate), e.stream, e.packet, e.timestamp, e.detail));
    return events;
}

nb::dict part_of(const SendThreads::Part& part) {
    nb::dict d;
    d["packets"] = part.port->counts.packets.get();
    d["bytes"] = part.port->counts.bytes.get();
    d["calls"] = part.port->counts.calls.get();
    d["full"] = part.port->counts.full.get();
    d["unreachable"] = part.port->counts.unreachable.get();
    d["behind_ns"] = part.loop.behind_ns.get();
    d["most_behind_ns"] = part.loop.most_behind_ns.get();
    d["waited_ns"] = part.loop.waited_ns.get();
    d["finished_ns"] = part.loop.finished_ns.get();
    return d;
}

Faults to_faults(double loss, double duplicate, double reorder, double corrupt, double truncate, double foreign,
                 std::uint32_t distance, std::uint64_t seed) {
    return {loss, duplicate, reorder, corrupt, truncate, foreign, distance, seed};
}

nb::tuple taken(Datagrams&& made) {
    const auto array = [](auto&& from) {
        using T = typename std::decay_t<decltype(from)>::value_type;
        auto* kept = new std::vector<T>(std::move(from));
        const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
        return nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner);
    };
    return nb::make_tuple(array(std::move(made.bytes)), array(std::move(made.lengths)), array(std::move(made.tags)));
}

void bind_datagrams(nb::module_& m) {
    using Rows = nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
    nb::class_<Injector>(m, "Injector", "Faults on the way of packets that were made elsewhere; see faults.h.")
        .def(
            "__init__",
            [](Injector* self, const Faults& faults, std::uint32_t streams, const LayoutTuple& layout) {
                new (self) Injector(faults, streams, to_layout(layout));
            },
            "faults"_a, "streams"_a, "layout"_a)
        .def(
            "handle",
            [](Injector& self, const Rows& packets, const Column<std::uint32_t>& streams,
               const Column<std::uint32_t>& tags) {
                if (streams.size() != packets.shape(0) || tags.size() != packets.shape(0))
                    throw std::invalid_argument("every packet needs a stream and a tag");
                Datagrams out;
                for (std::size_t i = 0; i < packets.shape(0); ++i)
                    self.pass(streams.data()[i], tags.data()[i],
                              Packet(packets.data() + i * packets.shape(1), packets.shape(1)), out);
                return taken(std::move(out));
            },
            "packets"_a, "streams"_a, "tags"_a,
            "What leaves when these packets, shape (packet, bytes), pass: bytes one behind the other, lengths, tags.")
        .def("flush",
             [](Injector& self) {
                 Datagrams out;
                 self.flush(out);
                 return taken(std::move(out));
             })
        .def("counts", [](const Injector& self) {  // fates of all streams together, then packets and bytes that left
            std::vector<std::int64_t> sums(kFates + 2);
            for (const StreamCounts& counts : self.counts()) {
                for (std::size_t f = 0; f < kFates; ++f) sums[f] += counts.fates[f].get();
                sums[kFates] += counts.packets.get();
                sums[kFates + 1] += counts.bytes.get();
            }
            return sums;
        });
    m.def(
        "send_datagrams",
        [](int socket, const std::vector<std::pair<std::string, std::uint16_t>>& endpoints, const Bytes& bytes,
           const Column<std::uint32_t>& lengths, const Column<std::uint32_t>& to) {
            const std::vector<sockaddr_storage> table = addresses(endpoints);
            try {
                const nb::gil_scoped_release unlocked;
                send_datagrams(socket, table, {bytes.data(), bytes.size()}, {lengths.data(), lengths.size()},
                               {to.data(), to.size()});
            } catch (const std::system_error& error) {
                PyErr_SetObject(PyExc_OSError, nb::make_tuple(error.code().value(), nb::str(error.what())).ptr());
                throw nb::python_error();
            }
        },
        "socket"_a, "endpoints"_a, "bytes"_a, "lengths"_a, "to"_a,
        "Send datagrams that lie one behind the other, each to the endpoint of its number.");
}

void bind_payload(nb::module_& m) {
    m.def(
        "fill_payload",
        [](std::uint32_t filling, std::uint64_t seed, std::uint64_t stream, std::uint64_t packet,
           nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> out, std::size_t from) {
            if (filling > 2) throw std::invalid_argument("unknown filling");
            if (from % 8) throw std::invalid_argument("payloads are written from a whole 64-bit word on");
            fill_payload(static_cast<Filling>(filling), seed, stream, packet, out.data(), out.size(), from);
        },
        "filling"_a, "seed"_a, "stream"_a, "packet"_a, "out"_a, "from_byte"_a = 0,
        "Write a payload as a sender does, or its part from a byte on.");
    m.def(
        "payload_differs",
        [](std::uint32_t filling, std::uint64_t seed, std::uint64_t stream, std::uint64_t packet, Bytes payload) {
            if (filling > 2) throw std::invalid_argument("unknown filling");
            return payload_differs(static_cast<Filling>(filling), seed, stream, packet, payload.data(), payload.size());
        },
        "filling"_a, "seed"_a, "stream"_a, "packet"_a, "payload"_a,
        "First byte of a payload that is not as a sender wrote it; its length if all are.");
}

void bind_sources(nb::module_& m) {
    nb::class_<Faults>(m, "Faults", "Shares of packets that suffer a fault.")
        .def(
            "__init__",
            [](Faults* self, double loss, double duplicate, double reorder, double corrupt, double truncate,
               double foreign, std::uint32_t distance, std::uint64_t seed) {
                new (self) Faults(to_faults(loss, duplicate, reorder, corrupt, truncate, foreign, distance, seed));
            },
            "loss"_a = 0.0, "duplicate"_a = 0.0, "reorder"_a = 0.0, "corrupt"_a = 0.0, "truncate"_a = 0.0,
            "foreign"_a = 0.0, "distance"_a = 1, "seed"_a = 0);
    nb::class_<FormatPlan>(m, "FormatPlan", "What all streams of a format share; see send_maker.h.")
        .def(
            "__init__",
            [](FormatPlan* self, const LayoutTuple& layout, std::vector<std::uint32_t> stream_fields,
               const LayoutTuple& wire, std::vector<std::uint32_t> wire_fields, std::uint64_t first, std::uint64_t step,
               std::uint32_t payload_bytes, std::uint32_t trailer_bytes, std::uint32_t part_bytes,
               std::int32_t number_field, std::uint32_t filling, std::uint64_t seed, std::uint64_t packets,
               std::uint32_t burst, double rate, std::uint64_t jump_at, std::int64_t jump, std::uint64_t restart_at,
               std::vector<std::vector<std::uint64_t>> heads, const Faults& faults) {
                if (filling > 2) throw std::invalid_argument("unknown filling");
                new (self) FormatPlan{to_layout(layout),
                                      std::move(stream_fields),
                                      to_layout(wire),
                                      std::move(wire_fields),
                                      first,
                                      step,
                                      payload_bytes,
                                      trailer_bytes,
                                      part_bytes,
                                      number_field,
                                      static_cast<Filling>(filling),
                                      seed,
                                      packets,
                                      burst,
                                      rate,
                                      jump_at,
                                      jump,
                                      restart_at,
                                      std::move(heads),
                                      faults};
            },
            "layout"_a, "stream_fields"_a, "wire"_a, "wire_fields"_a, "first"_a, "step"_a, "payload_bytes"_a,
            "trailer_bytes"_a, "part_bytes"_a, "number_field"_a, "filling"_a, "seed"_a, "packets"_a, "burst"_a,
            "rate"_a, "jump_at"_a, "jump"_a, "restart_at"_a, "heads"_a, "faults"_a);
    nb::class_<PacketSource>(m, "PacketSource", "Packets of some streams, one after the other; see send_maker.h.")
        .def_prop_ro("streams", &PacketSource::streams)
        .def_prop_ro("most_bytes", &PacketSource::most_bytes)
        .def_prop_ro("events", &events_of)
        .def_prop_ro("events_total", &PacketSource::events_total)
        .def("counts_into", &counts_into, "out"_a)
        .def("due", [](PacketSource& self) { return self.due() == kNothingLeft ? -1 : self.due(); })
        .def("make", [](PacketSource& self) {
            if (self.due() == kNothingLeft) throw nb::stop_iteration();
            std::vector<std::uint8_t> bytes(self.most_bytes());
            const Made made = self.make(bytes.data());
            return nb::make_tuple(nb::bytes(bytes.data(), made.bytes), made.stream, made.due);
        });
    nb::class_<PacketMaker, PacketSource>(m, "PacketMaker", "Packets of a described format.")
        .def(
            "__init__",
            [](PacketMaker* self, const FormatPlan& plan, const std::vector<StreamTuple>& streams) {
                new (self) PacketMaker(std::make_shared<const FormatPlan>(plan), to_streams(streams));
            },
            "plan"_a, "streams"_a);
    nb::class_<PacketReplay, PacketSource>(m, "PacketReplay", "Datagrams of a capture.")
        .def(
            "__init__",
            [](PacketReplay* self, const Bytes& file, const Column<std::uint64_t>& starts,
               const Column<std::uint32_t>& lengths, const Column<std::uint32_t>& streams_of,
               const Column<std::int64_t>& dues, std::vector<std::uint32_t> streams, const Faults& faults) {
                auto recording = std::make_shared<Recording>();
                recording->file = file.data();
                recording->starts = copy(starts);
                recording->lengths = copy(lengths);
                recording->streams = copy(streams_of);
                recording->dues = copy(dues);
                for (std::size_t d = 0; d < std::min(starts.size(), lengths.size()); ++d)
                    if (starts.data()[d] > file.size() || lengths.data()[d] > file.size() - starts.data()[d])
                        throw std::out_of_range("a datagram reaches beyond the file");
                new (self) PacketReplay(std::move(recording), std::move(streams), faults);
            },
            "file"_a, "starts"_a, "lengths"_a, "streams_of"_a, "dues"_a, "streams"_a, "faults"_a,
            nb::keep_alive<1, 2>());
}

}  // namespace

void bind_send(nb::module_& m) {
    bind_payload(m);
    bind_sources(m);
    bind_datagrams(m);
    nb::class_<Port>(m, "Port", "Where packets go; see send_port.h.");
    nb::class_<SocketPort, Port>(m, "SocketPort", "UDP sockets.")
        .def(
            "__init__",
            [](SocketPort* self, const std::vector<RouteTuple>& routes, std::uint32_t most_bytes, std::uint32_t burst,
               bool segment, bool departure, std::uint32_t buffer, std::uint32_t ttl) {
                std::vector<Route> table;
                for (const auto& [to, to_port, from, from_port] : routes)
                    table.push_back({to, to_port, from, from_port});
                try {
                    new (self) SocketPort(std::move(table), {most_bytes, burst, segment, departure, buffer, ttl});
                } catch (const std::system_error& error) {
                    errno = error.code().value();
                    PyErr_SetObject(PyExc_OSError, nb::make_tuple(error.code().value(), nb::str(error.what())).ptr());
                    throw nb::python_error();
                }
            },
            "routes"_a, "most_bytes"_a, "burst"_a, "segment"_a, "departure"_a, "buffer"_a, "ttl"_a)
        .def_prop_ro("segments", &SocketPort::segments);
    nb::class_<SendThreads>(m, "SendThreads", "Senders side by side, a thread each.")
        .def(nb::init<>())
        .def("add", &SendThreads::add, "source"_a, "port"_a, "core"_a, "realtime"_a = false)
        .def("start", &SendThreads::start, "seconds"_a)
        .def("stop", &SendThreads::stop)
        .def_prop_ro("running", &SendThreads::running)
        .def("join", &SendThreads::join, nb::call_guard<nb::gil_scoped_release>())
        .def("parts",
             [](const SendThreads& self) {
                 nb::list parts;
                 for (const auto& part : self.parts()) parts.append(part_of(*part));
                 return parts;
             })
        .def("error",
             [](const SendThreads& self) {  // of the first that failed; only after join
                 for (const auto& part : self.parts())
                     if (part->error) return nb::make_tuple(part->error, part->message);
                 return nb::make_tuple(0, "");
             })
        .def_prop_ro("elapsed", [](const SendThreads& self) {
            return self.started() ? static_cast<double>(now_ns() - self.started()) * 1e-9 : 0.0;
        });
}
