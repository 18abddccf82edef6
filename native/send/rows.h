// Rows on the wire: what an F-engine has laid out as [block][antenna][channel][pol][128] leaves as packets, each a
// header made here and a slice of the rows, which user space does not copy (wire/formats/ryle_rows.toml).
//
// Packets of a block go to one X-engine after the other, each gets all antennas; runs of equal packets are cut by the
// kernel (UDP_SEGMENT). Where nobody paces them they wait for receivers of this host to empty their sockets.
#pragma once
#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "counts.h"
#include "local_queue.h"

namespace ryle {

struct RowPlan {
    std::vector<std::uint32_t> antennas;  // numbers in the headers
    std::uint32_t channels = 0;           // of the band
    std::uint32_t share = 0;              // channels of an X-engine
    std::uint32_t packet_channels = 0;
    std::uint32_t pols = 0;
    std::uint32_t begin = 0;  // which X-engine is first: F-engines that begin apart do not meet at one
};

class RowSender {
  public:
    // `socket` stays the caller's and must outlive this; one endpoint an X-engine. Throws std::invalid_argument.
    RowSender(int socket, std::vector<sockaddr_storage> endpoints, RowPlan plan);
    ~RowSender();

    // Send blocks from `first_block` since sync: rows [block][antenna][channel][pol][128], validity words
    // [block][antenna][pol]. Returns early, with some packets not sent, after stop(). Throws std::system_error.
    void send(const std::uint8_t* rows, const std::uint64_t* words, std::int64_t blocks, std::int64_t first_block);
    // Bytes of UDP payload a second; 0: as receivers of this host take them.
    void pace(double rate) { rate_.store(rate, std::memory_order_relaxed); }
    double rate() const { return rate_.load(std::memory_order_relaxed); }
    // Let send() return soon, now and from now on; from any thread.
    void stop() { stop_.store(true, std::memory_order_relaxed); }

    // Packets sent, withheld as nothing in them was valid; bytes of UDP payload sent; calls of the kernel; times that
    // the way out was full, and that a receiver was waited for.
    Counter packets, withheld, bytes, calls, full, waits;
    const RowPlan& plan() const { return plan_; }
    bool segments() const { return segment_; }
    const LocalQueues& queues() const { return queues_; }

  private:
    struct Packet {
        const std::uint8_t* payload;
        std::uint32_t endpoint;
    };
    struct Work;
    void add(std::uint32_t endpoint, std::uint32_t antenna, std::uint32_t channel, std::int64_t block,
             const std::uint64_t* words, const std::uint8_t* payload);
    void flush();
    void push(std::size_t first);
    void wait_for_rate(std::size_t bytes);
    void wait_for_receiver(std::uint32_t endpoint, std::size_t bytes);
    std::size_t batch() const;

    int socket_;
    std::vector<sockaddr_storage> endpoints_;
    RowPlan plan_;
    LocalQueues queues_;
    std::vector<std::int64_t> unseen_;  // bytes sent to each endpoint since its socket was looked at
    std::uint32_t payload_bytes_;
    bool segment_ = true;
    std::atomic<double> rate_{0};
    std::atomic<bool> stop_{false};
    std::int64_t next_ = 0;  // ns of CLOCK_MONOTONIC from which the next packet may leave
    std::size_t most_ = 0;   // packets of the batch that is being made
    std::vector<Packet> made_;
    std::unique_ptr<Work> work_;
};

}  // namespace ryle
