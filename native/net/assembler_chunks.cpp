// Chunks out: given to consumers, zeroed where nothing came, taken back; and all counts.
#include <algorithm>
#include <cstring>
#include <thread>

#include "assembler.h"

namespace ryle {

Chunk* Assembler::next(std::chrono::nanoseconds timeout) {
    Chunk* chunk = nullptr;
    {
        std::unique_lock lock(mutex_);
        const auto deadline = std::chrono::steady_clock::now() + timeout;
        while (ready_.empty() && !finished_) {
            const auto now = std::chrono::steady_clock::now();
            if (now >= deadline) return nullptr;
            auto until = deadline;
            if (plan_.linger.count() > 0 && started_ && base_ <= top_) {
                if (close_if_quiet(now)) continue;
                until = std::min(until, last_arrival_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                            plan_.linger));
            }
            ready_changed_.wait_until(lock, until);
        }
        if (ready_.empty()) return nullptr;
        chunk = ready_.front();
        ready_.pop_front();
        ++taken_;
    }
    while (chunk->finished.load(std::memory_order_acquire) != chunk->started) std::this_thread::yield();
    if (!plan_.pointers) zero(*chunk);
    return chunk;
}

void Assembler::release(Chunk* chunk) {
    if (plan_.pointers && give_back_ != nullptr) {
        std::array<void*, 256> buffers;
        std::size_t n = 0;
        for (std::int64_t cell = 0; cell < cells(plan_); ++cell) {
            if (!chunk->present[cell] || chunk->buffers[cell] == nullptr) continue;
            buffers[n++] = chunk->buffers[cell];
            if (n == buffers.size()) {
                give_back_(give_back_context_, buffers.data(), n);
                n = 0;
            }
        }
        if (n != 0) give_back_(give_back_context_, buffers.data(), n);
    }
    if (plan_.pointers) std::memset(chunk->addresses, 0, static_cast<std::size_t>(cells(plan_)) * 8);
    std::memset(chunk->present, 0, static_cast<std::size_t>(cells(plan_)));
    std::fill_n(chunk->placed_by_head, heads_.size(), 0);
    const std::lock_guard lock(mutex_);
    free_.push_back(chunk);
    --taken_;
}

bool Assembler::ended() const {
    const std::lock_guard lock(mutex_);
    return finished_ && ready_.empty();
}

Counts Assembler::counts() const {
    const std::lock_guard lock(mutex_);
    Counts counts = counts_;
    counts.open = std::count_if(open_.begin(), open_.end(), [](const Chunk* c) { return c != nullptr; });
    counts.ready = static_cast<std::int64_t>(ready_.size());
    counts.taken = taken_;
    counts.free = static_cast<std::int64_t>(free_.size());
    return counts;
}

void Assembler::head_counts(std::span<HeadCounts> out) const {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < std::min(out.size(), heads_.size()); ++i) out[i] = heads_[i].counts;
}

void Assembler::zero(Chunk& chunk) const {
    const std::int64_t heads = static_cast<std::int64_t>(heads_.size());
    if (chunk.placed == heads * plan_.packets) return;
    for (std::int64_t h = 0; h < heads; ++h) {
        if (chunk.placed_by_head[h] == plan_.packets) continue;
        for (std::int64_t p = 0; p < plan_.packets; ++p) {
            if (chunk.present[h * plan_.packets + p]) continue;
            std::uint8_t* at = chunk.data + h * plan_.head_stride + p * plan_.packet_stride;
            each_run(plan_.loops, 0, 0, 0, [&](std::int64_t, std::int64_t to) {
                std::memset(at + to, 0, static_cast<std::size_t>(plan_.run_bytes));
            });
        }
    }
}

}  // namespace ryle
