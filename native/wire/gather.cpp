// Packets of several recordings side by side, as one chunk of all inputs.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <tuple>
#include <vector>

namespace nb = nanobind;

namespace {

template <typename T, int dims>
using Array = nb::ndarray<T, nb::ndim<dims>, nb::c_contig, nb::device::cpu>;
using Rows = std::vector<std::size_t>;
// Packets (row, packet, byte), which of them are there (row, packet), rows to take, and rows where they are to lie.
using Source = std::tuple<Array<const std::uint8_t, 3>, Array<const std::uint8_t, 2>, Rows, Rows>;

void check(const Source& source, const Array<std::uint8_t, 3>& data) {
    const auto& [packets, there, from, to] = source;
    if (from.size() != to.size()) throw std::invalid_argument("as many rows to take as to write");
    for (std::size_t axis : {1, 2})
        if (packets.shape(axis) != data.shape(axis)) throw std::invalid_argument("packets of one number and size");
    if (there.shape(0) != packets.shape(0) || there.shape(1) != packets.shape(1))
        throw std::invalid_argument("a mark for each packet");
    for (std::size_t row : from)
        if (row >= packets.shape(0)) throw std::out_of_range("a row that is not there");
    for (std::size_t row : to)
        if (row >= data.shape(0)) throw std::out_of_range("a row beyond the chunk's");
}

// All in one call, without the interpreter's lock: a reader that asks for it after each row waits as often for threads
// that channelize.
void gather(const std::vector<Source>& sources, const Array<std::uint8_t, 3>& data,
            const Array<std::uint8_t, 2>& present) {
    if (present.shape(0) != data.shape(0) || present.shape(1) != data.shape(1))
        throw std::invalid_argument("a mark for each packet of the chunk");
    for (const Source& source : sources) check(source, data);
    const nb::gil_scoped_release unlocked;
    const std::size_t count = data.shape(1), bytes = data.shape(2);
    std::memset(present.data(), 0, present.size());
    for (const auto& [packets, there, from, to] : sources)
        for (std::size_t n = 0; n < from.size(); ++n) {
            const std::uint8_t* marks = there.data() + from[n] * count;
            std::uint8_t* own = present.data() + to[n] * count;
            for (std::size_t packet = 0; packet < count;) {
                std::size_t end = packet;
                while (end < count && marks[end]) own[end++] = 1;
                std::memcpy(data.data() + (to[n] * count + packet) * bytes,
                            packets.data() + (from[n] * count + packet) * bytes, (end - packet) * bytes);
                packet = end + (end < count);
            }
        }
    for (std::size_t packet = 0; packet < present.size(); ++packet)
        if (!present.data()[packet]) std::memset(data.data() + packet * bytes, 0, bytes);
}

}  // namespace

void bind_gather(nb::module_& m) {
    using namespace nb::literals;
    m.def("gather", &gather, "sources"_a, "data"_a, "present"_a,
          "Copy rows of packets that are there to rows of a chunk, of which the others become zeros.");
}
