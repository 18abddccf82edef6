// Deferred deallocation: buffers that nobody reads any more are freed one for one as packets arrive.
//
// A thread's cache of the pool is then neither empty when a packet needs a buffer nor overrun when a block of samples
// is done with: both would go to the pool that all threads share. So a buffer is freed by the thread that received it,
// whoever used it last.
#pragma once
#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "eal.h"
#include "pool.h"

namespace ryle::dpdk {

// The buffers waiting for one receiving thread.
class Retired {
  public:
    // From any thread.
    void add(rte_mbuf* const* buffers, std::size_t count) {
        std::lock_guard<std::mutex> lock(mutex_);
        blocks_.emplace_back(buffers, buffers + count);
        waiting_.fetch_add(count, std::memory_order_relaxed);
    }
    // From the receiving thread: free `most` of them, the longest waiting first. Says how many.
    unsigned free(unsigned most) {
        unsigned freed = 0;
        while (freed < most) {
            if (at_ == now_.size()) {
                if (waiting_.load(std::memory_order_relaxed) == 0) break;
                std::lock_guard<std::mutex> lock(mutex_);
                if (blocks_.empty()) break;
                now_ = std::move(blocks_.front());
                blocks_.pop_front();
                at_ = 0;
            }
            const unsigned n = static_cast<unsigned>(std::min<std::size_t>(most - freed, now_.size() - at_));
            const std::size_t ahead = std::min(at_ + 2 * n, now_.size());
            for (std::size_t i = at_ + n; i < ahead; ++i) {
                char* buffer = reinterpret_cast<char*>(now_[i]);
                for (int line = 0; line < 3; ++line)  // the mbuf, and what an external buffer shares
                    rte_prefetch0(buffer + line * RTE_CACHE_LINE_SIZE);
            }
            rte_pktmbuf_free_bulk(now_.data() + at_, n);
            at_ += n;
            freed += n;
        }
        waiting_.fetch_sub(freed, std::memory_order_relaxed);
        return freed;
    }
    std::size_t waiting() const { return waiting_.load(std::memory_order_relaxed); }

  private:
    std::mutex mutex_;
    std::deque<std::vector<rte_mbuf*>> blocks_;
    std::atomic<std::size_t> waiting_{0};
    std::vector<rte_mbuf*> now_;
    std::size_t at_ = 0;
};

// Where an assembler gives buffers back to: to the queue of the pool that they came from.
class Returns {
  public:
    explicit Returns(std::vector<std::shared_ptr<Pool>> pools) : pools_(std::move(pools)), queues_(pools_.size()) {
        for (auto& queue : queues_) queue = std::make_unique<Queue>();
        for (at_ = 0; at_ < pools_.size(); ++at_) rte_mempool_mem_iter(pools_[at_]->get(), note, this);
        std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
        others_.queue = pools_.size() - 1;
    }
    ~Returns() { drain(); }

    const Pool& pool(unsigned queue) const { return *pools_.at(queue); }
    // The form of Assembler::GiveBack.
    static void give_back(void* self, void* const* buffers, std::size_t count) {
        static_cast<Returns*>(self)->add(reinterpret_cast<rte_mbuf* const*>(buffers), count);
    }
    // Called by a queue's thread when it begins and when it ends; while it runs it alone frees the queue's buffers.
    void serve(unsigned queue) {
        mine = queues_.at(queue).get();
        mine->served = true;
    }
    void leave(unsigned queue) {
        std::lock_guard<std::mutex> lock(mutex_);
        Queue& q = *queues_.at(queue);
        q.served = false;
        mine = nullptr;
        q.freed.fetch_add(q.retired.free(~0u), std::memory_order_relaxed);
    }
    // Free `most` of the buffers that wait for this queue's thread.
    void free(unsigned queue, unsigned most) {
        Queue& q = *queues_[queue];
        if (const unsigned n = q.retired.free(most)) q.freed.fetch_add(n, std::memory_order_relaxed);
    }
    std::uint64_t freed(unsigned queue) const { return queues_[queue]->freed.load(std::memory_order_relaxed); }
    std::size_t waiting() const {
        std::size_t sum = 0;
        for (const auto& q : queues_) sum += q->retired.waiting();
        return sum;
    }

  private:
    struct Queue {
        Retired retired;
        std::atomic<std::uint64_t> freed{0};
        std::atomic<bool> served{false};
    };
    void add(rte_mbuf* const* buffers, std::size_t count) {
        if (!started()) return;
        for (std::size_t at = 0; at < count;) {
            const Range& range = of(buffers[at]);
            std::size_t end = at + 1;
            while (end < count && range.has(buffers[end])) ++end;
            Queue& q = *queues_[range.queue];
            if (&q == mine) {  // refused as soon as it came
                rte_pktmbuf_free_bulk(const_cast<rte_mbuf**>(buffers + at), static_cast<unsigned>(end - at));
                q.freed.fetch_add(end - at, std::memory_order_relaxed);
            } else {
                std::lock_guard<std::mutex> lock(mutex_);
                q.retired.add(buffers + at, end - at);
                if (!q.served) q.freed.fetch_add(q.retired.free(~0u), std::memory_order_relaxed);
            }
            at = end;
        }
    }
    // Memory of a pool's buffers. Whose a buffer is, its address tells: to look into it would be a cache miss for each.
    struct Range {
        std::uintptr_t begin = 0, end = 0;
        std::size_t queue = 0;
        bool has(const rte_mbuf* buffer) const {
            const auto at = reinterpret_cast<std::uintptr_t>(buffer);
            return begin <= at && at < end;
        }
    };
    static void note(rte_mempool*, void* self, rte_mempool_memhdr* memory, unsigned) {
        auto& mine = *static_cast<Returns*>(self);
        const auto begin = reinterpret_cast<std::uintptr_t>(memory->addr);
        mine.ranges_.push_back({begin, begin + memory->len, mine.at_});
    }
    const Range& of(const rte_mbuf* buffer) const {
        const auto at = reinterpret_cast<std::uintptr_t>(buffer);
        const auto next = std::upper_bound(ranges_.begin(), ranges_.end(), at,
                                           [](std::uintptr_t a, const Range& range) { return a < range.begin; });
        return next != ranges_.begin() && (next - 1)->has(buffer) ? *(next - 1) : others_;
    }
    void drain() {
        if (!started()) return;
        for (auto& q : queues_) q->retired.free(~0u);
    }
    std::vector<std::shared_ptr<Pool>> pools_;  // that a queue's packets (their first segments) are from
    std::vector<std::unique_ptr<Queue>> queues_;
    std::vector<Range> ranges_;  // in order of address
    Range others_;               // buffers that a virtual device handed on from a sender's pool
    std::size_t at_ = 0;         // pool that ranges are noted of
    std::mutex mutex_;
    static inline thread_local Queue* mine = nullptr;
};

}  // namespace ryle::dpdk
