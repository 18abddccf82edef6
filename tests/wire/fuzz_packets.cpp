// Random descriptions and random packets through the parser; built with the sanitizers by test_packet_sanitized.py.
// Packets and outputs are heap blocks of exactly their size, so that reading or writing beyond one is seen.
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>

#include "wire/packets.h"

using namespace ryle;

int main(int argc, char** argv) {
    std::mt19937_64 random(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0);
    const auto below = [&](std::uint64_t n) { return random() % n; };
    const auto sum = [&](std::size_t fields) {
        Sum s;
        for (std::uint64_t n = below(3); n-- > 0;)
            s.terms.push_back({std::uint32_t(below(fields + (below(50) == 0))), random() >> below(64)});
        s.add = std::int64_t(below(100)) - 20;
        return s;
    };
    std::uint64_t valid = 0, refused = 0, wrong = 0;
    for (int description = 0; description < 20000; ++description) {
        PacketLayout layout;
        layout.header_bytes = std::uint32_t(below(24));
        for (std::uint64_t n = 1 + below(5); n-- > 0;) {
            const std::uint32_t bytes = std::uint32_t(1 + below(9)), width = std::uint32_t(1 + below(8 * bytes));
            const std::uint64_t low = below(4) ? 0 : below(3);
            const std::uint64_t high = below(4) ? std::numeric_limits<std::uint64_t>::max() : random() >> below(64);
            layout.fields.push_back({std::uint32_t(below(layout.header_bytes + 2)), bytes,
                                     std::uint32_t(below(8 * bytes - width + 1 + (below(50) == 0))), width,
                                     below(2) == 0, low, high});
        }
        layout.trailers = {std::uint32_t(below(4)), 8};
        for (std::uint64_t n = below(4); n-- > 0;)
            layout.sizes.push_back({1 + below(5), below(3) ? -1 : std::int32_t(below(layout.fields.size()))});
        layout.bits = std::uint32_t(1 + below(16));
        layout.parts = std::uint32_t(1 + below(2));
        layout.code = Code(below(kCodes));
        layout.msb_first = below(2);
        layout.states_length = below(8) == 0;
        layout.length = sum(layout.fields.size());
        layout.timestamp = sum(layout.fields.size());
        layout.period = below(3) ? std::uint64_t{1} << below(64) : 0;
        try {
            check(layout);
        } catch (const std::invalid_argument&) {
            ++refused;
            continue;
        }
        for (int packet = 0; packet < 20; ++packet) {
            std::uint64_t elements = layout.parts;
            for (const Size& size : layout.sizes) elements *= size.field < 0 ? size.value : below(4);
            std::size_t length = layout.header_bytes + (elements * layout.bits + 7) / 8 + layout.trailers[0];
            if (below(3) == 0) length = below(length + 8);
            const auto bytes = std::make_unique<std::uint8_t[]>(length);
            for (std::size_t i = 0; i < length; ++i)
                bytes[i] = below(3) ? std::uint8_t(random()) : std::uint8_t(below(4));
            const auto values = std::make_unique<std::uint64_t[]>(layout.fields.size());
            const Packet span(bytes.get(), length);
            const Verdict verdict = examine(layout, span, values.get());
            std::int64_t time;
            unwrap(verdict.count, layout.period, std::int64_t(random()), time);
            if (verdict.reason != kValid) {
                ++wrong;
                continue;
            }
            ++valid;
            const auto wide = std::make_unique<std::int16_t[]>(verdict.elements);
            decode(layout, span.subspan(layout.header_bytes), verdict.elements, wide.get());
            const auto narrow = std::make_unique<std::int8_t[]>(verdict.elements);
            decode(layout, span.subspan(layout.header_bytes), verdict.elements, narrow.get());
        }
    }
    std::printf("%llu %llu %llu\n", (unsigned long long)valid, (unsigned long long)wrong, (unsigned long long)refused);
}
