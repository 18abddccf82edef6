// Fuzz target: any description, any plan, any packets through the parser and the assembler.
//
// Built with address and undefined-behaviour sanitizers. Every packet and the ring are allocations of their own, so
// that a byte read or written out of range is found; what must hold whatever arrives (accounts, zeros where packets are
// missing, each packet's bytes in its own place) is checked here. With clang, -fsanitize=fuzzer and -DRYLE_LIBFUZZER
// the input comes from libFuzzer; else main() makes it: `assembly SECONDS [SEED]`.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "draw.h"
#include "receive/assembler.h"
#include "receive/datagram.h"

namespace {

using namespace ryle;

std::uint64_t with_items = 0;  // valid packets of inspect_items
Counts reached;                // by all inputs together: a target that reaches nothing finds nothing

Plan make_plan(Draw& draw) {
    Plan plan;
    PacketLayout& layout = plan.layout;
    layout.header_bytes = static_cast<std::uint32_t>(draw.one_in(32) ? draw.upto(8) : 8 + draw.upto(32));
    const std::uint64_t fields = 1 + draw.upto(5);
    for (std::uint64_t f = 0; f < fields; ++f) {
        PacketField field{};
        const bool wrong = draw.one_in(64);  // then it most likely does not fit
        field.bytes = static_cast<std::uint32_t>(1 + draw.upto(7));
        const std::uint64_t room = layout.header_bytes - std::min(field.bytes, layout.header_bytes);
        field.byte = static_cast<std::uint32_t>(draw.upto(wrong ? 64 : room));
        field.shift = static_cast<std::uint32_t>(draw.upto(wrong ? 63 : 8 * field.bytes - 1));
        field.width = static_cast<std::uint32_t>(1 + draw.upto(wrong ? 63 : 8 * field.bytes - 1 - field.shift));
        if (f == 0 && draw.one_in(2)) field.shift = 0, field.width = 8 * field.bytes;
        field.big_endian = draw.one_in(2);
        field.high = ~std::uint64_t{0};
        if (draw.one_in(24)) field.low = draw.bits(1);
        layout.fields.push_back(field);
    }
    layout.trailers = {0};
    if (draw.one_in(4)) layout.trailers.push_back(static_cast<std::uint32_t>(draw.upto(8)));
    const std::array<std::uint32_t, 5> widths{1, 2, 4, 8, 16};
    layout.bits = widths[draw.upto(4)];
    layout.parts = static_cast<std::uint32_t>(1 + draw.upto(1));
    const std::uint64_t axes = 1 + draw.upto(2);
    std::uint64_t elements = layout.parts;
    for (std::uint64_t a = 0; a < axes; ++a) {
        layout.sizes.push_back({1 + draw.upto(6), -1});
        elements *= layout.sizes.back().value;
    }
    const std::int64_t bytes = static_cast<std::int64_t>((elements * layout.bits + 7) / 8);
    plan.parts = {{0, bytes, 0, false}};
    layout.timestamp.terms.push_back({0, 1 + draw.upto(20)});
    if (fields > 1 && draw.one_in(3)) layout.timestamp.terms.push_back({1, 1 + draw.bits(4)});
    const std::array<std::uint64_t, 5> periods{0, 256, 4096, 1000, std::uint64_t{1} << 63};
    layout.period = periods[draw.upto(4)];
    if (draw.one_in(4)) plan.key_fields.push_back(static_cast<std::uint32_t>(draw.upto(fields - 1)));
    plan.key_port = draw.one_in(2);
    const std::uint64_t heads = 1 + draw.upto(3);
    for (std::uint64_t h = 0; h < heads; ++h) {
        std::vector<std::uint64_t> values;
        for (std::size_t k = 0; k < plan.key_fields.size(); ++k) values.push_back(h);
        if (plan.key_port) values.push_back(h);
        plan.heads.push_back(values);
    }
    plan.step = static_cast<std::int64_t>(1 + draw.upto(4));
    plan.origin = static_cast<std::int64_t>(draw.one_in(3) ? draw.bits(7) : 0);
    plan.packets = static_cast<std::int64_t>(1 + draw.upto(12));
    plan.window = static_cast<std::int64_t>(draw.upto(40));
    plan.skew = static_cast<std::int64_t>(draw.upto(40));
    plan.outage = static_cast<std::int64_t>(draw.bits(draw.one_in(64) ? 2 : 1));
    plan.slots = static_cast<std::int64_t>(2 + draw.upto(12));
    const std::int64_t count = static_cast<std::int64_t>(heads);
    plan.data_bytes = count * plan.packets * bytes;
    plan.stride = bytes;
    plan.run_bytes = bytes;
    std::int64_t apart = plan.packets * bytes;
    if (draw.one_in(3)) {  // bytes of a payload apart from each other
        plan.run_bytes = 1;
        plan.loops = {{bytes, 1, count * plan.packets}};
        apart = plan.packets;
        plan.stride = 1;
    } else if (draw.one_in(3)) {  // heads take turns, some bytes between them
        apart = bytes + static_cast<std::int64_t>(draw.upto(8));
        plan.stride = count * apart;
        plan.data_bytes = plan.packets * plan.stride;
    }
    const bool reversed = draw.one_in(2);
    for (std::int64_t h = 0; h < count; ++h) plan.offsets.push_back(apart * (reversed ? count - 1 - h : h));
    for (std::uint64_t n = draw.upto(3); n > 0; --n)
        plan.notes.push_back(static_cast<std::uint32_t>(draw.upto(fields - 1)));
    plan.pointers = draw.one_in(5);
    if (draw.one_in(2)) plan.silence = std::chrono::nanoseconds(draw.bits(1));
    if (draw.one_in(2)) plan.linger = std::chrono::nanoseconds(draw.bits(1));
    if (draw.one_in(2)) plan.rate = std::pow(10.0, static_cast<double>(draw.upto(12)));
    plan.waits = draw.one_in(3);
    if (plan.waits && draw.one_in(2)) plan.skew = -1;
    return plan;
}

void write_field(std::vector<std::uint8_t>& packet, const PacketField& field, std::uint64_t value) {
    if (field.byte + field.bytes > packet.size()) return;
    for (std::uint32_t bit = 0; bit < field.width; ++bit) {
        const std::uint32_t at = field.shift + bit, byte = at / 8;
        std::uint8_t& b = packet[field.byte + (field.big_endian ? field.bytes - 1 - byte : byte)];
        b = static_cast<std::uint8_t>((b & ~(1u << at % 8)) | (value >> bit & 1) << at % 8);
    }
}

struct Stream {
    Assembler& assembler;
    std::multimap<void*, int> given;  // buffers handed over and not yet back
    std::mutex mutex;
    static void give_back(void* self, void* const* buffers, std::size_t count) {
        const std::lock_guard lock(static_cast<Stream*>(self)->mutex);
        auto& given = static_cast<Stream*>(self)->given;
        for (std::size_t i = 0; i < count; ++i) {
            const auto found = given.find(buffers[i]);
            demand(found != given.end(), "a buffer comes back once");
            given.erase(found);
        }
    }
};

void check_counts(const Assembler& assembler) {
    const Counts c = assembler.counts();
    demand(c.received == c.placed + c.late + c.duplicate + c.malformed + c.foreign + c.ring_full, "datagrams add up");
    std::int64_t faults = 0;
    for (const std::int64_t n : c.faults) faults += n;
    demand(faults == c.malformed, "reasons add up");
    std::vector<HeadCounts> heads(assembler.plan().heads.size());
    assembler.head_counts(heads);
    HeadCounts sum;
    for (const HeadCounts& h : heads) {
        demand(h.missing >= 0 && h.placed >= 0, "counts are not negative");
        sum.placed += h.placed, sum.late += h.late, sum.duplicate += h.duplicate, sum.missing += h.missing;
        sum.ring_full += h.ring_full;
    }
    demand(sum.placed == c.placed && sum.late == c.late && sum.duplicate == c.duplicate && sum.missing == c.missing &&
               sum.ring_full == c.ring_full,
           "heads add up");
    demand(c.open + c.ready + c.taken + c.free == assembler.plan().slots, "chunks are all somewhere");
}

// Of an epoch no number is left out, and nothing comes twice.
struct Order {
    std::int64_t epoch = -1, number = 0;
    void follow(const Chunk& chunk) {
        demand(chunk.epoch > epoch || (chunk.epoch == epoch && chunk.number == number + 1), "no chunk is left out");
        epoch = chunk.epoch;
        number = chunk.number;
    }
};

void check_chunk(const Plan& plan, const Chunk& chunk) {
    std::int64_t placed = 0;
    for (std::int64_t h = 0; h < static_cast<std::int64_t>(plan.heads.size()); ++h)
        for (std::int64_t p = 0; p < plan.packets; ++p) {
            const std::int64_t cell = h * plan.packets + p;
            placed += chunk.present[cell];
            for (std::size_t n = 0; n < plan.notes.size() && !chunk.present[cell]; ++n)
                demand(chunk.notes[cell * plan.notes.size() + n] == 0, "notes are of present packets");
            if (plan.pointers) {
                demand((chunk.addresses[cell] != 0) == (chunk.present[cell] != 0), "addresses are of present packets");
                continue;
            }
            const std::uint8_t* at = chunk.data + plan.offsets[h] + p * plan.stride;
            const std::int64_t stride = plan.loops.empty() ? 1 : plan.loops[0].to;
            for (std::int64_t b = 0; b < plan.parts[0].bytes; ++b) {
                const std::uint8_t want = chunk.present[cell] ? at[0] : 0;  // a payload is one byte over and over
                demand(at[b * stride] == want, "payloads are whole, and zeros where they are missing");
                demand(!chunk.present[cell] || want != 0, "no payload is zero");
            }
        }
    demand(placed == chunk.placed, "chunks know what they hold");
}

void assemble(Draw& draw) {
    Plan plan;
    std::unique_ptr<std::uint8_t, decltype(&std::free)> memory(nullptr, &std::free);
    std::unique_ptr<Assembler> made;
    try {
        plan = make_plan(draw);
        const std::size_t bytes = Assembler::memory_bytes(plan);
        if (bytes > 1 << 22) return;
        memory.reset(static_cast<std::uint8_t*>(std::aligned_alloc(4096, bytes)));
        std::memset(memory.get(), 0xff, bytes);
        made = std::make_unique<Assembler>(plan, memory.get());
    } catch (const std::invalid_argument&) {
        return;
    }
    Assembler& assembler = *made;
    Stream stream{assembler, {}, {}};
    assembler.on_give_back(&Stream::give_back, &stream);
    std::vector<Chunk*> held;
    Order order;
    const auto fetch = [&] {
        Chunk* chunk = assembler.next(std::chrono::nanoseconds(0));
        if (chunk == nullptr) return false;
        check_chunk(plan, *chunk);
        order.follow(*chunk);
        demand(assembler.is_void(*chunk) == (chunk->placed == 0), "void chunks hold nothing, others something");
        held.push_back(chunk);
        return true;
    };
    std::int64_t arrived = 0;
    std::uint64_t now = draw.one_in(2) ? draw.bits(8) : draw.bits(2);
    std::vector<std::unique_ptr<std::vector<std::uint8_t>>> alive;  // pointer mode reads them later
    while (!draw.empty()) {
        std::vector<Arrival> batch;
        for (std::uint64_t n = 1 + draw.upto(70); n > 0; --n) {
            auto packet = std::make_unique<std::vector<std::uint8_t>>(plan.layout.header_bytes + plan.parts[0].bytes);
            const std::uint64_t head = draw.upto(plan.heads.size());
            const std::uint64_t filling = 1 + draw.upto(254);
            std::fill(packet->begin() + plan.layout.header_bytes, packet->end(), static_cast<std::uint8_t>(filling));
            const std::uint64_t kind = draw.upto(15);
            std::uint64_t count = now;
            if (kind == 0) count -= draw.bits(1);
            if (kind == 1) count += draw.bits(1);
            if (kind == 2) count = now = draw.bits(8);
            if (kind > 2) now += draw.upto(2);
            for (const PacketField& field : plan.layout.fields) write_field(*packet, field, draw.one_in(4) ? head : 0);
            for (const std::uint32_t key : plan.key_fields) write_field(*packet, plan.layout.fields[key], head);
            write_field(*packet, plan.layout.fields[plan.layout.timestamp.terms[0].field], count);
            if (draw.one_in(16)) packet->resize(draw.upto(packet->size() + 2), 1);
            packet->shrink_to_fit();
            void* buffer = plan.pointers && draw.one_in(2) ? packet.get() : nullptr;
            if (buffer != nullptr) stream.given.emplace(buffer, 0);
            batch.push_back({packet->data(), static_cast<std::uint32_t>(packet->size()),
                             static_cast<std::uint32_t>(head), nullptr, buffer, arrived, 0});
            if (draw.one_in(2)) arrived += static_cast<std::int64_t>(draw.bits(1));
            if (draw.one_in(200)) arrived = draw.one_in(2) ? 0 : static_cast<std::int64_t>(draw.bits(5));
            alive.push_back(std::move(packet));
        }
        if (plan.waits) {  // somebody must consume meanwhile
            std::atomic<bool> taken{false};
            std::thread consumer([&] {
                while (!taken) {
                    Chunk* chunk = assembler.next(std::chrono::microseconds(100));
                    if (chunk == nullptr) continue;
                    check_chunk(plan, *chunk);
                    order.follow(*chunk);
                    assembler.release(chunk);
                }
            });
            for (Chunk* chunk : held) assembler.release(chunk);
            held.clear();
            assembler.take(batch);
            taken = true;
            consumer.join();
        } else {
            assembler.take(batch);
        }
        if (!plan.pointers) alive.clear();
        if (draw.one_in(9)) assembler.flush();
        if (draw.one_in(40)) assembler.reopen();
        if (draw.one_in(6)) assembler.idle(arrived + static_cast<std::int64_t>(draw.bits(2)));
        if (draw.one_in(3))
            while (fetch()) continue;
        while (!held.empty() && draw.one_in(2)) {
            assembler.release(held.back());
            held.pop_back();
        }
        check_counts(assembler);
    }
    assembler.finish();
    while (fetch()) continue;
    for (Chunk* chunk : held) assembler.release(chunk);
    check_counts(assembler);
    demand(stream.given.empty(), "every buffer comes back");
    const Counts c = assembler.counts();
    demand(c.free == plan.slots, "every chunk comes back");
    reached.placed += c.placed, reached.late += c.late, reached.duplicate += c.duplicate, reached.chunks += c.chunks;
    reached.malformed += c.malformed, reached.foreign += c.foreign, reached.ring_full += c.ring_full;
    reached.missing += c.missing, reached.resyncs += c.resyncs, reached.voids += c.voids;
}

void dissect(Draw& draw) {
    std::vector<std::uint8_t> frame(draw.upto(120));
    for (auto& byte : frame) byte = static_cast<std::uint8_t>(draw.bits(1));
    if (frame.size() > 10 && draw.one_in(2)) {  // nearly right, so that it gets further
        frame[0] = static_cast<std::uint8_t>(draw.one_in(2) ? 0x45 : 0x60);
        frame[9] = frame[6] = 17;
        if (draw.one_in(2)) frame[7] = frame[6] = 0;
    }
    frame.shrink_to_fit();
    const Datagram found = find_datagram(frame.data(), frame.size(), draw.one_in(2) ? 0x0800 : 0x86dd);
    if (!found.udp) return;
    demand(found.data >= frame.data() && found.data + found.size <= frame.data() + frame.size(),
           "datagrams lie inside");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Draw draw(data, size);
    if (draw.one_in(8))
        dissect(draw);
    else if (draw.one_in(4))
        with_items += inspect_items(draw);
    else
        assemble(draw);
    return 0;
}

#ifndef RYLE_LIBFUZZER
int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: assembly SECONDS [SEED]\n");
        return 2;
    }
    const double seconds = std::atof(argv[1]);
    const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::random_device{}();
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    std::fflush(stdout);
    std::mt19937_64 random(seed);
    std::vector<std::uint8_t> input;
    const auto begin = std::chrono::steady_clock::now();
    const auto elapsed = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    double said = 0;
    std::uint64_t runs = 0;
    for (; elapsed() < seconds; ++runs) {
        if (runs % 8 == 0 || input.empty()) {  // a new one, or the last with some bytes changed
            input.resize(16 + random() % 4096);
            for (auto& byte : input) byte = static_cast<std::uint8_t>(random());
        } else {
            for (int n = static_cast<int>(1 + random() % 8); n > 0; --n)
                input[random() % input.size()] = static_cast<std::uint8_t>(random());
        }
        LLVMFuzzerTestOneInput(input.data(), input.size());
        if (elapsed() - said > 30) {
            said = elapsed();
            std::printf("%.0f s: %llu inputs\n", said, static_cast<unsigned long long>(runs));
            std::fflush(stdout);
        }
    }
    const auto say = [](const char* what, std::int64_t n) {
        std::printf(", %lld %s", static_cast<long long>(n), what);
    };
    std::printf("%llu inputs, nothing found", static_cast<unsigned long long>(runs));
    say("placed", reached.placed), say("late", reached.late), say("duplicate", reached.duplicate);
    say("malformed", reached.malformed), say("foreign", reached.foreign), say("ring full", reached.ring_full);
    say("missing", reached.missing), say("resyncs", reached.resyncs), say("chunks", reached.chunks);
    say("voids", reached.voids), say("valid with items", static_cast<std::int64_t>(with_items));
    std::printf("\n");
    return 0;
}
#endif
