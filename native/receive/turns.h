// Threads that take numbered batches in the order of their numbers, for as long as the order matters.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace ryle {

class Turns {
  public:
    // Wait until it is a number's turn; false if they have been given up.
    bool wait(std::uint64_t number) const {
        for (int tries = 0; next_.load(std::memory_order_acquire) != number; ++tries) {
            if (given_up_.load(std::memory_order_relaxed)) return false;
            if (tries > 4096)  // whoever has the turn waits for memory
                std::this_thread::sleep_for(std::chrono::microseconds(50));
            else if (tries > 64)
                std::this_thread::yield();
        }
        return true;
    }

    // Let the next number have its turn; by whoever has it.
    void pass() { next_.store(next_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

    // Nobody waits any more: a thread has failed.
    void give_up() { given_up_.store(true, std::memory_order_relaxed); }

  private:
    std::atomic<std::uint64_t> next_{0};
    std::atomic<bool> given_up_{false};
};

}  // namespace ryle
