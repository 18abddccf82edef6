// Frames out: given ones, or made ones at a set pace; and made ones in the place of a device's (net_null).
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "port.h"
#include "receive/counter.h"
#include "stamp.h"
#include "thread.h"

namespace ryle::dpdk {

// Copy frames into buffers of `pool` and send them; false at the first that the device or the pool does not take.
std::size_t send(Port& port, unsigned queue, Pool& pool, std::span<const std::span<const std::uint8_t>> frames);

// A thread that makes and sends frames: a stamped header, then `payload_bytes` bytes as they lie in the buffer.
class Generator {
  public:
    // `rate` packets a second, 0: as fast as it goes. `count` packets, 0: until stopped. A packet that the device does
    // not take is tried again if `wait`, else dropped, as a network would.
    Generator(std::shared_ptr<Port> port, unsigned queue, int core, std::shared_ptr<Pool> pool, Stamper stamper,
              unsigned payload_bytes, double rate, std::uint64_t count, bool wait);
    ~Generator() { thread_.stop(); }
    void start();
    void stop() { thread_.stop(); }
    bool running() const { return thread_.running(); }
    std::int64_t sent() const { return sent_.get(); }
    std::int64_t dropped() const { return dropped_.get(); }

  private:
    void run();
    std::shared_ptr<Port> port_;
    unsigned queue_;
    int core_;
    std::shared_ptr<Pool> pool_;
    Stamper stamper_;
    unsigned payload_bytes_;
    double rate_;
    std::uint64_t count_;
    bool wait_;
    Counter sent_, dropped_;
    Thread thread_;
};

// Makes what a device without a network (net_null) receives look like packets: the device takes buffers from its
// pool and gives them back as a network interface would, and this writes their headers. `rate` packets a second, 0: as
// many as are asked for. With `payloads` each packet is
// split as such a device does it: headers in the device's buffer, the payload in one of `payloads`, untouched.
class Emulation {
  public:
    Emulation(std::shared_ptr<Port> port, unsigned queue, std::shared_ptr<Pool> payloads, Stamper stamper,
              unsigned split_at, unsigned payload_bytes, double rate, std::uint64_t count);
    ~Emulation();
    Emulation(const Emulation&) = delete;
    std::int64_t made() const { return made_.get(); }
    // Packets that came when there was no buffer for their payload.
    std::int64_t no_buffer() const { return no_buffer_.get(); }

  private:
    static std::uint16_t fill(std::uint16_t, std::uint16_t, rte_mbuf* packets[], std::uint16_t n, std::uint16_t,
                              void* self);
    std::shared_ptr<Port> port_;
    unsigned queue_;
    std::shared_ptr<Pool> payloads_;
    Stamper stamper_;
    unsigned split_at_, payload_bytes_;
    double ticks_;
    std::uint64_t left_, due_from_ = 0, taken_ = 0;
    Counter made_, no_buffer_;
    const rte_eth_rxtx_callback* callback_ = nullptr;
};

}  // namespace ryle::dpdk
