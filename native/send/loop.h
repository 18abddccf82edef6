// From a PacketSource through a Port at the right time.
#pragma once
#include <atomic>
#include <cstdint>

#include "maker.h"
#include "port.h"

namespace ryle {

// CLOCK_MONOTONIC, ns.
std::int64_t now_ns();
// Sleep until shortly before `when`, then look at the clock until it has come, or `stop` is set.
void wait_until(std::int64_t when, const std::atomic<bool>& stop);

struct LoopCounts {
    Counter behind_ns;       // by how much the last push was late
    Counter most_behind_ns;  // the most so far
    Counter waited_ns;       // spent waiting until packets were due
    Counter finished_ns;     // when the last packet had left, since the start
};

// Send what `source` makes until it ends or `stop` is set. Packets due together are made before they are due and pushed
// at once. A sender that fell behind (the host took the CPU away, the way out was full) catches up at 1.25 times its
// rate, not at full speed. `start` and `until` are of now_ns(); no packet is begun at `until` or later.
void send_all(PacketSource& source, Port& port, std::int64_t start, std::int64_t until, const std::atomic<bool>& stop,
              LoopCounts& counts);

}  // namespace ryle
