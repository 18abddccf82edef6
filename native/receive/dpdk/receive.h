// One thread a receive queue: bursts of packets, their headers read, handed to a sink.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "port.h"
#include "receive/counter.h"
#include "receive/sink.h"
#include "retire.h"
#include "thread.h"

namespace ryle::dpdk {

struct QueueCounts {
    double cpu_seconds = 0, wall_seconds = 0;
    std::int64_t packets = 0, bytes = 0;  // frames received, and their bytes
    std::int64_t foreign = 0;             // frames that are no UDP, or to other ports
    std::int64_t malformed = 0;           // frames shorter than they say, with wrong checksums, in pieces
    std::int64_t starved = 0;             // datagrams dropped because too many buffers wait to be read
    std::int64_t delivered = 0;           // datagrams handed to the sink
    std::int64_t polls = 0, empty = 0;
    std::int64_t discarded = 0;  // frames that came before the start
    double busy = 0;             // share of the time since it began in which there were packets
};

class Receiver {
  public:
    // Receive what comes to `queues` of `port` (each on its core, -1: any) and is for one of `udp_ports` (empty: any;
    // a packet's place in this list is its Arrival::port). `returns`: keep buffers until the sink gives them back.
    // The sink must outlive the receiver.
    Receiver(std::shared_ptr<Port> port, std::vector<std::pair<unsigned, int>> queues,
             std::vector<std::uint16_t> udp_ports, Sink* sink, std::shared_ptr<Returns> returns, unsigned burst);
    ~Receiver() { stop(); }
    Receiver(const Receiver&) = delete;

    void start();
    void ask();  // the threads to end
    void stop();
    bool running() const;
    std::vector<QueueCounts> counts() const;

  private:
    struct Queue {
        unsigned number;
        int core;
        unsigned buffers_kept;  // at most, so that the device always has some
        Counter packets, bytes, foreign, malformed, starved, delivered, polls, empty, discarded;
        std::atomic<std::uint64_t> busy{0}, began{0}, ended{0};
        Thread thread;
    };
    void run(Queue& queue);
    void forget(Queue& queue);
    bool read(rte_mbuf* packet, Queue& queue, std::int64_t now, Arrival& out, std::uint8_t* joined) const;

    std::shared_ptr<Port> port_;
    std::vector<std::unique_ptr<Queue>> queues_;
    std::vector<std::uint16_t> index_;  // of UDP ports: place in the list + 1, 0 if not in it
    bool any_port_;
    Sink* sink_;
    const Senders* senders_;
    std::shared_ptr<Returns> returns_;
    unsigned burst_;
};

}  // namespace ryle::dpdk
