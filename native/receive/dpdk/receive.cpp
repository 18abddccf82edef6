#include "receive.h"

#include <rte_cycles.h>
#include <rte_pause.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <cstring>

#include "frame.h"

namespace ryle::dpdk {
namespace {

constexpr unsigned kMostBurst = 64;
constexpr std::size_t kMostFrame = 65536;
constexpr std::uint64_t kForget = 10;      // 1/s: what came before the start is out of the queue after so long
constexpr std::uint64_t kRestless = 4000;  // 1/s: an emulated device that is silent for so long is asked less often
constexpr timespec kNap{0, 50'000};

}  // namespace

Receiver::Receiver(std::shared_ptr<Port> port, std::vector<std::pair<unsigned, int>> queues,
                   std::vector<std::uint16_t> udp_ports, Sink* sink, std::shared_ptr<Returns> returns, unsigned burst)
    : port_(std::move(port)),
      index_(udp_ports.empty() ? 1 : 65536),
      any_port_(udp_ports.empty()),
      sink_(sink),
      senders_(sink != nullptr ? sink->senders() : nullptr),
      returns_(std::move(returns)),
      burst_(burst) {
    if (!sink_) throw Error("a receiver needs a sink");
    if (burst_ < 1 || burst_ > kMostBurst) throw Error("a burst is 1 to 64 packets");
    for (std::size_t i = 0; i < udp_ports.size(); ++i) index_[udp_ports[i]] = static_cast<std::uint16_t>(i + 1);
    for (const auto& [number, core] : queues) {
        if (number >= port_->rx_queues()) throw Error("the port has no receive queue " + std::to_string(number));
        auto queue = std::make_unique<Queue>();
        queue->number = number;
        queue->core = core;
        rte_eth_rxq_info info{};
        const bool known = rte_eth_rx_queue_info_get(port_->id(), static_cast<std::uint16_t>(number), &info) == 0;
        const Pool& pool = returns_ ? returns_->pool(number) : *port_->pool(number);
        const unsigned cached = pool.get()->cache_size * 3 / 2;
        const unsigned aside = (known ? info.nb_desc : 0u) + cached + 2 * burst_;
        if (returns_ && pool.buffers() <= aside)
            throw Error("a pool of " + std::to_string(pool.buffers()) +
                        " buffers is too small: the device and the cache take " + std::to_string(aside));
        queue->buffers_kept = pool.buffers() - std::min(aside, pool.buffers());
        queues_.push_back(std::move(queue));
    }
}

void Receiver::start() {
    port_->begin();
    for (auto& queue : queues_)
        queue->thread.run("dpdk-rx" + std::to_string(queue->number), queue->core, [this, q = queue.get()] { run(*q); });
}

void Receiver::ask() {
    for (auto& queue : queues_) queue->thread.ask();
}

bool Receiver::running() const {
    return std::any_of(queues_.begin(), queues_.end(), [](const auto& q) { return q->thread.running(); });
}

void Receiver::stop() {
    for (auto& queue : queues_) queue->thread.stop();
}

bool Receiver::read(rte_mbuf* packet, Queue& queue, std::int64_t now, Arrival& out, std::uint8_t* joined) const {
    const std::uint64_t wrong = RTE_MBUF_F_RX_IP_CKSUM_BAD, wrong_udp = RTE_MBUF_F_RX_L4_CKSUM_BAD;
    if (port_->checks() && ((packet->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) == wrong ||
                            (packet->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == wrong_udp)) {
        queue.malformed.add();
        return false;
    }
    const std::uint8_t* data = rte_pktmbuf_mtod(packet, const std::uint8_t*);
    Datagram datagram;
    switch (read_headers(data, packet->data_len, packet->pkt_len, datagram)) {
        case Frame::foreign:
            queue.foreign.add();
            return false;
        case Frame::malformed:
            queue.malformed.add();
            return false;
        case Frame::datagram:
            break;
    }
    const std::uint16_t place = any_port_ ? 1 : index_[datagram.port];
    if (place == 0) {
        queue.foreign.add();
        return false;
    }
    out = {data + datagram.start, datagram.bytes, static_cast<std::uint32_t>(place - 1), nullptr, nullptr, now};
    if (senders_) out.sender = senders_->key(data + datagram.sender, 4, datagram.sender_port);
    if (datagram.start + datagram.bytes > packet->data_len) {
        if (packet->nb_segs == 2 && packet->next->data_len >= datagram.start + datagram.bytes - packet->data_len) {
            out.payload = rte_pktmbuf_mtod(packet->next, const std::uint8_t*);  // the device split it
            if (returns_) {  // the headers' buffer is free as soon as they have been read
                out.buffer = packet->next;
                packet->next = nullptr;
                packet->nb_segs = 1;
                return true;
            }
        } else if (joined) {
            out.data =
                static_cast<const std::uint8_t*>(rte_pktmbuf_read(packet, datagram.start, datagram.bytes, joined));
        }
        if ((!out.payload && !joined) || !out.data) {
            queue.malformed.add();
            return false;
        }
    }
    out.buffer = packet;
    return true;
}

// Drop what came before the start: until the queue was empty once, as senders go on meanwhile.
void Receiver::forget(Queue& queue) {
    rte_mbuf* packets[kMostBurst];
    const std::uint64_t until = rte_rdtsc() + rte_get_tsc_hz() / kForget;
    while (!queue.thread.stopping() && rte_rdtsc() < until) {
        const unsigned n = port_->receive(queue.number, packets, burst_);
        if (n == 0) break;
        rte_pktmbuf_free_bulk(packets, n);
        queue.discarded.add(n);
    }
}

void Receiver::run(Queue& queue) {
    rte_mbuf* packets[kMostBurst];
    rte_mbuf* done[kMostBurst];
    Arrival arrivals[kMostBurst];
    // Frames in more pieces than headers and payload can be joined only where they are copied anyway.
    std::vector<std::uint8_t> room(returns_ ? 0 : burst_ * kMostFrame);
    const std::uint64_t patience = rte_get_tsc_hz() / 1000;
    const std::uint64_t restless = rte_get_tsc_hz() / kRestless;
    if (port_->heard()) forget(queue);
    std::uint64_t kept = 0, last = rte_rdtsc(), told = last, seen = last, busy = 0;
    queue.began = last;
    queue.ended = 0;
    const std::uint64_t freed_before = returns_ ? returns_->freed(queue.number) : 0;
    if (returns_) returns_->serve(queue.number);
    bool working = false;
    while (!queue.thread.stopping()) {
        const std::uint64_t now = rte_rdtsc();
        if (working) busy += now - last;
        last = now;
        const unsigned n = port_->receive(queue.number, packets, burst_);
        queue.polls.add();
        working = n != 0;
        if (n == 0) {
            queue.empty.add();
            if (returns_) returns_->free(queue.number, burst_);
            if (now - told > patience) {
                told = now;
                queue.busy.store(busy, std::memory_order_relaxed);
                sink_->idle(unix_now());
            }
            if (port_->emulated() && now - seen > restless)
                nanosleep(&kNap, nullptr);
            else
                rte_pause();
            continue;
        }
        seen = now;
        for (unsigned i = 0; i < n; ++i) rte_prefetch0(packets[i]);
        const std::int64_t arrived = unix_now();
        for (unsigned i = 0; i < n && i < 8; ++i) rte_prefetch0(rte_pktmbuf_mtod(packets[i], void*));
        unsigned good = 0, free = 0;
        std::int64_t bytes = 0;
        for (unsigned i = 0; i < n; ++i) {
            if (i + 8 < n) rte_prefetch0(rte_pktmbuf_mtod(packets[i + 8], void*));
            if (!returns_)
                for (unsigned line = 1; line < 6; ++line)  // copying finds its stride after a few lines
                    rte_prefetch0(rte_pktmbuf_mtod_offset(packets[i], void*, line* RTE_CACHE_LINE_SIZE));
            bytes += packets[i]->pkt_len;
            std::uint8_t* joined = room.empty() ? nullptr : room.data() + good * kMostFrame;
            if (!read(packets[i], queue, arrived, arrivals[good], joined))
                done[free++] = packets[i];
            else if (arrivals[good++].buffer != packets[i])
                done[free++] = packets[i];
        }
        queue.packets.add(n);
        queue.bytes.add(bytes);
        if (returns_) {
            const std::uint64_t out = kept - (returns_->freed(queue.number) - freed_before);
            const unsigned fit = static_cast<unsigned>(
                std::min<std::uint64_t>(good, queue.buffers_kept > out ? queue.buffers_kept - out : 0));
            kept += fit;
            queue.delivered.add(fit);
            if (fit) sink_->take({arrivals, fit});
            if (free) rte_pktmbuf_free_bulk(done, free);
            returns_->free(queue.number, n);
            if (fit < good) {
                queue.starved.add(good - fit);
                for (unsigned i = fit; i < good; ++i) rte_pktmbuf_free(static_cast<rte_mbuf*>(arrivals[i].buffer));
                if (now - told > patience) {  // so that what is open ends, although nothing moves time
                    told = now;
                    sink_->idle(unix_now());
                }
            }
        } else {
            queue.delivered.add(good);
            if (good) sink_->take({arrivals, good});
            rte_pktmbuf_free_bulk(packets, n);
        }
        if (now - told > patience) {
            told = now;
            queue.busy.store(busy, std::memory_order_relaxed);
        }
    }
    if (returns_) returns_->leave(queue.number);
    queue.busy.store(busy, std::memory_order_relaxed);
    queue.ended = rte_rdtsc();
}

std::vector<QueueCounts> Receiver::counts() const {
    std::vector<QueueCounts> all;
    for (const auto& q : queues_) {
        const std::uint64_t end = q->ended ? q->ended.load() : rte_rdtsc();
        const double since = q->began ? static_cast<double>(end - q->began) : 0;
        all.push_back({q->thread.cpu_seconds(), since / static_cast<double>(rte_get_tsc_hz()), q->packets.get(),
                       q->bytes.get(), q->foreign.get(), q->malformed.get(), q->starved.get(), q->delivered.get(),
                       q->polls.get(), q->empty.get(), q->discarded.get(),
                       since > 0 ? static_cast<double>(q->busy.load()) / since : 0});
    }
    return all;
}

}  // namespace ryle::dpdk
