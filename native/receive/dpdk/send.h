// The sender's way out through DPDK: packets are made in a pool's buffers, behind their Ethernet, IP and UDP headers.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "port.h"
#include "send/port.h"

namespace ryle::dpdk {

class SendPort : public ryle::Port {
  public:
    // `headers`: of each stream, Ethernet to UDP (IPv4 without options), lengths and checksum of any value.
    SendPort(std::shared_ptr<dpdk::Port> device, unsigned queue, std::shared_ptr<Pool> pool,
             std::vector<std::vector<std::uint8_t>> headers, std::uint32_t most_bytes, unsigned burst);
    ~SendPort() override;
    std::span<std::uint8_t* const> buffers() override;
    void push(std::span<const Made> made, std::int64_t start) override;

  private:
    struct Header {
        std::vector<std::uint8_t> bytes;
        std::uint32_t sum;  // of the IPv4 header without length and checksum
    };
    void finish(rte_mbuf* packet, const Made& made);
    std::shared_ptr<dpdk::Port> device_;
    std::uint16_t queue_;
    std::shared_ptr<Pool> pool_;
    std::vector<Header> headers_;
    std::uint32_t room_;  // bytes of the longest header
    std::vector<rte_mbuf*> packets_;
    std::vector<std::uint8_t*> lent_;
    unsigned filled_ = 0;  // buffers that stand ready
};

}  // namespace ryle::dpdk
