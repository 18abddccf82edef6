// VDIF payloads to packed big-endian float32, one channel of one thread at a time.
//
// A frame's samples land at any sample of the output row, so that files with different starts, frame lengths and clock
// offsets line up without a second copy.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace nb = nanobind;

namespace {

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Words = nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Index = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Row = nb::ndarray<std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::uint32_t big_endian(float value) {
    std::uint32_t word = std::bit_cast<std::uint32_t>(value);
    if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap32(word);
    return word;
}

std::uint32_t little_endian_word(const std::uint8_t* p) {
    return std::uint32_t{p[0]} | std::uint32_t{p[1]} << 8 | std::uint32_t{p[2]} << 16 | std::uint32_t{p[3]} << 24;
}

// Where the elements (a real value, or one part of a complex one) of one channel lie in a payload.
struct Layout {
    unsigned bits, parts;    // bits an element; 1 real, 2 complex
    std::uint64_t channels;  // channels interleaved in the frame
    std::uint64_t channel;   // the one wanted
    std::uint64_t per_word;  // elements in a 32-bit word: elements never cross words
    std::uint64_t first_element(std::uint64_t sample) const { return (sample * channels + channel) * parts; }
};

// Any layout, an element at a time: ends of runs, and widths that do not divide a byte.
template <typename Value>
void decode_elements(const std::uint8_t* payload, const Layout& at, std::uint64_t first, std::uint64_t count,
                     std::uint32_t* out, Value value) {
    const std::uint32_t mask = at.bits == 32 ? ~0u : (1u << at.bits) - 1;
    const std::uint64_t step = (at.channels - 1) * at.parts;
    std::uint64_t element = at.first_element(first);
    std::uint64_t word = element / at.per_word, slot = element % at.per_word;
    for (std::uint64_t i = 0; i < count; ++i) {
        for (unsigned part = 0; part < at.parts; ++part) {
            *out++ = value(little_endian_word(payload + 4 * word) >> (slot * at.bits) & mask);
            if (++slot == at.per_word) slot = 0, ++word;
        }
        slot += step;
        if (slot >= at.per_word) word += slot / at.per_word, slot %= at.per_word;
    }
}

// Each byte holds `values` elements of the wanted channel: take `run` bytes, skip to `stride`, repeat.
template <unsigned values>
void decode_bytes(const std::uint8_t* p, std::uint64_t run, std::uint64_t stride, std::uint64_t steps,
                  const std::uint32_t* table, std::uint32_t* out) {
    if (run == stride) steps *= run, run = stride = 1;
    for (std::uint64_t i = 0; i < steps; ++i, p += stride)
        for (std::uint64_t j = 0; j < run; ++j, out += values)
            std::memcpy(out, table + std::size_t{p[j]} * values, 4 * values);
}

// Which frames to decode, and to where: of frame f, whose payload begins at byte payloads[f] of the file, counts[f]
// samples from sample firsts[f] on go to sample destinations[f] of the row.
struct Frames {
    Index payloads, firsts, counts, destinations;
};

Layout layout_of(unsigned bits, bool complex_data, unsigned channels, unsigned channel) {
    if (bits < 1 || bits > 32 || channels < 1 || channel >= channels)
        throw std::invalid_argument("bits must be 1 to 32 and channel must be below channels");
    const unsigned parts = complex_data ? 2 : 1;
    const bool power_of_two = std::has_single_bit(bits);
    if (channels > 1 && !(power_of_two && std::has_single_bit(channels)))
        throw std::invalid_argument("several channels in a frame need bits and channels that are powers of two");
    const std::uint64_t per_word = power_of_two || parts == 1 ? 32 / bits : bits > 16 ? 1 : 2 * (32 / (2 * bits));
    return {bits, parts, channels, channel, per_word};
}

void check_frames(const Frames& frames, const Layout& at, std::size_t file_bytes, std::int64_t payload_bytes,
                  std::size_t row_values) {
    const std::size_t n = frames.payloads.size();
    if (frames.firsts.size() != n || frames.counts.size() != n || frames.destinations.size() != n)
        throw std::invalid_argument("payloads, firsts, counts and destinations must be equally long");
    if (payload_bytes < 0 || payload_bytes % 4) throw std::invalid_argument("payload_bytes must be whole words");
    const std::uint64_t bytes = std::uint64_t(payload_bytes),
                        capacity = bytes / 4 * at.per_word / (at.channels * at.parts);
    // That `part` from `first` on lie within `whole`.
    const auto within = [](std::int64_t first, std::uint64_t part, std::uint64_t whole) {
        return first >= 0 && std::uint64_t(first) <= whole && part <= whole - std::uint64_t(first);
    };
    for (std::size_t f = 0; f < n; ++f) {
        const std::int64_t count = frames.counts.data()[f];
        if (count < 0 || !within(frames.payloads.data()[f], bytes, file_bytes) ||
            !within(frames.firsts.data()[f], std::uint64_t(count), capacity) ||
            !within(frames.destinations.data()[f], std::uint64_t(count), row_values / at.parts))
            throw std::out_of_range("a frame reaches beyond the file, its payload or the output row");
    }
}

// What the wanted channel's elements in a byte are, for widths that divide a byte.
struct ByteTable {
    std::uint32_t entries[256 * 8];
    unsigned values;                    // of the wanted channel in a byte
    unsigned samples_a_byte;            // whole samples of all channels; 1 if a sample has several bytes
    std::uint64_t run, stride, offset;  // of a sample's bytes, take `run` from byte `offset` on

    ByteTable(const Layout& at, const std::uint32_t* levels) {
        const std::uint64_t sample_bits = at.channels * at.parts * at.bits, bit = at.channel * at.parts * at.bits;
        const unsigned wanted = at.parts * at.bits;
        const bool whole = sample_bits <= 8;
        samples_a_byte = whole ? unsigned(8 / sample_bits) : 1;
        values = whole ? samples_a_byte * at.parts : wanted > 8 ? 8 / at.bits : at.parts;
        run = wanted > 8 ? wanted / 8 : 1;
        stride = whole ? 1 : sample_bits / 8;
        offset = bit / 8;  // 0 if a byte holds whole samples
        for (unsigned v = 0; v < values; ++v) {
            const unsigned shift = unsigned(
                bit % 8 + (whole ? v / at.parts * sample_bits + v % at.parts * at.bits : std::uint64_t{v} * at.bits));
            for (unsigned byte = 0; byte < 256; ++byte)
                entries[byte * values + v] = levels[byte >> shift & ((1u << at.bits) - 1)];
        }
    }

    // Of a payload, `count` samples from sample `first` on.
    void decode(const std::uint8_t* payload, const Layout& at, std::uint64_t first, std::uint64_t count,
                const std::uint32_t* levels, std::uint32_t* out) const {
        const auto level = [levels](std::uint32_t code) { return levels[code]; };
        const std::uint64_t left = (samples_a_byte - first % samples_a_byte) % samples_a_byte;  // of a byte begun
        const std::uint64_t head = left < count ? left : count;
        decode_elements(payload, at, first, head, out, level);
        first += head, count -= head, out += head * at.parts;
        const std::uint64_t steps = count / samples_a_byte, whole = steps * samples_a_byte;
        bytes(payload + first / samples_a_byte * stride + offset, steps, out);
        decode_elements(payload, at, first + whole, count - whole, out + whole * at.parts, level);
    }

  private:
    void bytes(const std::uint8_t* p, std::uint64_t steps, std::uint32_t* out) const {
        switch (values) {
            case 1:
                return decode_bytes<1>(p, run, stride, steps, entries, out);
            case 2:
                return decode_bytes<2>(p, run, stride, steps, entries, out);
            case 4:
                return decode_bytes<4>(p, run, stride, steps, entries, out);
            default:
                return decode_bytes<8>(p, run, stride, steps, entries, out);
        }
    }
};

// Calls `one` with the payload, first sample, number of samples and output of each frame.
template <typename One>
void each_frame(const Frames& frames, const std::uint8_t* file, unsigned parts, std::uint32_t* row, One one) {
    for (std::size_t f = 0; f < frames.payloads.size(); ++f)
        one(file + frames.payloads.data()[f], std::uint64_t(frames.firsts.data()[f]),
            std::uint64_t(frames.counts.data()[f]), row + std::uint64_t(frames.destinations.data()[f]) * parts);
}

void decode(Bytes file, Index payloads, Index firsts, Index counts, Index destinations, Row row, Words levels,
            unsigned bits, bool complex_data, unsigned channels, unsigned channel, std::int64_t payload_bytes) {
    const Layout at = layout_of(bits, complex_data, channels, channel);
    if (levels.size() != (bits <= 8 ? std::size_t{1} << bits : 0))
        throw std::invalid_argument("levels must hold one big-endian float32 a code up to 8 bits, and none above");
    const Frames frames{payloads, firsts, counts, destinations};
    check_frames(frames, at, file.size(), payload_bytes, row.size());

    nb::gil_scoped_release unlocked;
    const std::uint32_t* level = levels.data();
    const auto each = [&](auto one) { each_frame(frames, file.data(), at.parts, row.data(), one); };
    using In = const std::uint8_t*;
    using N = std::uint64_t;
    using Out = std::uint32_t*;
    if (bits > 8) {
        const std::int64_t zero = std::int64_t{1} << (bits - 1);
        const auto linear = [zero](std::uint32_t code) { return big_endian(float(std::int64_t{code} - zero)); };
        each([&](In payload, N first, N count, Out out) { decode_elements(payload, at, first, count, out, linear); });
    } else if (8 % bits != 0) {
        const auto looked_up = [level](std::uint32_t code) { return level[code]; };
        each(
            [&](In payload, N first, N count, Out out) { decode_elements(payload, at, first, count, out, looked_up); });
    } else {
        const ByteTable table(at, level);
        each([&](In payload, N first, N count, Out out) { table.decode(payload, at, first, count, level, out); });
    }
}

}  // namespace

void bind_vdif(nb::module_& m) {
    using namespace nb::literals;
    m.def("decode_vdif", &decode, "file"_a, "payloads"_a, "firsts"_a, "counts"_a, "destinations"_a, "row"_a, "levels"_a,
          "bits"_a, "complex_data"_a, "channels"_a, "channel"_a, "payload_bytes"_a,
          "Decode one channel of many frames into a row of big-endian float32 (as uint32 words); see ryle.wire.vdif.");
}
