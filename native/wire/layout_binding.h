// How Python hands a compiled description over: the tuple of ryle.wire.packets.compiled.
#pragma once
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <vector>

#include "packets.h"

namespace ryle {

// byte, bytes, shift, width, big-endian, low, high, item, value without the item
using FieldTuple = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, bool, std::uint64_t,
                              std::uint64_t, std::int32_t, std::uint64_t>;
// key, control, value that ends the stream
using ItemTuple = std::tuple<std::uint16_t, bool, std::uint64_t>;
// terms, constant, divisor
using SumTuple = std::tuple<std::vector<std::tuple<std::uint32_t, std::uint64_t>>, std::int64_t, std::uint64_t>;
// length, if stated; offset, bytes, unit, whole
using HeapTuple = std::tuple<std::vector<SumTuple>, SumTuple, SumTuple, std::uint64_t, bool>;
// header bytes, fields, count field, items, trailers, sizes, heap, if any; bits, parts, code, msb first, stated length,
// timestamp, period, placement
using LayoutTuple = std::tuple<std::uint32_t, std::vector<FieldTuple>, std::int32_t, std::vector<ItemTuple>,
                               std::vector<std::uint32_t>, std::vector<std::tuple<std::uint64_t, std::int32_t>>,
                               std::vector<HeapTuple>, std::uint32_t, std::uint32_t, std::uint32_t, bool,
                               std::vector<SumTuple>, SumTuple, std::uint64_t, std::vector<SumTuple>>;

inline Sum to_sum(const SumTuple& given) {
    Sum sum;
    for (const auto& [field, factor] : std::get<0>(given)) sum.terms.push_back({field, factor});
    sum.add = std::get<1>(given);
    sum.over = std::get<2>(given);
    return sum;
}

// Throws std::invalid_argument as check() does.
inline PacketLayout to_layout(const LayoutTuple& given) {
    const auto& [header_bytes, fields, count_field, items, trailers, sizes, heap, bits, parts, code, msb_first, length,
                 timestamp, period, placement] = given;
    PacketLayout layout;
    layout.header_bytes = header_bytes;
    for (const auto& [byte, bytes, shift, width, big, low, high, item, otherwise] : fields)
        layout.fields.push_back({byte, bytes, shift, width, big, low, high, item, otherwise});
    layout.count_field = count_field;
    for (const auto& [key, control, stop] : items) layout.items.push_back({key, control, stop});
    layout.trailers = trailers;
    for (const auto& [value, field] : sizes) layout.sizes.push_back({value, field});
    layout.heaps = !heap.empty();
    if (layout.heaps) {
        const auto& [heap_length, offset, part_bytes, unit, whole] = heap.front();
        layout.heap = {!heap_length.empty(), {}, to_sum(offset), to_sum(part_bytes), unit, whole};
        if (!heap_length.empty()) layout.heap.length = to_sum(heap_length.front());
    }
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
