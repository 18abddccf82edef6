#include "assembly_plan.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace ryle {
namespace {

constexpr std::int64_t kAlign = 4096;
constexpr std::int64_t kMost = std::int64_t{1} << 40;
constexpr std::int64_t kMostIrregular = 64;  // parts that are searched one by one

void demand(bool right, const char* what) {
    if (!right) throw std::invalid_argument(what);
}

// Bytes that a cell spans, so that checking the corners checks all of it.
std::int64_t extent(const Plan& plan) {
    std::int64_t bytes = 0;
    for (const Part& part : plan.parts) bytes = std::max(bytes, part.place + part.bytes);
    if (plan.loops.empty()) return bytes;
    bytes = plan.run_bytes;
    for (const Loop& loop : plan.loops) bytes += (loop.count - 1) * loop.to;
    return bytes;
}

void check_time(const Plan& plan) {
    demand(plan.step >= 1 && plan.step <= std::int64_t{1} << 40, "step must be 1 to 2^40");
    demand(plan.packets * plan.step < std::int64_t{1} << 52, "a chunk must last less than 2^52 units of time");
    demand(plan.origin >= 0 && plan.origin < std::int64_t{1} << 62, "origin must be 0 to 2^62");
    demand(plan.window >= 0 && plan.skew >= -1 && plan.outage >= 0, "window, skew and outage must not be negative");
    demand(plan.rate >= 0 && plan.rate <= 1e18, "rate must be 0 to 1e18");
    demand(plan.skew >= 0 || plan.waits, "only a plan that waits may leave the skew out");
    demand(
        plan.window < std::int64_t{1} << 52 && plan.skew < std::int64_t{1} << 52 && plan.outage < std::int64_t{1} << 60,
        "window and skew must be less than 2^52, outage less than 2^60");
}

void check_parts(const Plan& plan) {
    demand(!plan.parts.empty() && plan.parts.size() <= 1 << 24, "a cell has 1 to 2^24 parts");
    std::int64_t end = 0;
    for (const Part& part : plan.parts) {
        demand(part.bytes >= 1 && part.bytes <= 65535, "a part has 1 to 65535 bytes");
        demand(part.offset >= end, "parts are listed in order of their offsets and do not overlap");
        demand(part.offset < kMost && part.place >= 0 && part.place < kMost, "a part lies outside its cell");
        end = part.offset + part.bytes;
    }
    std::vector<std::pair<std::int64_t, std::int64_t>> places;
    for (const Part& part : plan.parts) places.emplace_back(part.place, part.place + part.bytes);
    std::sort(places.begin(), places.end());
    for (std::size_t i = 1; i < places.size(); ++i)
        demand(places[i].first >= places[i - 1].second, "two parts have the same place");
    const Parts parts(plan.parts);
    demand(parts.expected() >= 1, "a cell needs a part that is not optional");
}

// Heads whose offsets are given must not share bytes.
void check_apart(const Plan& plan, std::int64_t bytes) {
    bool in_turn = plan.stride >= bytes;  // one head behind the other, as they lie if nothing else is asked for
    for (std::size_t h = 1; h < plan.offsets.size(); ++h)
        in_turn &= plan.offsets[h] - plan.offsets[h - 1] >= plan.packets * plan.stride;
    if (in_turn) return;
    std::vector<std::int64_t> at;
    for (const std::int64_t offset : plan.offsets)
        for (std::int64_t p = 0; p < plan.packets; ++p) at.push_back(offset + p * plan.stride);
    std::sort(at.begin(), at.end());
    for (std::size_t i = 1; i < at.size(); ++i) demand(at[i] - at[i - 1] >= bytes, "two packets have the same place");
}

void check_place(const Plan& plan) {
    demand(plan.slots >= 2 && plan.slots <= 1 << 16, "a ring has 2 to 65536 chunks");
    demand(plan.data_bytes >= 1 && plan.data_bytes < kMost, "a chunk must be smaller than 1 TiB");
    demand(plan.slots * slot_bytes(plan) < kMost, "a ring must be smaller than 1 TiB");
    demand(plan.parts.size() == 1 || plan.loops.empty(), "packets that are parts of a heap cannot be reordered");
    if (plan.parts.size() == 1) {
        std::int64_t bytes = plan.run_bytes, from = plan.run_bytes;
        for (const Loop& loop : plan.loops) {
            demand(loop.count >= 1 && loop.from >= 0 && loop.to >= 0, "a loop's numbers must not be negative");
            bytes *= loop.count;
            from += (loop.count - 1) * loop.from;
        }
        demand(plan.run_bytes >= 1 && bytes == plan.parts[0].bytes && from <= plan.parts[0].bytes,
               "the loops must copy the payload once");
    }
    demand(plan.offsets.size() == plan.heads.size(), "give one offset a head");
    demand(plan.stride >= 0 && plan.stride < kMost, "strides must not be negative");
    const std::int64_t last = (plan.packets - 1) * plan.stride + extent(plan);
    for (const std::int64_t offset : plan.offsets)
        demand(offset >= 0 && offset + last <= plan.data_bytes, "payloads must lie in the chunk");
    if (plan.loops.empty()) check_apart(plan, extent(plan));
}

void check_packets(const Plan& plan) {
    std::uint32_t width = 0;
    for (const std::uint32_t field : plan.key_fields) {
        demand(field < plan.layout.fields.size(), "a key names an unknown field");
        width += plan.layout.fields[field].width;
    }
    demand(width <= 96, "the fields that tell streams apart have more than 96 bits together");
    demand(plan.notes.size() <= kMostNotes, "a plan keeps at most 16 fields");
    for (const std::uint32_t field : plan.notes)
        demand(field < plan.layout.fields.size(), "a note names an unknown field");
}

}  // namespace

Parts::Parts(const std::vector<Part>& parts) {
    const std::int64_t count = static_cast<std::int64_t>(parts.size());
    bytes_ = static_cast<std::uint64_t>(parts[0].bytes);
    place_ = parts[0].place;
    place_step_ = count > 1 ? parts[1].place - place_ : 0;
    while (regular_ < count && !parts[regular_].optional && parts[regular_].offset == regular_ * parts[0].bytes &&
           parts[regular_].bytes == parts[0].bytes && parts[regular_].place == place_ + regular_ * place_step_)
        ++regular_;
    regular_end_ = static_cast<std::uint64_t>(regular_) * bytes_;
    rest_.assign(parts.begin() + regular_, parts.end());
    if (count - regular_ > kMostIrregular)
        throw std::invalid_argument("all parts of a heap but the last ones must be equally long and equally spaced");
    for (const Part& part : parts) expected_ += !part.optional;
}

std::int64_t page_aligned(std::int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

std::int64_t cells(const Plan& plan) { return static_cast<std::int64_t>(plan.heads.size()) * plan.packets; }

std::int64_t marks(const Plan& plan) { return cells(plan) * static_cast<std::int64_t>(plan.parts.size()); }

std::int64_t body_bytes(const Plan& plan) { return page_aligned(plan.pointers ? marks(plan) * 8 : plan.data_bytes); }

std::int64_t slot_bytes(const Plan& plan) {
    const std::int64_t notes = static_cast<std::int64_t>(plan.notes.size()) * cells(plan) * 8;
    return body_bytes(plan) + page_aligned(marks(plan)) + page_aligned(notes);
}

std::int64_t checked_width(const Plan& plan) {
    check(plan.layout);
    demand(!plan.heads.empty() && plan.heads.size() <= 1 << 20, "a plan has 1 to 2^20 heads");
    demand(plan.packets >= 1 && plan.packets <= 1 << 24, "a chunk has 1 to 2^24 packets of a head");
    check_time(plan);
    check_parts(plan);
    check_place(plan);
    check_packets(plan);
    if (plan.skew < 0) return plan.slots;
    const std::int64_t span = plan.packets * plan.step, slack = plan.window + plan.skew;
    const std::int64_t width = slack == 0 ? 1 : 2 + (slack - 1) / span;
    if (width >= plan.slots) {
        throw std::invalid_argument("window and skew keep " + std::to_string(width) +
                                    " chunks open; use at least one chunk more than that");
    }
    return width;
}

}  // namespace ryle
