// The chunks that are open, as spead2's chunk stream sees them, and which timestamps may move them.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace ryle {

// A counter that one thread adds to and others read.
class Counter {
  public:
    void add(int64_t n = 1) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
    int64_t get() const { return value_.load(std::memory_order_relaxed); }

  private:
    std::atomic<int64_t> value_{0};
};

// spead2 opens chunks up to the newest chunk that a heap was placed in, keeps `chunks` of them open, and never goes
// back. One wild timestamp would therefore close everything that is being filled, for good. So a chunk further than
// 8 windows from the open ones is believed only when `confirm` heaps in a row agree on it: a sender that restarted
// does, a broken header does not. When such a run lies in the past, spead2's chunk numbers run on and `epochs` keeps
// what must be subtracted from them.
class Window {
  public:
    enum class Verdict { open, late, implausible };
    static constexpr int confirm = 8;

    explicit Window(int64_t chunks) : chunks_(chunks) {}

    int64_t chunks() const { return chunks_; }
    // Place a heap of chunk `chunk` (counted since sync); `id` becomes spead2's number for it.
    Verdict admit(int64_t chunk, int64_t& id) {
        if (newest_ < 0) {
            newest_ = chunk;
        } else {
            const int64_t ahead = chunk + offset_ - newest_;
            if (ahead > 8 * chunks_ || ahead < -9 * chunks_) {
                const int64_t apart = chunk - candidate_;
                run_ = apart > -chunks_ && apart < chunks_ ? run_ + 1 : 1;
                candidate_ = chunk;
                if (run_ < confirm) return ahead < 0 ? Verdict::late : Verdict::implausible;
                if (ahead < 0) {
                    offset_ = newest_ + 2 * chunks_ - chunk;
                    std::lock_guard<std::mutex> lock(mutex_);
                    epochs_.emplace_back(newest_ + chunks_ + 1, offset_);
                }
            }
        }
        run_ = 0;
        id = chunk + offset_;
        if (id <= newest_ - chunks_) return Verdict::late;
        if (id > newest_) newest_ = id;
        return Verdict::open;
    }
    // Chunk since sync, from spead2's number.
    std::pair<int64_t, int64_t> chunk(int64_t id) const {
        std::lock_guard<std::mutex> lock(mutex_);
        int64_t epoch = 0, offset = 0;
        for (const auto& [first, shift] : epochs_)
            if (id >= first) {
                ++epoch;
                offset = shift;
            }
        return {epoch, id - offset};
    }

  private:
    int64_t chunks_, newest_ = -1, offset_ = 0, candidate_ = 0;
    int run_ = 0;
    mutable std::mutex mutex_;
    std::vector<std::pair<int64_t, int64_t>> epochs_;
};

}  // namespace ryle
