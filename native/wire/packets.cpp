#include "packets.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace ryle {
namespace {

constexpr std::uint64_t kMostElements = 1 << 20;  // more than a UDP datagram of one-bit samples holds
constexpr std::uint64_t kMostOfHeap = std::uint64_t{1} << 38;

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
    return word >> field.shift & ~std::uint64_t{0} >> (64 - field.width);
}

bool allowed(const PacketField& field, std::uint64_t value) { return value >= field.low && value <= field.high; }

unsigned __int128 total(const Sum& sum, const std::uint64_t* values) {
    unsigned __int128 result = 0;
    for (const Term& term : sum.terms) result += static_cast<unsigned __int128>(values[term.field]) * term.factor;
    return result;
}

// The values of the items at `at`, kAbsent for those that are not there.
void read_items(const std::vector<PacketItem>& items, const std::uint8_t* at, std::uint64_t count,
                std::array<std::uint64_t, kMostItems>& words) {
    const std::size_t known = items.size();
    std::fill_n(words.begin(), known, kAbsent);
    std::uint64_t seen = 0;  // lowest bits of all keys, once they are needed: they tell most unknown ones
    std::size_t next = 0;    // the item that is likely
    for (const std::uint8_t* end = at + 8 * count; at != end; at += 8) {
        const std::uint64_t word = __builtin_bswap64(word_at<std::uint64_t>(at));
        const std::uint64_t key = word >> 48;
        std::size_t item = next;
        if (item >= known || items[item].key != key) {
            if (seen == 0)
                for (const PacketItem& one : items) seen |= std::uint64_t{1} << (one.key & 63);
            if ((seen >> (key & 63) & 1) == 0) continue;
            for (item = 0; item < known && items[item].key != key;) ++item;
            if (item == known) continue;
        }
        words[item] = word & ~(std::uint64_t{0xffff} << 48);
        next = item + 1;
    }
}

unsigned __int128 part_bytes(const PacketLayout& layout, const std::uint64_t* values) {
    return total(layout.heap.bytes, values) + static_cast<std::uint64_t>(layout.heap.bytes.add);
}

// Whether a packet has `part` bytes behind its items, as it says; else the verdict says so.
bool holds(Packet packet, unsigned __int128 part, Verdict& verdict) {
    if (packet.size() - verdict.payload == part) return true;
    verdict.reason = kStatedLength;
    verdict.expected = part < std::uint64_t{1} << 48 ? static_cast<std::int64_t>(part) + verdict.payload : -1;
    return false;
}

// Reads the items and the fields in them; verdict.payload is where they begin, and then where they end.
void examine_items(const PacketLayout& layout, Packet packet, std::uint64_t* values, Verdict& verdict) {
    const std::size_t fields = layout.fields.size();
    for (std::size_t f = 0; f < fields; ++f)
        if (layout.fields[f].item < 0 && !allowed(layout.fields[f], values[f])) {
            verdict.reason = kField;
            verdict.field = static_cast<std::int32_t>(f);
            return;
        }
    const std::uint64_t count = values[layout.count_field];
    if (count > (packet.size() - verdict.payload) / 8) {
        verdict.reason = kShort;
        verdict.expected = static_cast<std::int64_t>(verdict.payload + 8 * (count & 0xffffffff));
        return;
    }
    std::array<std::uint64_t, kMostItems> words;
    read_items(layout.items, packet.data() + verdict.payload, count, words);
    verdict.payload += static_cast<std::uint32_t>(8 * count);
    std::int32_t wrong = -1, missing = -1;
    for (std::size_t f = 0; f < fields; ++f) {
        const PacketField& field = layout.fields[f];
        if (field.item < 0) continue;
        if (words[field.item] == kAbsent) {
            values[f] = field.otherwise;
            if (field.otherwise == kAbsent && missing < 0) missing = static_cast<std::int32_t>(f);
        } else {
            values[f] = words[field.item] >> field.shift & ~std::uint64_t{0} >> (64 - field.width);
            if (!allowed(field, values[f]) && wrong < 0) wrong = static_cast<std::int32_t>(f);
        }
    }
    for (std::size_t i = 0; i < layout.items.size(); ++i)
        if (layout.items[i].control && words[i] != kAbsent)
            verdict.reason = verdict.reason == kStop || words[i] == layout.items[i].stop ? kStop : kControl;
    if (verdict.reason != kValid && layout.heaps) {  // with a wrong count, samples read as items, some as a stop's
        const auto said = [&](const Term& term) { return values[term.field] != kAbsent; };
        if (std::ranges::all_of(layout.heap.bytes.terms, said)) holds(packet, part_bytes(layout, values), verdict);
    }
    if (verdict.reason == kValid && (missing >= 0 || wrong >= 0)) {
        verdict.reason = missing >= 0 ? kItem : kField;
        verdict.field = missing >= 0 ? missing : wrong;
    }
}

// Finds the packet's part in its heap, of which the samples have `bytes` bytes.
void examine_part(const PacketLayout& layout, Packet packet, const std::uint64_t* values, std::uint64_t bytes,
                  Verdict& verdict) {
    const HeapLayout& heap = layout.heap;
    unsigned __int128 length = bytes + layout.trailers.front();
    bool fits = true;
    if (heap.states_length) {
        length = total(heap.length, values) + static_cast<std::uint64_t>(heap.length.add);
        fits = false;
        for (const std::uint32_t trailer : layout.trailers) fits |= length == bytes + trailer;
    }
    const unsigned __int128 offset = total(heap.offset, values) + static_cast<std::uint64_t>(heap.offset.add);
    const unsigned __int128 part = total(heap.bytes, values) + static_cast<std::uint64_t>(heap.bytes.add);
    bool lies = fits && part != 0 && part <= length && offset <= length - part && (!heap.whole || part == length);
    if (lies && heap.unit > 1) {  // what lies in a heap has 64 bits, which are divided faster
        const std::uint64_t begin = static_cast<std::uint64_t>(offset), held = static_cast<std::uint64_t>(part);
        lies = begin % heap.unit == 0 && (held % heap.unit == 0 || begin + held == length);
    }
    if (!lies) {
        verdict.reason = kHeap;
        verdict.expected = static_cast<std::int64_t>(bytes + layout.trailers.front());
    } else if (holds(packet, part, verdict)) {
        verdict.bytes = static_cast<std::uint32_t>(part);  // a packet's
        verdict.offset = static_cast<std::uint64_t>(offset);
        verdict.elements = heap.whole ? bytes * 8 / layout.bits : std::uint64_t{verdict.bytes} * 8 / layout.bits;
    }
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
        demand(sum.over >= 1, "a sum cannot be divided by 0");
        for (const Term& term : sum.terms) demand(term.field < layout.fields.size(), "a sum names an unknown field");
    };
    demand(layout.header_bytes <= 65535, "a header has at most 65535 bytes");
    demand(layout.fields.size() <= 1024, "too many fields");
    for (const PacketField& field : layout.fields) {
        const bool in_item = field.item >= 0;
        demand(in_item || (field.bytes >= 1 && field.bytes <= 8), "a field's word has 1 to 8 bytes");
        demand(in_item || std::uint64_t{field.byte} + field.bytes <= layout.header_bytes,
               "a field lies outside the header");
        demand(field.width >= 1 && field.width <= 64 &&
                   std::uint64_t{field.shift} + field.width <= (in_item ? 48 : 8 * field.bytes),
               "a field lies outside its word");
        demand(field.item < static_cast<std::int64_t>(layout.items.size()), "a field lies in an unknown item");
    }
    demand(layout.items.size() <= kMostItems, "a layout knows at most 32 items");
    for (std::size_t i = 0; i < layout.items.size(); ++i)
        for (std::size_t j = 0; j < i; ++j)
            demand(layout.items[i].key != layout.items[j].key, "two items have the same key");
    demand(layout.count_field < static_cast<std::int64_t>(layout.fields.size()), "the items' count is no field");
    demand(layout.count_field >= 0 ? layout.fields[layout.count_field].item < 0 : layout.items.empty(),
           "items need a count in the header's start");
    const bool wide = layout.bits == 32 || layout.bits == 64;
    demand((layout.bits >= 1 && layout.bits <= 16) || wide, "samples have 1 to 16, 32 or 64 bits");
    demand(layout.code != kFloat || wide, "floating point has 32 or 64 bits");
    demand(layout.parts == 1 || layout.parts == 2, "samples have 1 or 2 parts");
    demand(layout.code < kCodes, "unknown code");
    demand(!layout.trailers.empty(), "a trailer length is needed, if only 0");
    for (const Size& size : layout.sizes)
        demand(size.field < static_cast<std::int64_t>(layout.fields.size()), "a size names an unknown field");
    demand(layout.period <= std::uint64_t{1} << 63, "a period has at most 63 bits");
    known(layout.length);
    known(layout.heap.length);
    known(layout.heap.offset);
    known(layout.heap.bytes);
    demand(layout.heap.unit >= 1, "parts of heaps are multiples of at least 1 byte");
    demand(layout.heap.length.add >= 0 && layout.heap.offset.add >= 0 && layout.heap.bytes.add >= 0,
           "lengths and offsets are not negative");
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
    for (std::size_t f = 0; f < fields; ++f)
        values[f] = layout.fields[f].item < 0 ? load(packet.data(), layout.fields[f]) : kAbsent;
    verdict.payload = layout.header_bytes;
    if (layout.count_field >= 0) {
        examine_items(layout, packet, values, verdict);
        if (verdict.reason != kValid) return verdict;
    }
    verdict.count = total(layout.timestamp, values);
    const __int128 since = static_cast<__int128>(verdict.count) + layout.timestamp.add;
    if (since >= 0) verdict.count = static_cast<unsigned __int128>(since);
    if (layout.count_field < 0)
        for (std::size_t f = 0; f < fields; ++f)
            if (!allowed(layout.fields[f], values[f])) {
                verdict.reason = kField;
                verdict.field = static_cast<std::int32_t>(f);
                return verdict;
            }
    const std::uint64_t most = layout.heaps ? kMostOfHeap : kMostElements;
    std::uint64_t elements = layout.parts;
    for (const Size& size : layout.sizes) {
        const std::uint64_t n = size.field < 0 ? size.value : values[size.field];
        if (n == 0 || __builtin_mul_overflow(elements, n, &elements) || elements > most) {
            verdict.reason = kLength;
            verdict.field = size.field;
            return verdict;
        }
    }
    const std::uint64_t bytes = (elements * layout.bits + 7) / 8;
    if (layout.heaps) {
        examine_part(layout, packet, values, bytes, verdict);
        if (verdict.reason != kValid) return verdict;
    } else {
        bool fits = false;
        for (const std::uint32_t trailer : layout.trailers) fits |= packet.size() == verdict.payload + bytes + trailer;
        if (!fits) {
            verdict.reason = kLength;
            verdict.expected = static_cast<std::int64_t>(verdict.payload + bytes + layout.trailers.front());
            return verdict;
        }
        verdict.bytes = static_cast<std::uint32_t>(bytes);
        verdict.elements = elements;
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
    if (since < 0 || (layout.period == 0 && verdict.count >> 63 != 0)) verdict.reason = kTimestamp;
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
    if (bits > 16) throw std::invalid_argument("samples of more than 16 bits are not decoded here");
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
