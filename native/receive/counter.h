// A counter that one thread adds to and others read.
#pragma once

#include <atomic>
#include <cstdint>

namespace ryle {

class Counter {
  public:
    void add(int64_t n = 1) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
    int64_t get() const { return value_.load(std::memory_order_relaxed); }

  private:
    std::atomic<int64_t> value_{0};
};

}  // namespace ryle
