#include "packets.h"

#include <bit>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace ryle {
namespace {

constexpr std::uint64_t kMostElements = 1 << 20;  // more than a UDP datagram of one-bit samples holds

template <typename T>
T word_at(const std::uint8_t* p) {
    T word;
    std::memcpy(&word, p, sizeof word);
    return word;
}

std::uint64_t load(const std::uint8_t* p, const PacketField& field) {
    static_assert(std::endian::native == std::endian::little);
    std::uint64_t word = 0;
    if (field.bytes == 8)
        word = field.big_endian ? __builtin_bswap64(word_at<std::uint64_t>(p + field.byte))
                                : word_at<std::uint64_t>(p + field.byte);
    else if (field.bytes == 4)
        word = field.big_endian ? __builtin_bswap32(word_at<std::uint32_t>(p + field.byte))
                                : word_at<std::uint32_t>(p + field.byte);
    else if (field.big_endian)
        for (std::uint32_t i = 0; i < field.bytes; ++i) word = word << 8 | p[field.byte + i];
    else
        for (std::uint32_t i = field.bytes; i-- > 0;) word = word << 8 | p[field.byte + i];
    const std::uint64_t mask = field.width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << field.width) - 1;
    return word >> field.shift & mask;
}

unsigned __int128 total(const Sum& sum, const std::uint64_t* values) {
    unsigned __int128 result = 0;
    for (const Term& term : sum.terms) result += static_cast<unsigned __int128>(values[term.field]) * term.factor;
    return result;
}

std::int32_t value_of(std::uint32_t code, std::uint32_t bits, Code kind) {
    const std::int32_t c = static_cast<std::int32_t>(code), half = 1 << (bits - 1);
    switch (kind) {
        case kTwosComplement:
            return c >= half ? c - 2 * half : c;
        case kOffsetBinary:
            return c - half;
        case kSymmetric:
            return 2 * c - (2 * half - 1);
        default:
            return c;
    }
}

}  // namespace

void check(const PacketLayout& layout) {
    const auto demand = [](bool right, const char* what) {
        if (!right) throw std::invalid_argument(what);
    };
    const auto known = [&](const Sum& sum) {
        demand(sum.terms.size() <= 64, "a sum has too many terms");
        for (const Term& term : sum.terms) demand(term.field < layout.fields.size(), "a sum names an unknown field");
    };
    demand(layout.header_bytes <= 65535, "a header has at most 65535 bytes");
    demand(layout.fields.size() <= 1024, "too many fields");
    for (const PacketField& field : layout.fields) {
        demand(field.bytes >= 1 && field.bytes <= 8, "a field's word has 1 to 8 bytes");
        demand(std::uint64_t{field.byte} + field.bytes <= layout.header_bytes, "a field lies outside the header");
        demand(field.width >= 1 && field.width <= 64 && std::uint64_t{field.shift} + field.width <= 8 * field.bytes,
               "a field lies outside its word");
    }
    demand(layout.bits >= 1 && layout.bits <= 16, "samples have 1 to 16 bits");
    demand(layout.parts == 1 || layout.parts == 2, "samples have 1 or 2 parts");
    demand(layout.code < kCodes, "unknown code");
    demand(!layout.trailers.empty(), "a trailer length is needed, if only 0");
    for (const Size& size : layout.sizes)
        demand(size.field < static_cast<std::int64_t>(layout.fields.size()), "a size names an unknown field");
    demand(layout.period <= std::uint64_t{1} << 63, "a period has at most 63 bits");
    known(layout.length);
    known(layout.timestamp);
    for (const Sum& sum : layout.placement) known(sum);
}

Verdict examine(const PacketLayout& layout, Packet packet, std::uint64_t* values) {
    Verdict verdict;
    const std::size_t fields = layout.fields.size();
    if (packet.size() < layout.header_bytes) {
        for (std::size_t f = 0; f < fields; ++f) values[f] = 0;
        verdict.reason = kShort;
        verdict.expected = layout.header_bytes;
        return verdict;
    }
    for (std::size_t f = 0; f < fields; ++f) values[f] = load(packet.data(), layout.fields[f]);
    verdict.count = total(layout.timestamp, values);
    if (layout.timestamp.add >= 0) verdict.count += static_cast<std::uint64_t>(layout.timestamp.add);
    for (std::size_t f = 0; f < fields; ++f)
        if (values[f] < layout.fields[f].low || values[f] > layout.fields[f].high) {
            verdict.reason = kField;
            verdict.field = static_cast<std::int32_t>(f);
            return verdict;
        }
    std::uint64_t elements = layout.parts;
    for (const Size& size : layout.sizes) {
        const std::uint64_t n = size.field < 0 ? size.value : values[size.field];
        if (n == 0 || n > kMostElements || elements * n > kMostElements) {  // both at most 2^20: no overflow
            verdict.reason = kLength;
            verdict.field = size.field;
            return verdict;
        }
        elements *= n;
    }
    const std::uint64_t bytes = (elements * layout.bits + 7) / 8;
    bool fits = false;
    for (const std::uint32_t trailer : layout.trailers) fits |= packet.size() == layout.header_bytes + bytes + trailer;
    if (!fits) {
        verdict.reason = kLength;
        verdict.expected = static_cast<std::int64_t>(layout.header_bytes + bytes + layout.trailers.front());
        return verdict;
    }
    if (layout.states_length) {
        const __int128 stated = static_cast<__int128>(total(layout.length, values)) + layout.length.add;
        if (stated != static_cast<__int128>(packet.size())) {
            const bool fit = stated >= 0 && stated <= std::numeric_limits<std::int64_t>::max();
            verdict.reason = kStatedLength;
            verdict.expected = fit ? static_cast<std::int64_t>(stated) : -1;
            return verdict;
        }
    }
    if (layout.period == 0 && verdict.count >> 63 != 0) {
        verdict.reason = kTimestamp;
        return verdict;
    }
    verdict.payload = layout.header_bytes;
    verdict.bytes = static_cast<std::uint32_t>(bytes);
    verdict.elements = elements;
    return verdict;
}

bool unwrap(unsigned __int128 count, std::uint64_t period, std::int64_t reference, std::int64_t& out) {
    constexpr __int128 most = std::numeric_limits<std::int64_t>::max(),
                       least = std::numeric_limits<std::int64_t>::min();
    __int128 result;
    if (period == 0) {
        if (count > static_cast<unsigned __int128>(most)) return false;
        result = static_cast<__int128>(count);
    } else {
        const __int128 p = period;
        __int128 ahead = (static_cast<__int128>(count % period) - reference) % p;
        if (ahead < 0) ahead += p;
        if (ahead > p / 2 || (ahead * 2 == p)) ahead -= p;  // exactly half a period away counts as behind
        result = reference + ahead;
    }
    if (result > most || result < least) return false;
    out = static_cast<std::int64_t>(result);
    return true;
}

template <typename Out>
void decode(const PacketLayout& layout, Packet payload, std::uint64_t elements, Out* out) {
    const std::uint32_t bits = layout.bits;
    if (elements * bits > payload.size() * 8) throw std::invalid_argument("the payload is too short");
    std::uint64_t e = 0;
    if (8 % bits == 0) {
        const std::uint32_t values = 8 / bits, mask = (1u << bits) - 1;
        Out table[256 * 8];
        for (std::uint32_t byte = 0; byte < 256; ++byte)
            for (std::uint32_t v = 0; v < values; ++v) {
                const std::uint32_t shift = layout.msb_first ? 8 - bits * (v + 1) : bits * v;
                table[byte * values + v] = static_cast<Out>(value_of(byte >> shift & mask, bits, layout.code));
            }
        const std::uint64_t whole = elements / values;
        for (std::uint64_t i = 0; i < whole; ++i)
            for (std::uint32_t v = 0; v < values; ++v) out[i * values + v] = table[payload[i] * values + v];
        for (e = whole * values; e < elements; ++e) out[e] = table[payload[whole] * values + e % values];
        return;
    }
    for (; e < elements; ++e) {
        const std::uint64_t first = e * bits / 8, last = ((e + 1) * bits - 1) / 8;
        const std::uint32_t offset = static_cast<std::uint32_t>(e * bits % 8);
        std::uint32_t word = 0, code;
        if (layout.msb_first) {
            for (std::uint64_t i = first; i <= last; ++i) word = word << 8 | payload[i];
            code = word >> (8 * (last - first + 1) - offset - bits);
        } else {
            for (std::uint64_t i = last + 1; i-- > first;) word = word << 8 | payload[i];
            code = word >> offset;
        }
        out[e] = static_cast<Out>(value_of(code & ((1u << bits) - 1), bits, layout.code));
    }
}

template void decode(const PacketLayout&, Packet, std::uint64_t, std::int8_t*);
template void decode(const PacketLayout&, Packet, std::uint64_t, std::int16_t*);

}  // namespace ryle
