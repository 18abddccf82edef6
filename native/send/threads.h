// Senders side by side, a thread each, that begin together.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "loop.h"

namespace ryle {

class SendThreads {
  public:
    ~SendThreads();
    // `core` is the one that the thread runs on; less than 0: any. `realtime`: before all that is not (SCHED_FIFO).
    void add(std::shared_ptr<PacketSource> source, std::shared_ptr<Port> port, int core, bool realtime = false);
    // Begin together, 1 ms after the last thread is ready. `seconds` after which no packet is begun; 0: none.
    void start(double seconds);
    // Begin no more packets; what was held back is still sent.
    void stop() { stop_.store(true, std::memory_order_relaxed); }
    bool running() const { return left_.load(std::memory_order_acquire) > 0; }
    // Wait until all threads have ended.
    void join();

    struct Part {
        std::shared_ptr<PacketSource> source;
        std::shared_ptr<Port> port;
        int core = -1;
        bool realtime = false;
        LoopCounts loop;
        int error = 0;  // errno of what ended it early, and in words
        std::string message;
        std::thread thread;
    };
    const std::vector<std::unique_ptr<Part>>& parts() const { return parts_; }
    std::int64_t started() const { return start_.load(std::memory_order_acquire); }  // 0: not yet

  private:
    void run(Part& part, double seconds);
    bool prepare(Part& part);

    std::vector<std::unique_ptr<Part>> parts_;
    std::atomic<bool> stop_{false};
    std::atomic<int> left_{0}, unready_{0};
    std::atomic<std::int64_t> start_{0};
    bool begun_ = false;
};

}  // namespace ryle
