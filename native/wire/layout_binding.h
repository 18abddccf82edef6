// How Python hands a compiled description over: the tuple of ryle.wire.packets.compiled.
#pragma once
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <vector>

#include "packets.h"

namespace ryle {

using FieldTuple =
    std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, bool, std::uint64_t, std::uint64_t>;
using SumTuple = std::tuple<std::vector<std::tuple<std::uint32_t, std::uint64_t>>, std::int64_t>;
// header bytes, fields, trailers, sizes, bits, parts, code, msb first, stated length, timestamp, period, placement
using LayoutTuple =
    std::tuple<std::uint32_t, std::vector<FieldTuple>, std::vector<std::uint32_t>,
               std::vector<std::tuple<std::uint64_t, std::int32_t>>, std::uint32_t, std::uint32_t, std::uint32_t, bool,
               std::vector<SumTuple>, SumTuple, std::uint64_t, std::vector<SumTuple>>;

inline Sum to_sum(const SumTuple& given) {
    Sum sum;
    for (const auto& [field, factor] : std::get<0>(given)) sum.terms.push_back({field, factor});
    sum.add = std::get<1>(given);
    return sum;
}

// Throws std::invalid_argument as check() does.
inline PacketLayout to_layout(const LayoutTuple& given) {
    const auto& [header_bytes, fields, trailers, sizes, bits, parts, code, msb_first, length, timestamp, period,
                 placement] = given;
    PacketLayout layout;
    layout.header_bytes = header_bytes;
    for (const auto& [byte, bytes, shift, width, big, low, high] : fields)
        layout.fields.push_back({byte, bytes, shift, width, big, low, high});
    layout.trailers = trailers;
    for (const auto& [value, field] : sizes) layout.sizes.push_back({value, field});
    layout.bits = bits;
    layout.parts = parts;
    layout.code = code < kCodes ? static_cast<Code>(code) : kCodes;
    layout.msb_first = msb_first;
    layout.states_length = !length.empty();
    if (!length.empty()) layout.length = to_sum(length.front());
    layout.timestamp = to_sum(timestamp);
    layout.period = period;
    for (const SumTuple& sum : placement) layout.placement.push_back(to_sum(sum));
    check(layout);
    return layout;
}

}  // namespace ryle
