// Where packets go: a Port lends buffers, the sender writes packets into them, the port pushes them out.
//
// A port knows the addresses of the streams by their index; packets are UDP payloads. SocketPort is the kernel's way
// out; a port over DPDK lends the data of its mbufs, with room for Ethernet, IP and UDP headers before them.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "counts.h"

namespace ryle {

// A packet that stands in a buffer.
struct Made {
    std::uint32_t bytes = 0;
    std::uint32_t stream = 0;  // index in the plan
    std::int64_t due = 0;      // ns since the start
};

class Port {
  public:
    Port() = default;
    virtual ~Port() = default;
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;
    // Buffers for the packets of the next push, each with room for the source's most_bytes(); at least one.
    virtual std::span<std::uint8_t* const> buffers() = 0;
    // Send the packets that stand in the first made.size() buffers, in this order. Waits while the way out is full, so
    // that no packet is dropped here; throws std::system_error or std::runtime_error, saying what to do, if it cannot.
    // `start` is the clock's (CLOCK_MONOTONIC, ns) at which packets due at 0 leave.
    virtual void push(std::span<const Made> made, std::int64_t start) = 0;
    // Wait until everything pushed has left, where that can be known.
    virtual void flush() {}
    // How long before they are due packets may be pushed, ns: more than 0 if the port itself holds them until then.
    virtual std::int64_t ahead() const { return 0; }
    PortCounts counts;
    // Set while the sender is asked to stop: a port whose way out stays full then gives up.
    const std::atomic<bool>* stop = nullptr;
};

}  // namespace ryle
