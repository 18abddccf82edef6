// A network device: its queues, which packets come to which, its counters.
#pragma once
#include <rte_ethdev.h>
#include <rte_flow.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gate.h"
#include "pool.h"

namespace ryle::dpdk {

struct PortStats {
    std::uint64_t received, received_bytes, missed, errors, no_buffer, sent, sent_bytes, send_errors;
};

class Port {
  public:
    // Take `device` ("net_ring0", "net_memif0,role=server,id=0", "0000:41:00.0") with one receive queue a pool of
    // `pools` and `tx_queues` transmit queues. With `header_pools` (one a queue) the device splits frames: the first
    // `header_bytes` go to the header pool, the rest to the pool; Error if it cannot.
    Port(const std::string& device, std::vector<std::shared_ptr<Pool>> pools,
         std::vector<std::shared_ptr<Pool>> header_pools, unsigned header_bytes, unsigned tx_queues,
         unsigned descriptors, unsigned mtu, bool promiscuous);
    ~Port();
    Port(const Port&) = delete;

    std::uint16_t id() const { return id_; }
    unsigned rx_queues() const { return static_cast<unsigned>(pools_.size()); }
    unsigned tx_queues() const { return tx_queues_; }
    const std::string& driver() const { return driver_; }
    const std::shared_ptr<Pool>& pool(unsigned queue) const { return pools_.at(queue); }
    // Whether the device checks IPv4 and UDP checksums of what it receives.
    bool checks() const { return checks_; }
    bool splits() const { return splits_; }
    std::string address() const;
    bool up() const;
    // Whether others send to it: then packets may have come before anybody asked for them.
    bool heard() const { return driver_ != "net_null" && driver_ != "net_pcap" && driver_ != "net_ring"; }
    // Whether a process or the kernel fills its queues, and needs a core for it too.
    bool emulated() const { return driver_ == "net_memif" || driver_ == "net_af_packet"; }

    // Bring packets for UDP port `first` to queue `second`. Before `begin`. "isolated": nothing else arrives;
    // "flows": the rest arrives too; "software": the device has no such rules, every packet arrives anywhere.
    std::string steer(const std::vector<std::pair<std::uint16_t, unsigned>>& ports);
    void begin();
    // Take up to `n` packets from a queue, or give it some; how many. Neither races with the device's interrupts.
    unsigned receive(unsigned queue, rte_mbuf** packets, unsigned n) const {
        const Pass pass(gated_);
        return rte_eth_rx_burst(id_, static_cast<std::uint16_t>(queue), packets, static_cast<std::uint16_t>(n));
    }
    unsigned send(unsigned queue, rte_mbuf** packets, unsigned n) const {
        const Pass pass(gated_);
        return rte_eth_tx_burst(id_, static_cast<std::uint16_t>(queue), packets, static_cast<std::uint16_t>(n));
    }
    PortStats stats() const;

  private:
    void release();
    std::uint16_t id_ = RTE_MAX_ETHPORTS;
    std::string driver_;
    std::vector<std::shared_ptr<Pool>> pools_, header_pools_;
    unsigned tx_queues_;
    bool checks_ = false, splits_ = false, isolated_ = false, begun_ = false, gated_ = false;
    std::vector<std::uintptr_t> mapped_;
    std::vector<std::pair<std::uint16_t, unsigned>> wanted_;
    std::vector<rte_flow*> flows_;
    bool make_flows();
};

}  // namespace ryle::dpdk
