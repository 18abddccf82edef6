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

void decode(Bytes file, Index payloads, Index firsts, Index counts, Index destinations, Row row, Words levels,
            unsigned bits, bool complex_data, unsigned channels, unsigned channel, std::int64_t payload_bytes) {
    const std::size_t frames = payloads.size();
    if (firsts.size() != frames || counts.size() != frames || destinations.size() != frames)
        throw std::invalid_argument("payloads, firsts, counts and destinations must be equally long");
    if (bits < 1 || bits > 32 || channels < 1 || channel >= channels)
        throw std::invalid_argument("bits must be 1 to 32 and channel must be below channels");
    const bool power_of_two = (bits & (bits - 1)) == 0;
    if (channels > 1 && (!power_of_two || (channels & (channels - 1)) != 0))
        throw std::invalid_argument("several channels in a frame need bits and channels that are powers of two");
    if (levels.size() != (bits <= 8 ? std::size_t{1} << bits : 0))
        throw std::invalid_argument("levels must hold one big-endian float32 a code up to 8 bits, and none above");
    const unsigned parts = complex_data ? 2 : 1;
    const std::uint64_t per_word = power_of_two || parts == 1 ? 32 / bits : bits > 16 ? 1 : 2 * (32 / (2 * bits));
    const Layout at{bits, parts, channels, channel, per_word};
    if (payload_bytes < 0 || payload_bytes % 4) throw std::invalid_argument("payload_bytes must be whole words");
    const std::uint64_t capacity = std::uint64_t(payload_bytes) / 4 * per_word / (std::uint64_t{channels} * parts);
    const std::uint64_t row_samples = row.size() / parts;
    for (std::size_t f = 0; f < frames; ++f) {
        const std::int64_t p = payloads.data()[f], a = firsts.data()[f], n = counts.data()[f],
                           d = destinations.data()[f];
        if (p < 0 || a < 0 || n < 0 || d < 0 || std::uint64_t(p) + std::uint64_t(payload_bytes) > file.size() ||
            std::uint64_t(a) + std::uint64_t(n) > capacity || std::uint64_t(d) + std::uint64_t(n) > row_samples)
            throw std::out_of_range("a frame reaches beyond the file, its payload or the output row");
    }

    // A table over bytes, when bytes divide evenly into elements: which of a byte's elements are the wanted channel's?
    std::uint32_t table[256 * 8];
    const std::uint64_t sample_bits = std::uint64_t{channels} * parts * bits;  // one sample of all channels
    const bool by_bytes = power_of_two && bits <= 8;
    unsigned values = 0, samples_a_byte = 1;
    std::uint64_t run = 1, stride = 1, byte_offset = 0;
    if (by_bytes) {
        const unsigned code_mask = (1u << bits) - 1;
        if (sample_bits <= 8) {
            samples_a_byte = unsigned(8 / sample_bits);
            values = samples_a_byte * parts;
            for (unsigned byte = 0; byte < 256; ++byte)
                for (unsigned v = 0; v < values; ++v) {
                    const unsigned shift = unsigned((v / parts) * sample_bits + (channel * parts + v % parts) * bits);
                    table[byte * values + v] = levels.data()[byte >> shift & code_mask];
                }
        } else {
            const std::uint64_t bit = std::uint64_t{channel} * parts * bits;
            const unsigned wanted = parts * bits;
            byte_offset = bit / 8;
            stride = sample_bits / 8;
            run = wanted > 8 ? wanted / 8 : 1;
            values = wanted > 8 ? 8 / bits : parts;
            for (unsigned byte = 0; byte < 256; ++byte)
                for (unsigned v = 0; v < values; ++v)
                    table[byte * values + v] = levels.data()[byte >> (bit % 8 + v * bits) & code_mask];
        }
    }

    nb::gil_scoped_release unlocked;
    const std::uint32_t* level = levels.data();
    const auto looked_up = [level](std::uint32_t code) { return level[code]; };
    const std::int64_t zero = std::int64_t{1} << (bits - 1);
    const auto linear = [zero](std::uint32_t code) { return big_endian(float(std::int64_t{code} - zero)); };
    for (std::size_t f = 0; f < frames; ++f) {
        const std::uint8_t* payload = file.data() + payloads.data()[f];
        std::uint64_t first = std::uint64_t(firsts.data()[f]), count = std::uint64_t(counts.data()[f]);
        std::uint32_t* out = row.data() + std::uint64_t(destinations.data()[f]) * parts;
        if (!by_bytes) {
            if (bits <= 8)
                decode_elements(payload, at, first, count, out, looked_up);
            else
                decode_elements(payload, at, first, count, out, linear);
            continue;
        }
        const std::uint64_t head = first % samples_a_byte ? samples_a_byte - first % samples_a_byte : 0;
        if (head) {
            const std::uint64_t n = head < count ? head : count;
            decode_elements(payload, at, first, n, out, looked_up);
            first += n, count -= n, out += n * parts;
        }
        const std::uint64_t steps = count / samples_a_byte;
        const std::uint8_t* p = payload + first / samples_a_byte * stride + byte_offset;
        switch (values) {
            case 1:
                decode_bytes<1>(p, run, stride, steps, table, out);
                break;
            case 2:
                decode_bytes<2>(p, run, stride, steps, table, out);
                break;
            case 4:
                decode_bytes<4>(p, run, stride, steps, table, out);
                break;
            default:
                decode_bytes<8>(p, run, stride, steps, table, out);
                break;
        }
        const std::uint64_t done = steps * samples_a_byte;
        decode_elements(payload, at, first + done, count - done, out + done * parts, looked_up);
    }
}

}  // namespace

void bind_vdif(nb::module_& m) {
    using namespace nb::literals;
    m.def("decode_vdif", &decode, "file"_a, "payloads"_a, "firsts"_a, "counts"_a, "destinations"_a, "row"_a, "levels"_a,
          "bits"_a, "complex_data"_a, "channels"_a, "channel"_a, "payload_bytes"_a,
          "Decode one channel of many frames into a row of big-endian float32 (as uint32 words); see ryle.wire.vdif.");
}
