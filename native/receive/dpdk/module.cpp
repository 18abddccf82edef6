// ryle.receive._dpdk: DPDK's devices, pools and threads. ryle.receive.dpdk says how they are used.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <rte_cycles.h>
#include <rte_version.h>

#include <cstring>
#include <tuple>

#include "eal.h"
#include "frame.h"
#include "pool.h"
#include "port.h"
#include "receive.h"
#include "send.h"
#include "transmit.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace ryle;
using namespace ryle::dpdk;

namespace {

using StampTuple =
    std::tuple<std::uint32_t, std::uint32_t, bool, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;

Stamper stamper(const nb::bytes& header, const std::vector<StampTuple>& stamps) {
    std::vector<Stamp> fields;
    for (const auto& [byte, bytes, big, start, step, every, modulo] : stamps)
        fields.push_back({byte, bytes, big, start, step, every, modulo});
    const auto* data = static_cast<const std::uint8_t*>(header.data());
    return Stamper({data, data + header.size()}, fields);
}

std::vector<std::span<const std::uint8_t>> views(const std::vector<nb::bytes>& frames) {
    std::vector<std::span<const std::uint8_t>> spans;
    for (const nb::bytes& f : frames) spans.emplace_back(static_cast<const std::uint8_t*>(f.data()), f.size());
    return spans;
}

// Write every buffer of a pool in the host's memory once, byte by byte of `contents`, over and over.
void fill(Pool& pool, nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> contents) {
    struct Context {
        const std::uint8_t* data;
        std::size_t size, at, room;
    } context{contents.data(), contents.size(), 0, pool.room()};
    if (context.size == 0) throw Error("nothing to fill the pool with");
    rte_mempool_obj_iter(
        pool.get(),
        [](rte_mempool*, void* opaque, void* object, unsigned) {
            auto& c = *static_cast<Context*>(opaque);
            auto* to = static_cast<std::uint8_t*>(static_cast<rte_mbuf*>(object)->buf_addr);
            for (std::size_t done = 0; done < c.room;) {
                const std::size_t n = std::min(c.room - done, c.size - c.at);
                std::memcpy(to + done, c.data + c.at, n);
                done += n;
                c.at = (c.at + n) % c.size;
            }
        },
        &context);
}

// What copying payloads costs at least: payload i goes from from[i] to to[i], `bytes` of each, over and over until
// `packets` have been copied by memcpy. Seconds.
double copy_seconds(nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> from,
                    nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> to, std::size_t bytes,
                    std::size_t packets) {
    if (from.size() == 0 || to.size() == 0) throw Error("nothing to copy");
    const std::uint64_t *f = from.data(), *t = to.data();
    const std::size_t sources = from.size(), targets = to.size();
    nb::gil_scoped_release release;
    const std::uint64_t began = rte_rdtsc();
    for (std::size_t i = 0, a = 0, b = 0; i < packets; ++i) {
        std::memcpy(reinterpret_cast<void*>(t[b]), reinterpret_cast<const void*>(f[a]), bytes);
        if (++a == sources) a = 0;
        if (++b == targets) b = 0;
    }
    return static_cast<double>(rte_rdtsc() - began) / static_cast<double>(rte_get_tsc_hz());
}

// Where the samples of a pool's buffers lie, `at` bytes behind their headroom, in the order in which it gives them out.
void order(Pool& pool, std::uint32_t at, nb::ndarray<std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> out) {
    std::vector<rte_mbuf*> all;
    while (all.size() < out.size()) {
        rte_mbuf* one = rte_pktmbuf_alloc(pool.get());
        if (!one) break;
        out.data()[all.size()] = reinterpret_cast<std::uint64_t>(rte_pktmbuf_mtod_offset(one, char*, at));
        all.push_back(one);
    }
    for (rte_mbuf* one : all) rte_pktmbuf_free(one);
    if (all.size() < out.size()) throw Error("the pool has fewer unused buffers than that");
}

nb::dict to_dict(const QueueCounts& c) {
    nb::dict d;
    d["cpu_seconds"] = c.cpu_seconds;
    d["wall_seconds"] = c.wall_seconds;
    d["packets"] = c.packets;
    d["bytes"] = c.bytes;
    d["foreign"] = c.foreign;
    d["malformed"] = c.malformed;
    d["starved"] = c.starved;
    d["delivered"] = c.delivered;
    d["polls"] = c.polls;
    d["empty"] = c.empty;
    d["discarded"] = c.discarded;
    d["busy"] = c.busy;
    return d;
}

void bind_environment(nb::module_& m) {
    nb::exception<Error>(m, "DpdkError", PyExc_RuntimeError);
    m.def("version", [] { return std::string(rte_version()); });
    m.def("start", &start, "arguments"_a, nb::call_guard<nb::gil_scoped_release>());
    m.def("started", &started);
    m.def(
        "stop",
        [] {
            Thread::stop_all();
            stop();
        },
        nb::call_guard<nb::gil_scoped_release>());
    m.def("log", &ryle::dpdk::log);
}

void bind_memory(nb::module_& m) {
    nb::class_<Pool>(m, "Pool")
        .def(
            "__init__",
            [](Pool* self, unsigned buffers, unsigned room, unsigned cache, std::uintptr_t address, std::size_t bytes,
               std::size_t page, unsigned payload_at, bool headroom, const nb::object&) {
                new (self) Pool(buffers, room, cache, Memory{address, bytes, page}, payload_at, headroom);
            },
            "buffers"_a, "room"_a, "cache"_a, "address"_a = 0, "bytes"_a = 0, "page"_a = 0, "payload_at"_a = 0,
            "headroom"_a = true, "owner"_a = nb::none(), nb::keep_alive<1, 9>(),
            "`owner` is what keeps the memory at `address`.")
        .def_prop_ro("buffers", &Pool::buffers)
        .def_prop_ro("stride", &Pool::stride)
        .def_prop_ro("room", &Pool::room)
        .def_prop_ro("available", &Pool::available);
    m.def("fill", &fill, "pool"_a, "contents"_a);
    m.def("copy_seconds", &copy_seconds, "source"_a, "target"_a, "bytes"_a, "packets"_a);
    m.def("order", &order, "pool"_a, "at"_a, "out"_a);
    m.def("memory_needed", &memory_needed, "buffers"_a, "room"_a, "payload_at"_a, "headroom"_a, "page"_a);
}

void bind_ports(nb::module_& m) {
    nb::class_<dpdk::Port>(m, "Port")
        .def(nb::init<const std::string&, std::vector<std::shared_ptr<Pool>>, std::vector<std::shared_ptr<Pool>>,
                      unsigned, unsigned, unsigned, unsigned, bool>(),
             "device"_a, "pools"_a, "header_pools"_a, "header_bytes"_a, "tx_queues"_a, "descriptors"_a, "mtu"_a,
             "promiscuous"_a, nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("driver", &dpdk::Port::driver)
        .def_prop_ro("address", &dpdk::Port::address)
        .def_prop_ro("up", &dpdk::Port::up)
        .def_prop_ro("checks", &dpdk::Port::checks)
        .def("steer", &dpdk::Port::steer, "ports"_a)
        .def("begin", &dpdk::Port::begin)
        .def("stats", [](const dpdk::Port& self) {
            const PortStats s = self.stats();
            nb::dict d;
            d["received"] = s.received;
            d["received_bytes"] = s.received_bytes;
            d["missed"] = s.missed;
            d["errors"] = s.errors;
            d["no_buffer"] = s.no_buffer;
            d["sent"] = s.sent;
            d["sent_bytes"] = s.sent_bytes;
            d["send_errors"] = s.send_errors;
            return d;
        });
}

void bind_receive(nb::module_& m) {
    m.def("read_headers", [](const nb::bytes& frame, std::uint32_t whole) {
        Datagram d{};
        const Frame kind = read_headers(static_cast<const std::uint8_t*>(frame.data()),
                                        static_cast<std::uint32_t>(frame.size()), whole, d);
        return std::tuple(static_cast<int>(kind), d.start, d.bytes, static_cast<int>(d.port));
    });

    nb::class_<Returns>(m, "Returns")
        .def(nb::init<std::vector<std::shared_ptr<Pool>>>(), "pools"_a)
        .def_prop_ro("waiting", &Returns::waiting)
        // For Assembler.on_give_back.
        .def_prop_ro("function", [](const Returns&) { return reinterpret_cast<std::uintptr_t>(&Returns::give_back); })
        .def_prop_ro("context", [](Returns& self) { return reinterpret_cast<std::uintptr_t>(&self); });

    nb::class_<Receiver>(m, "Receiver")
        .def(
            "__init__",
            [](Receiver* self, std::shared_ptr<dpdk::Port> port, std::vector<std::pair<unsigned, int>> queues,
               std::vector<std::uint16_t> udp_ports, std::uintptr_t sink, std::shared_ptr<Returns> returns,
               unsigned burst, const nb::object&) {
                new (self) Receiver(std::move(port), std::move(queues), std::move(udp_ports),
                                    reinterpret_cast<Sink*>(sink), std::move(returns), burst);
            },
            "port"_a, "queues"_a, "udp_ports"_a, "sink"_a, "returns"_a.none(), "burst"_a, "owner"_a,
            nb::keep_alive<1, 8>(), "`sink` is the address of a ryle::Sink, which `owner` keeps.")
        .def("start", &Receiver::start, nb::call_guard<nb::gil_scoped_release>())
        .def("ask", &Receiver::ask)
        .def("stop", &Receiver::stop, nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("running", &Receiver::running)
        .def("counts", [](const Receiver& self) {
            nb::list all;
            for (const QueueCounts& c : self.counts()) all.append(to_dict(c));
            return all;
        });
}

void bind_send(nb::module_& m) {
    m.def(
        "send",
        [](dpdk::Port& port, unsigned queue, Pool& pool, const std::vector<nb::bytes>& frames) {
            return dpdk::send(port, queue, pool, views(frames));
        },
        "port"_a, "queue"_a, "pool"_a, "frames"_a);

    nb::class_<SendPort, ryle::Port>(m, "SendPort", "The sender's way out; for ryle.receive._native.SendThreads.add.")
        .def(
            "__init__",
            [](SendPort* self, std::shared_ptr<dpdk::Port> port, unsigned queue, std::shared_ptr<Pool> pool,
               const std::vector<nb::bytes>& headers, std::uint32_t most_bytes, unsigned burst) {
                std::vector<std::vector<std::uint8_t>> table;
                for (const auto& view : views(headers)) table.emplace_back(view.begin(), view.end());
                new (self) SendPort(std::move(port), queue, std::move(pool), std::move(table), most_bytes, burst);
            },
            "port"_a, "queue"_a, "pool"_a, "headers"_a, "most_bytes"_a, "burst"_a);
}

// Packets that are made here: to try receivers, without a network too.
void bind_generators(nb::module_& m) {
    nb::class_<Generator>(m, "Generator")
        .def(
            "__init__",
            [](Generator* self, std::shared_ptr<dpdk::Port> port, unsigned queue, int core, std::shared_ptr<Pool> pool,
               const nb::bytes& header, const std::vector<StampTuple>& stamps, unsigned payload_bytes, double rate,
               std::uint64_t count, bool wait) {
                new (self) Generator(std::move(port), queue, core, std::move(pool), stamper(header, stamps),
                                     payload_bytes, rate, count, wait);
            },
            "port"_a, "queue"_a, "core"_a, "pool"_a, "header"_a, "stamps"_a, "payload_bytes"_a, "rate"_a, "count"_a,
            "wait"_a)
        .def("start", &Generator::start, nb::call_guard<nb::gil_scoped_release>())
        .def("stop", &Generator::stop, nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("running", &Generator::running)
        .def_prop_ro("sent", &Generator::sent)
        .def_prop_ro("dropped", &Generator::dropped);

    nb::class_<Emulation>(m, "Emulation")
        .def(
            "__init__",
            [](Emulation* self, std::shared_ptr<dpdk::Port> port, unsigned queue, std::shared_ptr<Pool> payloads,
               const nb::bytes& header, const std::vector<StampTuple>& stamps, unsigned payload_bytes, double rate,
               std::uint64_t count) {
                const unsigned split_at = payloads ? static_cast<unsigned>(header.size()) : 0;
                new (self) Emulation(std::move(port), queue, std::move(payloads), stamper(header, stamps), split_at,
                                     payload_bytes, rate, count);
            },
            "port"_a, "queue"_a, "payloads"_a.none(), "header"_a, "stamps"_a, "payload_bytes"_a, "rate"_a, "count"_a)
        .def_prop_ro("made", &Emulation::made)
        .def_prop_ro("no_buffer", &Emulation::no_buffer);
}

}  // namespace

NB_MODULE(_dpdk, m) {
    nb::set_leak_warnings(false);                  // the interpreter frees nothing at exit
    nb::module_::import_("ryle.receive._native");  // knows ryle::Port
    m.doc() = "DPDK: devices, packet buffers, receiving and sending threads";
    bind_environment(m);
    bind_memory(m);
    bind_ports(m);
    bind_receive(m);
    bind_send(m);
    bind_generators(m);
}
