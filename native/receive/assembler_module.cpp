// Python's view of the assembler: see ryle.receive.assembly.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>

#include "assembler.h"
#include "wire/layout_binding.h"
#include "wire/packet_arguments.h"

namespace nb = nanobind;
using namespace ryle;

namespace {

using Memory = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::chrono::nanoseconds seconds(double s) {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(std::max(s, 0.0), 1e9) * 1e9));
}

// `times`: when each arrived, ns since 1970; unknown if not given. `sender`: of all.
void take(Sink& sink, const std::vector<Packet>& packets, std::uint32_t port, const std::optional<Index>& times,
          std::uint64_t sender = 0) {
    if (times && times->size() != packets.size()) throw std::invalid_argument("give one time a packet");
    std::vector<Arrival> arrivals;
    arrivals.reserve(packets.size());
    for (const Packet& p : packets)
        arrivals.push_back({p.data(), static_cast<std::uint32_t>(p.size()), port, nullptr, nullptr,
                            times ? times->data()[arrivals.size()] : 0, sender});
    const nb::gil_scoped_release released;
    sink.take(arrivals);
}

// Packets by address, as a driver has them: pointer mode can only be tried with them.
void take_at(Sink& sink, const std::vector<std::uintptr_t>& data, const std::vector<std::uint32_t>& sizes,
             const std::vector<std::uintptr_t>& payloads, const std::vector<std::uintptr_t>& buffers) {
    if (sizes.size() != data.size() || payloads.size() != data.size() || buffers.size() != data.size())
        throw std::invalid_argument("give one number of each kind a packet");
    std::vector<Arrival> arrivals;
    for (std::size_t i = 0; i < data.size(); ++i)
        arrivals.push_back({reinterpret_cast<const std::uint8_t*>(data[i]), sizes[i], 0,
                            reinterpret_cast<const std::uint8_t*>(payloads[i]), reinterpret_cast<void*>(buffers[i])});
    const nb::gil_scoped_release released;
    sink.take(arrivals);
}

// A chunk that Python holds: what to release it by (-1: none), its place in the ring, number, epoch, timestamp, placed.
using Taken = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

class PyAssembler : public Assembler {
  public:
    PyAssembler(Plan plan, std::optional<Memory> memory)
        : Assembler(std::move(plan), memory ? memory->data() : nullptr), given_(std::move(memory)) {}
    Taken next_chunk(double timeout) {
        Chunk* chunk;
        {
            const nb::gil_scoped_release released;
            chunk = next(seconds(timeout));
        }
        if (chunk == nullptr) return {-1, 0, 0, 0, 0, 0};
        if (unused_.empty()) {
            unused_.push_back(static_cast<std::int64_t>(held_.size()));
            held_.push_back(nullptr);
        }
        const std::int64_t handle = unused_.back();
        unused_.pop_back();
        held_[handle] = chunk;
        return {handle, slot_of(*chunk), chunk->number, chunk->epoch, chunk->timestamp, chunk->placed};
    }
    void release_chunk(std::int64_t handle) {
        if (handle < 0 || handle >= static_cast<std::int64_t>(held_.size()) || held_[handle] == nullptr)
            throw std::invalid_argument("this chunk is not held");
        Chunk* chunk = held_[handle];
        held_[handle] = nullptr;
        unused_.push_back(handle);
        const nb::gil_scoped_release released;
        release(chunk);
    }
    // The number of the ring's chunks for all that are void.
    std::int64_t slot_of(const Chunk& chunk) const { return (chunk.present - memory().data()) / slot_bytes(); }
    std::int64_t slot_bytes() const { return ryle::slot_bytes(plan()); }

  private:
    std::optional<Memory> given_;  // keeps it alive
    std::vector<Chunk*> held_;     // under the GIL
    std::vector<std::int64_t> unused_;
};

nb::dict counts_of(const Assembler& assembler) {
    const Counts c = assembler.counts();
    nb::dict d;
    const std::pair<const char*, std::int64_t> values[] = {
        {"received", c.received},     {"placed", c.placed},       {"late", c.late},
        {"duplicate", c.duplicate},   {"malformed", c.malformed}, {"foreign", c.foreign},
        {"missing", c.missing},       {"ring_full", c.ring_full}, {"chunks", c.chunks},
        {"resyncs", c.resyncs},       {"open", c.open},           {"ready", c.ready},
        {"taken", c.taken},           {"free", c.free},           {"first_loss", c.first_loss},
        {"voids", c.voids},           {"lacking", c.lacking},     {"part_offset", c.part_offset},
        {"part_bytes", c.part_bytes},
    };
    for (const auto& [name, value] : values) d[name] = value;
    d["faults"] = std::vector<std::int64_t>(c.faults.begin(), c.faults.end());
    return d;
}

}  // namespace

void bind_assembler(nb::module_& m) {
    using namespace nb::literals;
    nb::class_<Sink>(m, "Sink", "What a source hands packets to.")
        .def_prop_ro(
            "address", [](Sink& s) { return reinterpret_cast<std::uintptr_t>(&s); }, "The ryle::Sink* (sink.h).")
        .def(
            "sender",
            [](const Sink& s, const nb::bytes& address, std::uint16_t port) -> std::uint64_t {
                if (address.size() != 4 && address.size() != 16)
                    throw std::invalid_argument("an address has 4 or 16 bytes");
                const auto* at = static_cast<const std::uint8_t*>(address.data());
                return s.senders() == nullptr ? 0 : s.senders()->key(at, address.size(), port);
            },
            "address"_a, "port"_a, "What sources say of who sent a packet.")
        .def(
            "take_bytes",
            [](Sink& s, const std::vector<nb::bytes>& packets, std::uint32_t port, const std::optional<Index>& times,
               std::uint64_t sender) { take(s, from_bytes(packets), port, times, sender); },
            "packets"_a, "port"_a, "times"_a = nb::none(), "sender"_a = 0)
        .def(
            "take_rows",
            [](Sink& s, const Rows& packets, std::uint32_t port, const std::optional<Index>& times) {
                take(s, from_rows(packets), port, times);
            },
            "packets"_a, "port"_a, "times"_a = nb::none())
        .def(
            "take_buffer",
            [](Sink& s, const Buffer& buffer, const Index& starts, const Index& lengths, std::uint32_t port,
               const std::optional<Index>& times) { take(s, from_buffer(buffer, starts, lengths), port, times); },
            "buffer"_a, "starts"_a, "lengths"_a, "port"_a, "times"_a = nb::none())
        .def("take_at", &take_at, "data"_a, "sizes"_a, "payloads"_a, "buffers"_a)
        .def("idle", &Sink::idle, "now"_a, nb::call_guard<nb::gil_scoped_release>());
    nb::class_<Discard, Sink>(m, "Discard", "Counts packets and forgets them.")
        .def(nb::init<>())
        .def_prop_ro("packets", &Discard::packets)
        .def_prop_ro("bytes", &Discard::bytes)
        .def_prop_ro("first", &Discard::first)
        .def_prop_ro("last", &Discard::last);

    nb::class_<Plan>(m, "Plan", "Compiled form of ryle.receive.assembly.Plan; it is checked when it is used.")
        .def(nb::init<>())
        .def("set_layout", [](Plan& plan, const LayoutTuple& layout) { plan.layout = to_layout(layout); })
        .def_rw("key_fields", &Plan::key_fields)
        .def_rw("key_port", &Plan::key_port)
        .def_rw("heads", &Plan::heads)
        .def_rw("notes", &Plan::notes)
        .def_rw("step", &Plan::step)
        .def_rw("origin", &Plan::origin)
        .def_rw("any_phase", &Plan::any_phase)
        .def_rw("packets", &Plan::packets)
        .def_rw("window", &Plan::window)
        .def_rw("skew", &Plan::skew)
        .def_rw("outage", &Plan::outage)
        .def_rw("slots", &Plan::slots)
        .def_rw("data_bytes", &Plan::data_bytes)
        .def_rw("offsets", &Plan::offsets)
        .def_rw("stride", &Plan::stride)
        .def_rw("run_bytes", &Plan::run_bytes)
        .def_rw("pointers", &Plan::pointers)
        .def_rw("waits", &Plan::waits)
        .def_rw("rate", &Plan::rate)
        .def_rw("one_sender", &Plan::one_sender)
        .def("add_loop", [](Plan& p, std::int64_t count, std::int64_t from,
                            std::int64_t to) { p.loops.push_back({count, from, to}); })
        .def("add_sender",
             [](Plan& p, const nb::bytes& address, unsigned bits, std::uint16_t port) {
                 if (address.size() != 16 || bits > 128)
                     throw std::invalid_argument("an address has 16 bytes, and at most 128 bits of them count");
                 Network& network = p.senders.allowed.emplace_back();
                 std::memcpy(network.address.data(), address.data(), 16);
                 network.bits = bits, network.port = port;
             })
        .def("add_part", [](Plan& p, std::int64_t offset, std::int64_t bytes, std::int64_t place,
                            bool optional) { p.parts.push_back({offset, bytes, place, optional}); })
        .def_prop_rw(
            "linger", [](const Plan& p) { return std::chrono::duration<double>(p.linger).count(); },
            [](Plan& p, double s) { p.linger = seconds(s); })
        .def_prop_rw(
            "silence", [](const Plan& p) { return std::chrono::duration<double>(p.silence).count(); },
            [](Plan& p, double s) { p.silence = seconds(s); })
        .def_prop_ro("memory_bytes", [](const Plan& plan) { return Assembler::memory_bytes(plan); })
        .def_prop_ro("marks_at", &body_bytes, "Byte of a chunk's memory at which its marks begin.")
        .def_prop_ro("notes_at", [](const Plan& p) { return body_bytes(p) + page_aligned(marks(p)); });

    nb::class_<PyAssembler, Sink>(m, "Assembler", "See ryle.receive.assembly.Assembler.")
        .def(
            "__init__",
            [](PyAssembler* self, const Plan& plan, std::optional<Memory> memory) {
                if (memory && (memory->size() < Assembler::memory_bytes(plan) ||
                               reinterpret_cast<std::uintptr_t>(memory->data()) % 4096 != 0))
                    throw std::invalid_argument(
                        "memory must be as long as the plan says and begin on a 4096-byte page");
                new (self) PyAssembler(plan, std::move(memory));
            },
            "plan"_a, "memory"_a.none())
        .def_prop_ro("memory",
                     [](nb::object self) {
                         const auto& a = nb::cast<const PyAssembler&>(self);
                         return nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>(a.memory().data(),
                                                                                  {a.memory().bytes()}, self);
                     })
        .def_prop_ro("page_bytes", [](const PyAssembler& a) { return a.memory().page_bytes(); })
        .def_prop_ro("slot_bytes", &PyAssembler::slot_bytes)
        .def_prop_ro("open_most", &Assembler::open_most)
        .def("next", &PyAssembler::next_chunk, "timeout"_a)
        .def("release", &PyAssembler::release_chunk, "handle"_a)
        .def("flush", &Assembler::flush, nb::call_guard<nb::gil_scoped_release>())
        .def("finish", &Assembler::finish, nb::call_guard<nb::gil_scoped_release>())
        .def("stop_waiting", &Assembler::stop_waiting, nb::call_guard<nb::gil_scoped_release>())
        .def("reopen", &Assembler::reopen, nb::call_guard<nb::gil_scoped_release>())
        .def("ended", &Assembler::ended, nb::call_guard<nb::gil_scoped_release>())
        .def(
            "on_give_back",
            [](PyAssembler& a, std::uintptr_t function, std::uintptr_t context) {
                a.on_give_back(reinterpret_cast<Assembler::GiveBack>(function), reinterpret_cast<void*>(context));
            },
            "function"_a, "context"_a)
        .def("counts", [](const PyAssembler& a) { return counts_of(a); })
        .def(
            "head_counts",
            [](const PyAssembler& a, nb::ndarray<std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) {
                static_assert(sizeof(HeadCounts) == 6 * sizeof(std::int64_t));
                if (out.shape(0) != a.plan().heads.size() || out.shape(1) != 6)
                    throw std::invalid_argument("out must have one row of 6 a head");
                a.head_counts({reinterpret_cast<HeadCounts*>(out.data()), out.shape(0)});
            },
            "out"_a);
}
