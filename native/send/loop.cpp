#include "loop.h"

#include <algorithm>
#include <ctime>
#include <vector>

namespace ryle {
namespace {

constexpr std::int64_t kSpin = 60'000;              // ns before its time from which on a thread does not sleep
constexpr std::int64_t kLongestSleep = 20'000'000;  // ns until it looks whether it is to stop
constexpr std::int64_t kTogether = 200'000;         // ns of overdue packets that are pushed at once

void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

}  // namespace

std::int64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec;
}

void wait_until(std::int64_t when, const std::atomic<bool>& stop) {
    for (;;) {
        const std::int64_t left = when - now_ns();
        if (left <= 0 || stop.load(std::memory_order_relaxed)) return;
        if (left <= kSpin) {
            relax();
            continue;
        }
        const std::int64_t sleep = std::min(left - kSpin, kLongestSleep);
        const timespec t{sleep / 1'000'000'000, sleep % 1'000'000'000};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &t, nullptr);
    }
}

void send_all(PacketSource& source, Port& port, std::int64_t start, std::int64_t until, const std::atomic<bool>& stop,
              LoopCounts& counts) {
    std::vector<Made> made;
    std::int64_t last_due = 0, last_push = start, now = now_ns();
    bool ending = false;
    port.stop = &stop;
    wait_until(start, stop);
    for (;;) {
        ending = ending || stop.load(std::memory_order_relaxed) || now >= until;
        if (ending) source.end();
        const std::int64_t due = source.due();
        if (due == kNothingLeft) break;
        now = now_ns();
        const std::span<std::uint8_t* const> buffers = port.buffers();
        const std::int64_t horizon = std::max(due + port.ahead(), std::min(now - start, due + kTogether));
        made.clear();
        do {
            made.push_back(source.make(buffers[made.size()]));
        } while (made.size() < buffers.size() && source.due() <= horizon);
        if (due > 0 && !ending) {  // what is due at once is not paced
            const std::int64_t ideal = start + due - port.ahead();
            const std::int64_t release = std::max(ideal, last_push + (due - last_due) / 5 * 4);
            if (release > (now = now_ns())) {
                wait_until(release, stop);
                counts.waited_ns.add(now_ns() - now);
            }
            now = now_ns();
            const std::int64_t behind = std::max<std::int64_t>(0, now - ideal);
            counts.behind_ns.add(behind - counts.behind_ns.get());
            counts.most_behind_ns.add(std::max<std::int64_t>(0, behind - counts.most_behind_ns.get()));
        }
        last_push = now;
        last_due = due;
        port.push(made, start);
        now = now_ns();
    }
    port.flush();
    counts.finished_ns.add(now_ns() - start - counts.finished_ns.get());
}

}  // namespace ryle
