// Random descriptions and plans through the packet maker; built with the sanitizers by test_send_sanitized.py.
// Every packet is made in a heap block of exactly the room that is promised, so that writing beyond it is seen.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>

#include "send/maker.h"

using namespace ryle;

namespace {

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "%s\n", what);
    std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
    std::mt19937_64 random(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0);
    const auto below = [&](std::uint64_t n) { return random() % n; };
    std::uint64_t made = 0, refused = 0, faults = 0;
    for (int round = 0; round < 4000; ++round) {
        auto plan = std::make_shared<FormatPlan>();
        PacketLayout& layout = plan->layout;
        std::uint32_t byte = 0;
        for (std::uint64_t n = 1 + below(5); n-- > 0;) {  // fields behind each other, with holes
            const std::uint32_t bytes = std::uint32_t(1 + below(8)), width = std::uint32_t(1 + below(8 * bytes));
            byte += std::uint32_t(below(3));
            const std::uint32_t shift = std::uint32_t(below(8 * bytes - width + 1));
            layout.fields.push_back({byte, bytes, shift, width, below(2) == 0, 0, ~std::uint64_t{0} >> (64 - width)});
            byte += bytes;
        }
        const bool heaps = below(2) == 0;
        if (heaps) {
            const std::uint32_t at = std::uint32_t(layout.fields.size());
            for (int k = 0; k < 2; ++k, byte += 4)
                layout.fields.push_back({byte, 4, 0, 32, below(2) == 0, 0, 0xFFFFFFFF});
            layout.heaps = true;
            layout.heap.offset.terms = {{at, 1}};
            layout.heap.bytes.terms = {{at + 1, 1}};
        }
        layout.header_bytes = byte + std::uint32_t(below(3));
        layout.trailers = {heaps ? 0 : std::uint32_t(below(4)), 8};
        layout.bits = std::uint32_t(1 + below(16));
        layout.parts = std::uint32_t(1 + below(2));
        layout.sizes = {{8 * (1 + below(20)), -1}};
        const std::uint32_t fields = std::uint32_t(layout.fields.size()) - (heaps ? 2 : 0);
        const std::uint32_t counter = std::uint32_t(below(fields));
        plan->step = 1 + below(5);
        layout.timestamp.terms = {{counter, plan->step}};
        const std::uint32_t width = layout.fields[counter].width;
        layout.period = width >= 60 ? 0 : plan->step << width;
        for (std::uint32_t f = 0; f < fields; ++f)
            if (f != counter && below(2)) plan->stream_fields.push_back(f);
        plan->payload_bytes = std::uint32_t(layout.sizes[0].value * layout.bits * layout.parts / 8);
        plan->trailer_bytes = heaps ? 0 : layout.trailers[below(2)];
        plan->part_bytes = heaps ? std::uint32_t(8 * (1 + below(20))) : 0;
        plan->first = plan->step * below(1000);
        plan->filling = Filling(below(3));
        plan->packets = below(60);
        plan->burst = std::uint32_t(1 + below(9));
        plan->rate = below(2) ? 0.0 : 1e5;
        plan->jump_at = below(40);
        plan->jump = std::int64_t(plan->step) * (std::int64_t(below(2000)) - 1000);
        plan->restart_at = below(2) ? kForever : below(60);
        if (layout.period == 0) plan->jump = 0;  // a 64-bit counter does not go below 0
        if (below(2)) plan->faults = {0.1, 0.1, 0.2, 0.1, 0.1, 0.1, std::uint32_t(1 + below(9)), random()};
        std::vector<StreamPlan> streams;
        for (std::uint64_t n = 1 + below(4); n-- > 0;) {
            StreamPlan stream;
            stream.index = std::uint32_t(streams.size());
            stream.header.assign(layout.header_bytes, 0);
            stream.identity = 0;
            stream.lag = below(20);
            streams.push_back(stream);
        }
        const std::size_t count = streams.size();
        plan->heads.assign(count, std::vector<std::uint64_t>(plan->stream_fields.size()));
        plan->wire = layout;
        plan->wire_fields = plan->stream_fields;
        const std::uint64_t parts =
            plan->part_bytes ? (plan->payload_bytes + plan->part_bytes - 1) / plan->part_bytes : 1;
        try {
            PacketMaker maker(plan, std::move(streams));
            std::vector<std::uint64_t> values(layout.fields.size() + 1);
            std::uint64_t sent = 0;
            std::vector<std::uint64_t> sent_by(count);
            std::int64_t last = 0;
            while (maker.due() != kNothingLeft) {
                if (maker.due() < last) fail("time goes back");
                last = maker.due();
                const auto room = std::make_unique<std::uint8_t[]>(maker.most_bytes());
                const Made packet = maker.make(room.get());
                if (packet.bytes < 1 || packet.bytes > maker.most_bytes() || packet.stream >= count)
                    fail("what is it?");
                if (!plan->faults.any()) {
                    const Verdict verdict = examine(layout, Packet(room.get(), packet.bytes), values.data());
                    const std::uint64_t number = static_cast<std::uint64_t>(verdict.count) / plan->step;
                    const std::uint8_t* payload = room.get() + layout.header_bytes;
                    if (verdict.reason != kValid) fail("not valid");
                    const std::size_t bytes = heaps ? verdict.bytes : plan->payload_bytes;
                    if (payload_differs(plan->filling, plan->seed, 0, number, payload, bytes, verdict.offset) != bytes)
                        fail("another payload");
                    if (verdict.offset != sent_by[packet.stream]++ % parts * plan->part_bytes) fail("another part");
                }
                ++sent;
                ++made;
            }
            std::uint64_t counted = 0, originals = 0;
            for (std::size_t at = 0; at < count; ++at) {
                counted += static_cast<std::uint64_t>(maker.counts(at).packets.get());
                for (std::uint32_t f = 0; f < kForeignStream; ++f)
                    originals += static_cast<std::uint64_t>(maker.counts(at).fates[f].get());
            }
            if (counted != sent || originals != count * plan->packets) fail("the counts are wrong");
            faults += maker.events_total();
        } catch (const std::invalid_argument&) {
            ++refused;  // such as timestamps beyond 63 bits
        }
    }
    std::printf("%llu %llu %llu\n", (unsigned long long)made, (unsigned long long)faults, (unsigned long long)refused);
}
