// Python's view of packets.h: a parser object, many packets a call.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "layout_binding.h"
#include "packet_arguments.h"
#include "packets.h"

namespace nb = nanobind;
using namespace ryle;

namespace {

template <typename T>
using Column = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Table = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

constexpr std::size_t kDetails = 5;  // field, expected, payload, bytes, offset

class PacketParser {
  public:
    explicit PacketParser(const LayoutTuple& layout) : layout_(to_layout(layout)) {}

    void parse(const std::vector<Packet>& packets, Table<std::uint64_t>& values, Column<std::uint8_t>& reasons,
               Table<std::int64_t>& details, Column<std::int64_t>& timestamps, Table<std::int64_t>& places) {
        const std::size_t n = packets.size(), fields = layout_.fields.size(), kinds = layout_.placement.size();
        if (values.shape(0) != n || values.shape(1) != fields || reasons.size() != n || details.shape(0) != n ||
            details.shape(1) != kDetails || timestamps.size() != n || places.shape(0) != n || places.shape(1) != kinds)
            throw std::invalid_argument("an output array has the wrong shape");
        for (std::size_t i = 0; i < n; ++i) {
            std::uint64_t* row = values.data() + i * fields;
            Verdict verdict = examine(layout_, packets[i], row);
            std::int64_t time = 0;
            if (verdict.reason == kValid) {
                // The first packet stands for itself: it is what later ones are unwrapped against.
                const std::uint64_t period = layout_.period;
                const std::int64_t first = static_cast<std::int64_t>(period ? verdict.count % period : 0);
                if (unwrap(verdict.count, period, started_ ? reference_ : first, time)) {
                    reference_ = time;
                    started_ = true;
                } else {
                    verdict.reason = kTimestamp;
                    time = 0;
                }
            }
            reasons.data()[i] = verdict.reason;
            const std::array<std::int64_t, kDetails> said{verdict.field, verdict.expected, verdict.payload,
                                                          verdict.bytes, static_cast<std::int64_t>(verdict.offset)};
            std::copy(said.begin(), said.end(), details.data() + i * kDetails);
            timestamps.data()[i] = time;
            for (std::size_t k = 0; k < kinds; ++k) {
                std::uint64_t place = static_cast<std::uint64_t>(layout_.placement[k].add);
                for (const Term& term : layout_.placement[k].terms) place += row[term.field] * term.factor;
                place /= layout_.placement[k].over;
                places.data()[i * kinds + k] = verdict.reason == kValid ? static_cast<std::int64_t>(place) : -1;
            }
        }
    }

    template <typename Out>
    void decode_into(const std::vector<Packet>& packets, Table<Out>& out) const {
        if (out.shape(0) != packets.size()) throw std::invalid_argument("the output needs one row a packet");
        std::vector<std::uint64_t> values(layout_.fields.size() + 1);
        for (std::size_t i = 0; i < packets.size(); ++i) {
            const Verdict verdict = examine(layout_, packets[i], values.data());
            if (verdict.reason != kValid || verdict.elements != out.shape(1))
                throw std::invalid_argument("packet " + std::to_string(i) + " is not valid or of another shape");
            decode(layout_, packets[i].subspan(verdict.payload, verdict.bytes), verdict.elements,
                   out.data() + i * out.shape(1));
        }
    }

    // Payloads of heaps, put together.
    template <typename Out>
    void decode_payloads(const std::vector<Packet>& payloads, Table<Out>& out) const {
        if (out.shape(0) != payloads.size()) throw std::invalid_argument("the output needs one row a payload");
        for (std::size_t i = 0; i < payloads.size(); ++i)
            decode(layout_, payloads[i], out.shape(1), out.data() + i * out.shape(1));
    }

    void set_reference(std::int64_t reference) {
        reference_ = reference;
        started_ = true;
    }
    void forget() { started_ = false; }

  private:
    PacketLayout layout_;
    std::int64_t reference_ = 0;
    bool started_ = false;
};

}  // namespace

void bind_packets(nb::module_& m) {
    using namespace nb::literals;
    using Parser = PacketParser;
    using V = Table<std::uint64_t>;
    using R = Column<std::uint8_t>;
    using D = Table<std::int64_t>;
    using T = Column<std::int64_t>;
    nb::class_<Parser>(m, "PacketParser", "A compiled packet description; see ryle.wire.packets.Parser.")
        .def(nb::init<const LayoutTuple&>(), "layout"_a)
        .def("parse_bytes", [](Parser& self, const std::vector<nb::bytes>& packets, V v, R r, D d, T t,
                               D p) { self.parse(from_bytes(packets), v, r, d, t, p); })
        .def("parse_rows", [](Parser& self, const Rows& rows, V v, R r, D d, T t,
                              D p) { self.parse(from_rows(rows), v, r, d, t, p); })
        .def("parse_buffer", [](Parser& self, const Buffer& buffer, const Index& starts, const Index& lengths, V v, R r,
                                D d, T t, D p) { self.parse(from_buffer(buffer, starts, lengths), v, r, d, t, p); })
        .def("decode_bytes", [](const Parser& self, const std::vector<nb::bytes>& packets,
                                Table<std::int8_t> out) { self.decode_into(from_bytes(packets), out); })
        .def("decode_bytes", [](const Parser& self, const std::vector<nb::bytes>& packets,
                                Table<std::int16_t> out) { self.decode_into(from_bytes(packets), out); })
        .def("decode_rows", [](const Parser& self, const Rows& rows,
                               Table<std::int8_t> out) { self.decode_into(from_rows(rows), out); })
        .def("decode_rows", [](const Parser& self, const Rows& rows,
                               Table<std::int16_t> out) { self.decode_into(from_rows(rows), out); })
        .def("decode_payloads", [](const Parser& self, const Rows& rows,
                                   Table<std::int8_t> out) { self.decode_payloads(from_rows(rows), out); })
        .def("decode_payloads", [](const Parser& self, const Rows& rows,
                                   Table<std::int16_t> out) { self.decode_payloads(from_rows(rows), out); })
        .def("set_reference", &Parser::set_reference)
        .def("forget", &Parser::forget);
}
