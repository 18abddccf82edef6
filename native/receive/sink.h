// What every source of packets hands them to.
//
// A sink is called through its vtable alone, so that a source may live in another shared library (DPDK's does).
#pragma once
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "senders.h"
#include "turns.h"

namespace ryle {

// ns since 1970, as the kernel stamps packets.
inline std::int64_t unix_now() {
    timespec t{};
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

// One received packet (a UDP payload).
struct Arrival {
    const std::uint8_t* data = nullptr;     // its first byte; only header bytes are read if `payload` is set
    std::uint32_t size = 0;                 // bytes of header, samples and trailer together
    std::uint32_t port = 0;                 // which of the source's ports it came to, from 0
    const std::uint8_t* payload = nullptr;  // where its samples lie, if not behind the header (header split)
    void* buffer = nullptr;                 // pointer mode: what to give back when the samples are no longer needed
    std::int64_t arrived = 0;               // ns since 1970 at which the kernel (or a capture) saw it; 0: unknown
    std::uint64_t sender = 0;               // Senders::key() of where it came from; 0: unknown
};

class Sink {
  public:
    virtual ~Sink() = default;
    // Take packets, from any thread. When it returns the packets may be overwritten; in pointer mode, once their
    // buffers have been given back.
    virtual void take(std::span<const Arrival> packets) = 0;
    // The same when it is a number's turn; what does not depend on order is done before it and after it, beside others.
    virtual void take_in_turn(std::span<const Arrival> packets, Turns& turns, std::uint64_t number) {
        if (!turns.wait(number)) return;
        take(packets);
        turns.pass();
    }
    // By what packets' senders are told, if they are looked at; sources need not find out who they are else.
    virtual const Senders* senders() const { return nullptr; }
    // The calling thread found nothing to receive for a while; `now`: by the clock that gives packets their times.
    virtual void idle(std::int64_t now) { static_cast<void>(now); }
};

// Counts and forgets: what a receive mode costs by itself.
class Discard : public Sink {
  public:
    void take(std::span<const Arrival> packets) override {
        if (packets.empty()) return;
        std::int64_t bytes = 0, never = 0;
        for (const Arrival& packet : packets) bytes += packet.size;
        first_.compare_exchange_strong(never, packets.front().arrived, std::memory_order_relaxed);
        last_.store(packets.back().arrived, std::memory_order_relaxed);
        packets_.fetch_add(static_cast<std::int64_t>(packets.size()), std::memory_order_relaxed);
        bytes_.fetch_add(bytes, std::memory_order_relaxed);
    }
    std::int64_t packets() const { return packets_.load(std::memory_order_relaxed); }
    std::int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
    // When the first and the newest packet arrived; 0: unknown.
    std::int64_t first() const { return first_.load(std::memory_order_relaxed); }
    std::int64_t last() const { return last_.load(std::memory_order_relaxed); }

  private:
    std::atomic<std::int64_t> packets_{0}, bytes_{0}, first_{0}, last_{0};
};

}  // namespace ryle
