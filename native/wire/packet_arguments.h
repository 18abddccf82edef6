// The three ways in which Python hands packets over.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "packets.h"

namespace ryle {

using Buffer = nanobind::ndarray<const std::uint8_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
using Rows = nanobind::ndarray<const std::uint8_t, nanobind::ndim<2>, nanobind::device::cpu>;
using Index = nanobind::ndarray<const std::int64_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

// Bytes objects must outlive their spans.
inline std::vector<Packet> from_bytes(const std::vector<nanobind::bytes>& packets) {
    std::vector<Packet> spans;
    spans.reserve(packets.size());
    for (const nanobind::bytes& p : packets) spans.emplace_back(static_cast<const std::uint8_t*>(p.data()), p.size());
    return spans;
}

inline std::vector<Packet> from_rows(const Rows& rows) {
    if (rows.shape(1) > 1 && rows.stride(1) != 1) throw std::invalid_argument("the bytes of a packet must be adjacent");
    std::vector<Packet> spans;
    spans.reserve(rows.shape(0));
    for (std::size_t i = 0; i < rows.shape(0); ++i)
        spans.emplace_back(rows.data() + static_cast<std::ptrdiff_t>(i) * rows.stride(0), rows.shape(1));
    return spans;
}

inline std::vector<Packet> from_buffer(const Buffer& buffer, const Index& starts, const Index& lengths) {
    if (starts.size() != lengths.size()) throw std::invalid_argument("starts and lengths must be equally long");
    std::vector<Packet> spans;
    spans.reserve(starts.size());
    for (std::size_t i = 0; i < starts.size(); ++i) {
        const std::int64_t start = starts.data()[i], length = lengths.data()[i];
        if (start < 0 || length < 0 || static_cast<std::uint64_t>(start) > buffer.size() ||
            static_cast<std::uint64_t>(length) > buffer.size() - static_cast<std::uint64_t>(start))
            throw std::out_of_range("a packet reaches beyond the buffer");
        spans.emplace_back(buffer.data() + start, static_cast<std::size_t>(length));
    }
    return spans;
}

}  // namespace ryle
