// Chunks out: given to consumers, zeroed where nothing came, taken back; and all counts.
#include <algorithm>
#include <cstring>
#include <thread>

#include "assembler.h"
#include "soon.h"

namespace ryle {

Chunk* Assembler::next(std::chrono::nanoseconds timeout) {
    Chunk* chunk = nullptr;
    {
        std::unique_lock lock(mutex_);
        const auto deadline = std::chrono::steady_clock::now() + timeout;
        ++asking_;
        while (ready_.empty() && !finished_) {
            if (!awaited_.empty()) {
                if (stuck()) close_for_memory();
                if (exhausted()) free_changed_.notify_all();
            }
            if (!ready_.empty() || ready_changed_.wait_until(lock, deadline) == std::cv_status::timeout) break;
        }
        --asking_;
        if (ready_.empty()) return nullptr;
        Ready& first = ready_.front();
        if (first.chunk == nullptr) {
            chunk = void_chunk(first.number, first.epoch);
            ++first.number;
            if (--first.count == 0) ready_.pop_front();
            return chunk;
        }
        chunk = first.chunk;
        ready_.pop_front();
        ++taken_;
    }
    while (chunk->finished.load(std::memory_order_acquire) != chunk->started) std::this_thread::yield();
    if (!plan_.pointers) zero(*chunk);
    return chunk;
}

Chunk* Assembler::void_chunk(std::int64_t number, std::int64_t epoch) {
    if (spare_.empty()) {
        voids_.push_back(std::make_unique<Chunk>());
        spare_.push_back(voids_.back().get());
    }
    Chunk* chunk = spare_.back();
    spare_.pop_back();
    chunk->number = number;
    chunk->epoch = epoch;
    chunk->timestamp = plan_.origin + number * span_;
    chunk->data = void_.data;
    chunk->addresses = void_.addresses;
    chunk->present = void_.present;
    chunk->notes = void_.notes;
    return chunk;
}

// A packet waits for memory, and nothing is ready that a consumer could give back: the oldest chunk must do.
void Assembler::close_for_memory() {
    while (ready_.empty() && base_ <= top_) close_first(false);
}

// Whether a packet of this chunk need not wait for memory, or not any longer.
bool Assembler::may_go_on(std::int64_t chunk) {
    reclaim();
    if (chunk == kNever) return !free_.empty() || exhausted();
    return chunk < base_ || chunk >= base_ + rows_ || slot(chunk) != nullptr || memory_for(chunk);
}

// All packets that wait for memory would wait for ever, if nobody gave any back.
bool Assembler::stuck() {
    return std::none_of(awaited_.begin(), awaited_.end(), [&](std::int64_t chunk) { return may_go_on(chunk); });
}

void Assembler::wait_for_memory(std::int64_t chunk) {
    std::unique_lock lock(mutex_);
    awaited_.push_back(chunk);
    while (waits_ && !may_go_on(chunk)) {
        if (asking_ > 0 && ready_.empty() && base_ <= top_ && stuck())
            close_for_memory();
        else if (discarded_.empty())
            free_changed_.wait(lock);
        else  // another thread's copies end untold
            free_changed_.wait_for(lock, std::chrono::milliseconds(1));
    }
    awaited_.erase(std::find(awaited_.begin(), awaited_.end(), chunk));
}

void Assembler::stop_waiting() {
    const std::lock_guard lock(mutex_);
    waits_ = false;
    free_changed_.notify_all();
}

void Assembler::release(Chunk* chunk) {
    if (is_void(*chunk)) {
        const std::lock_guard lock(mutex_);
        spare_.push_back(chunk);
        return;
    }
    const std::size_t count = static_cast<std::size_t>(marks(plan_));
    if (plan_.pointers && give_back_ != nullptr) {
        std::array<void*, 256> buffers;
        std::size_t n = 0;
        for (std::size_t mark = 0; mark < count; ++mark) {
            if (!chunk->present[mark] || chunk->buffers[mark] == nullptr) continue;
            buffers[n++] = chunk->buffers[mark];
            if (n == buffers.size()) {
                give_back_(give_back_context_, buffers.data(), n);
                n = 0;
            }
        }
        if (n != 0) give_back_(give_back_context_, buffers.data(), n);
    }
    clear(*chunk);
    const Soon lock(mutex_);  // memory is wanted most where the lock is asked for most
    free_.push_back(chunk);
    --taken_;
    free_changed_.notify_all();
}

// As if nothing had come for it.
void Assembler::clear(Chunk& chunk) const {
    const std::size_t cells = static_cast<std::size_t>(ryle::cells(plan_)), count = cells * per_cell_;
    if (plan_.pointers) std::memset(chunk.addresses, 0, count * 8);
    std::memset(chunk.present, 0, count);
    if (chunk.notes != nullptr) std::memset(chunk.notes, 0, cells * plan_.notes.size() * 8);
    if (chunk.noted != nullptr) std::memset(chunk.noted, 0, cells);
    std::fill_n(chunk.placed_by_head, heads_.size(), 0);
    std::fill_n(chunk.optional_by_head, heads_.size(), 0);
}

bool Assembler::ended() const {
    const std::lock_guard lock(mutex_);
    return finished_ && ready_.empty();
}

Counts Assembler::counts() const {
    const std::lock_guard lock(mutex_);
    Counts counts = counts_;
    counts.open = std::count_if(open_.begin(), open_.end(), [](const Chunk* c) { return c != nullptr; });
    counts.ready = std::count_if(ready_.begin(), ready_.end(), [](const Ready& r) { return r.chunk != nullptr; });
    counts.taken = taken_;
    counts.free = static_cast<std::int64_t>(free_.size() + parked_.size() + discarded_.size());
    return counts;
}

void Assembler::head_counts(std::span<HeadCounts> out) const {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < std::min(out.size(), heads_.size()); ++i) out[i] = heads_[i].counts;
}

// Zeros where nothing came: in a chunk that is whole, or a head that is, nothing is looked at.
void Assembler::zero(Chunk& chunk) const {
    const std::int64_t heads = static_cast<std::int64_t>(heads_.size()), per_head = plan_.packets * per_cell_;
    if (chunk.placed == heads * per_head) return;
    for (std::int64_t h = 0; h < heads; ++h) {
        if (chunk.placed_by_head[h] == per_head) continue;
        for (std::int64_t p = 0; p < plan_.packets; ++p)
            for (std::int64_t i = 0; i < per_cell_; ++i)
                if (!chunk.present[(h * plan_.packets + p) * per_cell_ + i])
                    zero(chunk.data + plan_.offsets[h] + p * plan_.stride, i);
    }
}

void Assembler::zero(std::uint8_t* cell, std::int64_t index) const {
    if (plan_.loops.empty()) {
        const Part part = parts_[index];
        std::memset(cell + part.place, 0, static_cast<std::size_t>(part.bytes));
        return;
    }
    each_run(plan_.loops, 0, 0, 0, [&](std::int64_t, std::int64_t to) {
        std::memset(cell + to, 0, static_cast<std::size_t>(plan_.run_bytes));
    });
}

}  // namespace ryle
