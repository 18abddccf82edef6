// Headers with items, and parts of heaps: what is valid lies in the packet and in its heap, and says what a plain
// reading of the items says.
#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "draw.h"
#include "wire/packets.h"

namespace ryle {
namespace {

constexpr std::uint64_t kValue = (std::uint64_t{1} << 48) - 1;

PacketLayout make_layout(Draw& draw) {
    PacketLayout layout;
    layout.header_bytes = 8;
    layout.fields.push_back({0, 4, 0, 32, true, 0x53040206, 0x53040206});
    layout.fields.push_back({6, 2, 0, 16, true, 0, 0xffff});
    layout.count_field = draw.one_in(40) ? static_cast<std::int32_t>(draw.upto(8)) - 1 : 1;
    const std::uint64_t items = 3 + draw.upto(draw.one_in(9) ? 32 : 7);
    for (std::uint64_t i = 0; i < items; ++i) {
        PacketItem item{static_cast<std::uint16_t>(draw.one_in(3) ? draw.bits(2) : 0x9600 + 64 * draw.upto(2) + i)};
        item.control = i > 3 && draw.one_in(8);
        if (item.control && draw.one_in(2)) item.stop = draw.upto(2);
        layout.items.push_back(item);
        for (std::uint64_t n = draw.one_in(8) ? draw.upto(2) : 1; n > 0; --n) {
            PacketField field{0, 8, 0, 48, true, 0, ~std::uint64_t{0}, static_cast<std::int32_t>(i)};
            if (i > 2 && draw.one_in(3))
                field.shift = static_cast<std::uint32_t>(draw.upto(47)), field.width = 48 - field.shift;
            if (i > 2 && draw.one_in(4)) field.high = draw.upto(300);
            if (item.control || draw.one_in(3)) field.otherwise = draw.upto(300);
            layout.fields.push_back(field);
        }
    }
    const auto sum = [&](std::uint32_t field) { return Sum{{{field, 1 + draw.upto(1)}}, 0, 1}; };
    layout.trailers = {static_cast<std::uint32_t>(draw.upto(8)), 16};
    layout.sizes = {{1 + draw.upto(40), -1}, {1 + draw.upto(3), -1}};
    layout.bits = draw.one_in(3) ? 32 : 8;
    layout.parts = static_cast<std::uint32_t>(1 + draw.upto(1));
    layout.heaps = !draw.one_in(4);
    if (layout.heaps) {
        layout.heap.states_length = draw.one_in(2);
        layout.heap.length = sum(2);
        layout.heap.offset = sum(3);
        layout.heap.bytes = sum(4);
        layout.heap.unit = 1 + draw.upto(1) * 7;
        layout.heap.whole = draw.one_in(4);
    }
    layout.timestamp = sum(2 + static_cast<std::uint32_t>(draw.upto(2)));
    layout.period = std::uint64_t{1} << 48;
    check(layout);
    return layout;
}

std::vector<std::uint8_t> make_packet(Draw& draw, const PacketLayout& layout) {
    std::vector<std::uint64_t> words;
    const std::uint64_t heap = layout.sizes[0].value * layout.sizes[1].value * layout.parts * layout.bits / 8;
    const std::uint64_t length = heap + layout.trailers[draw.upto(1)];
    const std::uint64_t offset = layout.heap.whole ? 0 : draw.upto(length),
                        part = draw.one_in(2) ? length - offset : draw.upto(length);
    for (std::size_t i = 0; i < layout.items.size(); ++i) {
        if (layout.items[i].control && !draw.one_in(16)) continue;
        if (draw.one_in(40)) continue;
        std::uint64_t value = draw.one_in(40) ? draw.bits(6)
                              : i == 0        ? length
                              : i == 1        ? offset
                              : i == 2        ? part
                                              : draw.upto(60);
        if (i < 3 && layout.fields.size() > 2 + i && draw.one_in(2)) value /= 2;  // sums have factors of 1 or 2
        words.push_back(std::uint64_t{layout.items[i].key} << 48 | value);
        if (draw.one_in(30)) words.push_back(draw.bits(8));
        if (draw.one_in(30)) words.push_back(words[draw.upto(words.size() - 1)] ^ draw.upto(7));
    }
    if (draw.one_in(2) && !words.empty())
        for (std::uint64_t n = draw.upto(8); n > 0; --n) std::swap(words[draw.upto(words.size() - 1)], words.back());
    std::vector<std::uint8_t> packet{0x53, 4, 2, 6, 0, 0, 0, static_cast<std::uint8_t>(words.size())};
    for (const std::uint64_t word : words)
        for (int shift = 56; shift >= 0; shift -= 8) packet.push_back(static_cast<std::uint8_t>(word >> shift));
    packet.resize(packet.size() + (layout.heaps ? part : length), 1);
    if (draw.one_in(12)) packet.resize(draw.upto(packet.size() + 2), 1);
    if (draw.one_in(12) && !packet.empty())
        packet[draw.upto(packet.size() - 1)] ^= static_cast<std::uint8_t>(draw.bits(1));
    return packet;
}

void check_verdict(const PacketLayout& layout, Packet packet, const Verdict& verdict, const std::uint64_t* values) {
    demand(verdict.payload + std::uint64_t{verdict.bytes} <= packet.size(), "samples lie in the packet");
    demand((packet[6] << 8 | packet[7]) * 8u + 8 == verdict.payload, "samples begin behind the items");
    std::map<std::uint64_t, std::uint64_t> last;
    for (std::size_t at = 8; at < verdict.payload; at += 8) {
        std::uint64_t word = 0;
        for (std::size_t i = 0; i < 8; ++i) word = word << 8 | packet[at + i];
        last[word >> 48] = word & kValue;
    }
    for (std::size_t f = 2; f < layout.fields.size(); ++f) {
        const PacketField& field = layout.fields[f];
        const auto found = last.find(layout.items[field.item].key);
        demand(found == last.end() || !layout.items[field.item].control, "packets that steer are not valid");
        const std::uint64_t mask = ~std::uint64_t{0} >> (64 - field.width);
        const std::uint64_t want = found == last.end() ? field.otherwise : found->second >> field.shift & mask;
        demand(want != kAbsent && values[f] == want, "a field is its item's last value");
        demand(found == last.end() || (want >= field.low && want <= field.high), "fields are allowed");
    }
    if (!layout.heaps) return;
    const std::uint64_t samples = layout.sizes[0].value * layout.sizes[1].value * layout.parts * layout.bits / 8;
    std::uint64_t longest = samples + layout.trailers[0];
    if (layout.heap.states_length) longest = samples + std::max(layout.trailers[0], layout.trailers[1]);
    demand(verdict.bytes > 0 && verdict.offset <= longest && verdict.bytes <= longest - verdict.offset,
           "parts lie in their heaps");
    demand(verdict.payload + verdict.bytes == packet.size(), "a part is all of the payload");
    demand(verdict.offset % layout.heap.unit == 0, "parts begin at multiples of the unit");
    demand(!layout.heap.whole || verdict.offset == 0, "a heap of one packet begins with it");
}

}  // namespace

std::uint64_t inspect_items(Draw& draw) {
    PacketLayout layout;
    try {
        layout = make_layout(draw);
    } catch (const std::invalid_argument&) {
        return 0;
    }
    std::uint64_t valid = 0;
    const auto values = std::make_unique<std::uint64_t[]>(layout.fields.size());
    while (!draw.empty()) {
        const std::vector<std::uint8_t> made = make_packet(draw, layout);
        const auto bytes = std::make_unique<std::uint8_t[]>(made.size());  // of exactly this size
        std::copy(made.begin(), made.end(), bytes.get());
        const Packet packet(bytes.get(), made.size());
        const Verdict verdict = examine(layout, packet, values.get());
        if (verdict.reason != kValid) continue;
        ++valid;
        if (layout.count_field == 1) check_verdict(layout, packet, verdict, values.get());
    }
    return valid;
}

}  // namespace ryle
