#include "send.h"

#include <rte_pause.h>

#include <algorithm>
#include <cstring>

#include "frame.h"
#include "thread.h"

namespace ryle::dpdk {
namespace {

constexpr std::uint32_t kIpUdp = 20 + 8;

void put16(std::uint8_t* to, std::uint32_t value) {
    to[0] = static_cast<std::uint8_t>(value >> 8);
    to[1] = static_cast<std::uint8_t>(value);
}

}  // namespace

SendPort::SendPort(std::shared_ptr<dpdk::Port> device, unsigned queue, std::shared_ptr<Pool> pool,
                   std::vector<std::vector<std::uint8_t>> headers, std::uint32_t most_bytes, unsigned burst)
    : device_(std::move(device)), queue_(static_cast<std::uint16_t>(queue)), pool_(std::move(pool)), room_(0) {
    if (queue >= device_->tx_queues()) throw Error("the port has no transmit queue " + std::to_string(queue));
    if (headers.empty() || burst < 1 || burst > 256)
        throw Error("a sender needs streams and bursts of 1 to 256 packets");
    for (auto& bytes : headers) {
        if (bytes.size() < 14 + kIpUdp) throw Error("a stream's headers are Ethernet, IPv4 and UDP");
        room_ = std::max(room_, static_cast<std::uint32_t>(bytes.size()));
        const std::uint8_t* ip = bytes.data() + bytes.size() - kIpUdp;
        if (ip[0] != 0x45) throw Error("a stream's headers end with 20 bytes of IPv4 and 8 of UDP");
        std::uint32_t sum = 0;
        for (std::uint32_t at = 0; at < 20; at += 2)
            if (at != 2 && at != 10) sum += big16(ip + at);
        headers_.push_back({std::move(bytes), sum});
    }
    if (room_ + most_bytes > pool_->room())
        throw Error("packets of " + std::to_string(most_bytes) +
                    " bytes and their headers do not fit the pool's buffers");
    device_->begin();
    packets_.resize(burst);
    lent_.resize(burst);
}

SendPort::~SendPort() {
    if (started() && filled_) rte_pktmbuf_free_bulk(packets_.data(), filled_);
}

std::span<std::uint8_t* const> SendPort::buffers() {
    join_dpdk();
    while (filled_ < packets_.size()) {
        rte_mbuf* packet = rte_pktmbuf_alloc(pool_->get());
        if (!packet) {  // they come back as the device sends
            if (filled_ > 0) break;
            if (stop && *stop) throw Error("no buffer came back while the sender was asked to stop");
            rte_pause();
            continue;
        }
        packets_[filled_] = packet;
        lent_[filled_++] = rte_pktmbuf_mtod_offset(packet, std::uint8_t*, room_);
    }
    return {lent_.data(), filled_};
}

void SendPort::finish(rte_mbuf* packet, const Made& made) {
    const Header& header = headers_.at(made.stream);
    const std::uint32_t bytes = static_cast<std::uint32_t>(header.bytes.size());
    std::uint8_t* at = rte_pktmbuf_mtod_offset(packet, std::uint8_t*, room_ - bytes);
    std::memcpy(at, header.bytes.data(), bytes);
    std::uint8_t* ip = at + bytes - kIpUdp;
    std::uint32_t sum = header.sum + kIpUdp + made.bytes;
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    put16(ip + 2, kIpUdp + made.bytes);
    put16(ip + 10, ~sum);
    put16(ip + 24, 8 + made.bytes);
    put16(ip + 26, 0);  // no UDP checksum
    packet->data_off = static_cast<std::uint16_t>(packet->data_off + room_ - bytes);
    packet->data_len = static_cast<std::uint16_t>(bytes + made.bytes);
    packet->pkt_len = packet->data_len;
}

void SendPort::push(std::span<const Made> made, std::int64_t) {
    const unsigned n = static_cast<unsigned>(made.size());
    std::int64_t bytes = 0;
    for (unsigned i = 0; i < n; ++i) {
        finish(packets_[i], made[i]);
        bytes += made[i].bytes;
    }
    unsigned done = 0;
    while (done < n) {
        const unsigned taken = device_->send(queue_, packets_.data() + done, n - done);
        counts.calls.add();
        done += taken;
        if (taken) continue;
        counts.full.add();
        if (stop && *stop) break;
        rte_pause();
    }
    for (unsigned i = done; i < n; ++i) bytes -= made[i].bytes;
    if (done < n) rte_pktmbuf_free_bulk(packets_.data() + done, n - done);
    counts.packets.add(done);
    counts.bytes.add(bytes);
    std::move(packets_.begin() + n, packets_.begin() + filled_, packets_.begin());
    std::move(lent_.begin() + n, lent_.begin() + filled_, lent_.begin());
    filled_ -= n;
}

}  // namespace ryle::dpdk
