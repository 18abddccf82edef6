#include "assembly_plan.h"

#include <stdexcept>
#include <string>

namespace ryle {
namespace {

constexpr std::int64_t kAlign = 4096;

// Bytes that a payload's place spans, so that checking the corners checks all of it.
std::int64_t extent(const Plan& plan) {
    std::int64_t bytes = plan.run_bytes;
    for (const Loop& loop : plan.loops) bytes += (loop.count - 1) * loop.to;
    return bytes;
}

void check(const Plan& plan) {
    const auto demand = [](bool right, const char* what) {
        if (!right) throw std::invalid_argument(what);
    };
    constexpr std::int64_t most = std::int64_t{1} << 40;
    check(plan.layout);
    demand(!plan.heads.empty() && plan.heads.size() <= 1 << 20, "a plan has 1 to 2^20 heads");
    demand(plan.packets >= 1 && plan.packets <= 1 << 24, "a chunk has 1 to 2^24 packets of a head");
    demand(plan.step >= 1 && plan.step <= std::int64_t{1} << 40, "step must be 1 to 2^40");
    demand(plan.packets * plan.step < std::int64_t{1} << 52, "a chunk must last less than 2^52 units of time");
    demand(plan.origin >= 0 && plan.origin < std::int64_t{1} << 62, "origin must be 0 to 2^62");
    demand(plan.window >= 0 && plan.skew >= 0 && plan.outage >= 0, "window, skew and outage must not be negative");
    demand(
        plan.window < std::int64_t{1} << 52 && plan.skew < std::int64_t{1} << 52 && plan.outage < std::int64_t{1} << 60,
        "window and skew must be less than 2^52, outage less than 2^60");
    demand(plan.payload_bytes >= 1 && plan.payload_bytes <= 65535, "a payload has 1 to 65535 bytes");
    demand(plan.slots >= 2 && plan.slots <= 1 << 16, "a ring has 2 to 65536 chunks");
    demand(data_bytes(plan) < most, "a chunk must be smaller than 1 TiB");
    demand(plan.slots * slot_bytes(plan) < most, "a ring must be smaller than 1 TiB");
    std::int64_t bytes = plan.run_bytes, from = plan.run_bytes;
    for (const Loop& loop : plan.loops) {
        demand(loop.count >= 1 && loop.from >= 0 && loop.to >= 0, "a loop's numbers must not be negative");
        bytes *= loop.count;
        from += (loop.count - 1) * loop.from;
    }
    demand(plan.run_bytes >= 1 && bytes == plan.payload_bytes && from <= plan.payload_bytes,
           "the loops must copy the payload once");
    demand(plan.head_stride >= 0 && plan.packet_stride >= 0, "strides must not be negative");
    demand(static_cast<std::int64_t>(plan.heads.size() - 1) * plan.head_stride +
                   (plan.packets - 1) * plan.packet_stride + extent(plan) <=
               data_bytes(plan),
           "payloads must lie in the chunk");
    std::uint32_t width = 0;
    for (const std::uint32_t field : plan.key_fields) {
        demand(field < plan.layout.fields.size(), "a key names an unknown field");
        width += plan.layout.fields[field].width;
    }
    demand(width <= 96, "the fields that tell streams apart have more than 96 bits together");
    // Every valid packet must be as long as the plan says.
    std::uint64_t elements = plan.layout.parts;
    for (const Size& size : plan.layout.sizes) {
        demand(size.field < 0 || plan.layout.fields[size.field].low == plan.layout.fields[size.field].high,
               "the plan must say how large packets are");
        elements *= size.field < 0 ? size.value : plan.layout.fields[size.field].low;
        demand(elements <= 1 << 20, "a packet is too large");
    }
    demand((elements * plan.layout.bits + 7) / 8 == static_cast<std::uint64_t>(plan.payload_bytes),
           "payload_bytes must be what the sizes make");
}

}  // namespace

std::int64_t page_aligned(std::int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

std::int64_t data_bytes(const Plan& plan) {
    return static_cast<std::int64_t>(plan.heads.size()) * plan.packets * plan.payload_bytes;
}

std::int64_t cells(const Plan& plan) { return static_cast<std::int64_t>(plan.heads.size()) * plan.packets; }

std::int64_t slot_bytes(const Plan& plan) {
    return page_aligned(plan.pointers ? cells(plan) * 8 : data_bytes(plan)) + page_aligned(cells(plan));
}

std::int64_t checked_width(const Plan& plan) {
    check(plan);
    const std::int64_t span = plan.packets * plan.step, slack = plan.window + plan.skew;
    const std::int64_t width = slack == 0 ? 1 : 2 + (slack - 1) / span;
    if (width >= plan.slots) {
        throw std::invalid_argument("window and skew keep " + std::to_string(width) +
                                    " chunks open; use at least one chunk more than that");
    }
    return width;
}

}  // namespace ryle
