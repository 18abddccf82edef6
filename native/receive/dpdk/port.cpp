#include "port.h"

#include <rte_dev.h>
#include <rte_errno.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "eal.h"

namespace ryle::dpdk {
namespace {

std::uint16_t find(const std::string& device) {
    std::uint16_t id = RTE_MAX_ETHPORTS;
    if (rte_eth_dev_get_port_by_name(device.substr(0, device.find(',')).c_str(), &id) == 0) return id;
    rte_dev_iterator it;
    RTE_ETH_FOREACH_MATCHING_DEV(id, device.c_str(), &it) {
        rte_eth_iterator_cleanup(&it);
        return id;
    }
    return RTE_MAX_ETHPORTS;
}

}  // namespace

Port::Port(const std::string& device, std::vector<std::shared_ptr<Pool>> pools,
           std::vector<std::shared_ptr<Pool>> header_pools, unsigned header_bytes, unsigned tx_queues,
           unsigned descriptors, unsigned mtu, bool promiscuous)
    : pools_(std::move(pools)), header_pools_(std::move(header_pools)), tx_queues_(tx_queues) {
    if (!started()) throw Error("start DPDK before taking devices");
    if (!header_pools_.empty() && header_pools_.size() != pools_.size())
        throw Error("give one header pool a receive queue, or none");
    const bool fresh = find(device) == RTE_MAX_ETHPORTS;
    if (const int rc = fresh ? rte_dev_probe(device.c_str()) : 0; rc < 0) fail("no device " + device, rc);
    id_ = find(device);
    if (id_ == RTE_MAX_ETHPORTS) throw Error("device " + device + " gave no Ethernet port; is its driver loaded?");
    try {
        rte_eth_dev_info info;
        if (const int rc = rte_eth_dev_info_get(id_, &info)) fail(device + " says nothing of itself", rc);
        driver_ = info.driver_name;
        if (driver_ == "net_memif") {
            Gate::get().join();
            gated_ = true;
        }
        if (rx_queues() > info.max_rx_queues || tx_queues_ > info.max_tx_queues)
            throw Error(device + " has " + std::to_string(info.max_rx_queues) + " receive and " +
                        std::to_string(info.max_tx_queues) + " transmit queues; ask for no more");
        rte_eth_conf conf{};
        // Devices that state a longest frame refuse a larger MTU, and some (memif) then take longer frames all the
        // same.
        const std::uint64_t frame = info.max_rx_pktlen >= 64 ? info.max_rx_pktlen - 18 : 0;
        conf.rxmode.mtu =
            std::min<std::uint64_t>({mtu, info.max_mtu, std::max<std::uint64_t>(frame, RTE_ETHER_MIN_MTU)});
        const std::uint64_t checksums = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
        checks_ = (info.rx_offload_capa & checksums) == checksums;
        if (checks_) conf.rxmode.offloads |= checksums;
        splits_ = !header_pools_.empty();
        if (splits_ && !(info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT))
            throw Error(device + " (" + driver_ + ") cannot split headers from payloads; leave the header pools out");
        if (splits_) conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT | RTE_ETH_RX_OFFLOAD_SCATTER;
        const std::uint16_t rxq = static_cast<std::uint16_t>(rx_queues()), txq = static_cast<std::uint16_t>(tx_queues_);
        if (const int rc = rte_eth_dev_configure(id_, rxq, txq, &conf)) fail(device + " refused its queues", rc);
        std::uint16_t rx_ring = static_cast<std::uint16_t>(descriptors), tx_ring = rx_ring;
        rte_eth_dev_adjust_nb_rx_tx_desc(id_, &rx_ring, &tx_ring);
        const int socket = rte_eth_dev_socket_id(id_);
        for (unsigned q = 0; q < rx_queues(); ++q) {
            const auto& memory = pools_[q]->memory();
            if (memory.page && info.device &&
                std::find(mapped_.begin(), mapped_.end(), memory.address) == mapped_.end()) {
                const int rc = rte_dev_dma_map(info.device, reinterpret_cast<void*>(memory.address), memory.address,
                                               memory.bytes / memory.page * memory.page);
                if (rc == 0) mapped_.push_back(memory.address);
                if (rc && rte_errno != ENOTSUP) fail(device + " cannot reach the pool's memory", rte_errno);
            }
            rte_eth_rxconf rx = info.default_rxconf;
            rx.offloads = conf.rxmode.offloads;
            rte_eth_rxseg segments[2]{};
            if (splits_) {
                segments[0].split.mp = header_pools_[q]->get();
                segments[0].split.length = static_cast<std::uint16_t>(header_bytes);
                segments[1].split.mp = pools_[q]->get();
                rx.rx_seg = segments;
                rx.rx_nseg = 2;
            }
            const int rc = rte_eth_rx_queue_setup(id_, static_cast<std::uint16_t>(q), rx_ring, socket, &rx,
                                                  splits_ ? nullptr : pools_[q]->get());
            if (rc) fail(device + " refused receive queue " + std::to_string(q), rc);
        }
        for (unsigned q = 0; q < tx_queues_; ++q)
            if (const int rc = rte_eth_tx_queue_setup(id_, static_cast<std::uint16_t>(q), tx_ring, socket, nullptr))
                fail(device + " refused transmit queue " + std::to_string(q), rc);
        if (promiscuous) rte_eth_promiscuous_enable(id_);  // devices without it take everything anyway
    } catch (...) {
        release();
        throw;
    }
}

Port::~Port() { release(); }

void Port::release() {
    if (!started() || id_ == RTE_MAX_ETHPORTS) return;
    std::optional<Pass> pass(std::in_place, gated_);
    rte_eth_dev_info info;
    const bool known = rte_eth_dev_info_get(id_, &info) == 0;
    rte_flow_error error;
    if (!flows_.empty()) rte_flow_flush(id_, &error);
    if (begun_) rte_eth_dev_stop(id_);
    for (const auto& pool : pools_)
        if (std::find(mapped_.begin(), mapped_.end(), pool->memory().address) != mapped_.end()) {
            const auto& m = pool->memory();
            rte_dev_dma_unmap(info.device, reinterpret_cast<void*>(m.address), m.address, m.bytes / m.page * m.page);
            std::erase(mapped_, m.address);
        }
    rte_eth_dev_close(id_);
    if (known && info.device) rte_dev_remove(info.device);
    id_ = RTE_MAX_ETHPORTS;
    pass.reset();
    if (std::exchange(gated_, false)) Gate::get().leave();
}

std::string Port::address() const {
    rte_ether_addr mac;
    char text[RTE_ETHER_ADDR_FMT_SIZE] = "";
    if (rte_eth_macaddr_get(id_, &mac) == 0) rte_ether_format_addr(text, sizeof text, &mac);
    return text;
}

bool Port::up() const {
    rte_eth_link link{};
    return rte_eth_link_get_nowait(id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

std::string Port::steer(const std::vector<std::pair<std::uint16_t, unsigned>>& ports) {
    if (begun_) throw Error("steer packets before the port begins");
    for (const auto& [port, queue] : ports)
        if (queue >= rx_queues())
            throw Error("UDP port " + std::to_string(port) + " is steered to a queue that is none");
    wanted_ = ports;
    rte_flow_error error{};
    isolated_ = rte_flow_isolate(id_, 1, &error) == 0;
    begin();
    if (make_flows()) return isolated_ ? "isolated" : "flows";
    rte_flow_flush(id_, &error);
    flows_.clear();
    if (isolated_) {  // then nothing at all would arrive
        rte_eth_dev_stop(id_);
        rte_flow_isolate(id_, 0, &error);
        isolated_ = begun_ = false;
        begin();
    }
    return "software";
}

bool Port::make_flows() {
    for (const auto& [port, queue] : wanted_) {
        rte_flow_attr attr{};
        attr.ingress = 1;
        rte_flow_item_udp spec{}, mask{};
        spec.hdr.dst_port = rte_cpu_to_be_16(port);
        mask.hdr.dst_port = 0xffff;
        rte_flow_item pattern[4]{};
        pattern[0].type = RTE_FLOW_ITEM_TYPE_ETH;
        pattern[1].type = RTE_FLOW_ITEM_TYPE_IPV4;
        pattern[2].type = RTE_FLOW_ITEM_TYPE_UDP;
        pattern[2].spec = &spec;
        pattern[2].mask = &mask;
        pattern[3].type = RTE_FLOW_ITEM_TYPE_END;
        rte_flow_action_queue to{};
        to.index = static_cast<std::uint16_t>(queue);
        rte_flow_action actions[2]{};
        actions[0].type = RTE_FLOW_ACTION_TYPE_QUEUE;
        actions[0].conf = &to;
        actions[1].type = RTE_FLOW_ACTION_TYPE_END;
        rte_flow_error error{};
        rte_flow* flow = rte_flow_create(id_, &attr, pattern, actions, &error);
        if (!flow) return false;
        flows_.push_back(flow);
    }
    return !wanted_.empty();
}

void Port::begin() {
    if (begun_) return;
    if (const int rc = rte_eth_dev_start(id_)) fail("the port did not start", rc);
    begun_ = true;
}

PortStats Port::stats() const {
    rte_eth_stats s{};
    rte_eth_stats_get(id_, &s);
    return {s.ipackets, s.ibytes, s.imissed, s.ierrors, s.rx_nombuf, s.opackets, s.obytes, s.oerrors};
}

}  // namespace ryle::dpdk
