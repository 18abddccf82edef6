#include "transmit.h"

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_pause.h>

#include <algorithm>
#include <cstring>

namespace ryle::dpdk {
namespace {

constexpr unsigned kBurst = 32;

}  // namespace

std::size_t send(Port& port, unsigned queue, Pool& pool, std::span<const std::span<const std::uint8_t>> frames) {
    if (queue >= port.tx_queues()) throw Error("the port has no transmit queue " + std::to_string(queue));
    port.begin();
    for (std::size_t i = 0; i < frames.size(); ++i) {
        rte_mbuf* packet = rte_pktmbuf_alloc(pool.get());
        if (!packet) return i;
        char* to = frames[i].size() <= UINT16_MAX
                       ? rte_pktmbuf_append(packet, static_cast<std::uint16_t>(frames[i].size()))
                       : nullptr;
        if (!to) {
            rte_pktmbuf_free(packet);
            throw Error("a frame of " + std::to_string(frames[i].size()) + " bytes does not fit the pool's buffers");
        }
        std::memcpy(to, frames[i].data(), frames[i].size());
        if (port.send(queue, &packet, 1) != 1) {
            rte_pktmbuf_free(packet);
            return i;
        }
    }
    return frames.size();
}

Generator::Generator(std::shared_ptr<Port> port, unsigned queue, int core, std::shared_ptr<Pool> pool, Stamper stamper,
                     unsigned payload_bytes, double rate, std::uint64_t count, bool wait)
    : port_(std::move(port)),
      queue_(queue),
      core_(core),
      pool_(std::move(pool)),
      stamper_(std::move(stamper)),
      payload_bytes_(payload_bytes),
      rate_(rate),
      count_(count),
      wait_(wait) {
    if (queue_ >= port_->tx_queues()) throw Error("the port has no transmit queue " + std::to_string(queue_));
    if (stamper_.bytes() + payload_bytes_ > pool_->room()) throw Error("the packets do not fit the pool's buffers");
}

void Generator::start() {
    port_->begin();
    thread_.run("dpdk-tx" + std::to_string(queue_), core_, [this] { run(); });
}

void Generator::run() {
    rte_mbuf* packets[kBurst];
    const std::uint16_t bytes = static_cast<std::uint16_t>(stamper_.bytes() + payload_bytes_);
    const double ticks = rate_ > 0 ? static_cast<double>(rte_get_tsc_hz()) / rate_ : 0;
    std::uint64_t began = rte_rdtsc(), made = 0;
    while (!thread_.stopping() && (count_ == 0 || made < count_)) {
        unsigned n = count_ ? static_cast<unsigned>(std::min<std::uint64_t>(kBurst, count_ - made)) : kBurst;
        if (ticks > 0) {
            const std::uint64_t due = static_cast<std::uint64_t>(static_cast<double>(rte_rdtsc() - began) / ticks);
            if (due <= made) {
                rte_pause();
                continue;
            }
            n = static_cast<unsigned>(std::min<std::uint64_t>(n, due - made));
        }
        if (rte_pktmbuf_alloc_bulk(pool_->get(), packets, n) != 0) {
            if (wait_) {
                rte_pause();
                continue;
            }
            stamper_.skip(n);
            dropped_.add(n);
            made += n;
            continue;
        }
        for (unsigned i = 0; i < n; ++i) {
            packets[i]->data_len = bytes;
            packets[i]->pkt_len = bytes;
            stamper_.write(rte_pktmbuf_mtod(packets[i], std::uint8_t*));
        }
        unsigned done = 0;
        do {
            done += port_->send(queue_, packets + done, n - done);
            if (done < n) rte_pause();
        } while (done < n && wait_ && !thread_.stopping());
        if (done < n) {
            rte_pktmbuf_free_bulk(packets + done, n - done);
            dropped_.add(n - done);
        }
        sent_.add(done);
        made += n;
    }
}

Emulation::Emulation(std::shared_ptr<Port> port, unsigned queue, std::shared_ptr<Pool> payloads, Stamper stamper,
                     unsigned split_at, unsigned payload_bytes, double rate, std::uint64_t count)
    : port_(std::move(port)),
      queue_(queue),
      payloads_(std::move(payloads)),
      stamper_(std::move(stamper)),
      split_at_(split_at),
      payload_bytes_(payload_bytes),
      ticks_(rate > 0 ? static_cast<double>(rte_get_tsc_hz()) / rate : 0),
      left_(count ? count : UINT64_MAX) {
    if (queue_ >= port_->rx_queues()) throw Error("the port has no receive queue " + std::to_string(queue_));
    const std::size_t first = stamper_.bytes() + (payloads_ ? 0 : payload_bytes_);
    if (first > port_->pool(queue_)->room() || (payloads_ && payload_bytes_ > payloads_->stride()))
        throw Error("the packets do not fit the pool's buffers");
    if (payloads_ && split_at_ != stamper_.bytes()) throw Error("split packets behind their stamped headers");
    callback_ = rte_eth_add_rx_callback(port_->id(), static_cast<std::uint16_t>(queue_), fill, this);
    if (!callback_) fail("no callback on the port", rte_errno);
}

Emulation::~Emulation() {
    if (started() && callback_) rte_eth_remove_rx_callback(port_->id(), static_cast<std::uint16_t>(queue_), callback_);
}

std::uint16_t Emulation::fill(std::uint16_t, std::uint16_t, rte_mbuf* packets[], std::uint16_t n, std::uint16_t,
                              void* context) {
    Emulation& self = *static_cast<Emulation*>(context);
    rte_mbuf* payloads[256];
    std::uint64_t due = UINT64_MAX;
    if (self.ticks_ > 0) {
        if (!self.due_from_) self.due_from_ = rte_rdtsc();
        due = static_cast<std::uint64_t>(static_cast<double>(rte_rdtsc() - self.due_from_) / self.ticks_) - self.taken_;
    }
    const unsigned wanted = static_cast<unsigned>(std::min<std::uint64_t>({n, self.left_, due, 256}));
    self.taken_ += wanted;
    unsigned made = wanted;
    if (made && self.payloads_ && rte_pktmbuf_alloc_bulk(self.payloads_->get(), payloads, made) != 0) {
        self.stamper_.skip(made);
        self.no_buffer_.add(made);
        made = 0;
    }
    if (made < n) rte_pktmbuf_free_bulk(packets + made, n - made);
    const unsigned headers = static_cast<unsigned>(self.stamper_.bytes()), payload = self.payload_bytes_;
    for (unsigned i = 0; i < made; ++i) {
        rte_mbuf* packet = packets[i];
        self.stamper_.write(rte_pktmbuf_mtod(packet, std::uint8_t*));
        packet->pkt_len = headers + payload;
        if (self.payloads_) {
            rte_mbuf* rest = payloads[i];
            if (!self.payloads_->headroom()) rest->data_off = 0;
            rest->data_len = static_cast<std::uint16_t>(payload);
            packet->data_len = static_cast<std::uint16_t>(headers);
            packet->next = rest;
            packet->nb_segs = 2;
        } else {
            packet->data_len = static_cast<std::uint16_t>(headers + payload);
        }
    }
    self.made_.add(made);
    self.left_ -= wanted;
    return static_cast<std::uint16_t>(made);
}

}  // namespace ryle::dpdk
