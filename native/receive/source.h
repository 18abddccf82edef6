// Threads that receive packets and hand them to a sink.
#pragma once
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "sink.h"

namespace ryle {

struct ThreadReport {
    std::string name;
    int core = -1;  // -1: not pinned
    bool running = false;
    double cpu_seconds = 0, wall_seconds = 0;
    std::int64_t packets = 0, bytes = 0, calls = 0;  // handed over, in so many batches
    std::int64_t kernel_drops = -1;                  // -1: unknown
    std::int64_t interruptions = 0;                  // times that the link went down
    std::int64_t discarded = 0;                      // that came before the start
};

// What one thread does. `run` returns soon after `stopping()` turns true, or at the end of what there is to receive.
class Worker {
  public:
    explicit Worker(std::string name) : name_(std::move(name)) {}
    virtual ~Worker() = default;
    // Take packets from now on: what came before, while everything else was made, is dropped. Before `run`, by `start`.
    virtual void open() {}
    virtual void run() = 0;
    // Messages that the kernel dropped before this thread could have them, a train as one; -1 if that cannot be seen.
    virtual std::int64_t kernel_drops() { return -1; }
    // Packets that came before `open`, as far as that can be seen.
    virtual std::int64_t discarded() { return 0; }
    // Times that the link went down under it.
    virtual std::int64_t interruptions() { return 0; }

  protected:
    bool stopping() const { return stop_.load(std::memory_order_relaxed); }
    void hand_over(Sink& sink, std::span<const Arrival> packets) {
        sink.take(packets);
        count(packets);
    }
    // The same in turn with other threads.
    void hand_over(Sink& sink, std::span<const Arrival> packets, Turns& turns, std::uint64_t number) {
        sink.take_in_turn(packets, turns, number);
        count(packets);
    }

  private:
    void count(std::span<const Arrival> packets) {
        std::int64_t bytes = 0;
        for (const Arrival& packet : packets) bytes += packet.size;
        add(packets_, static_cast<std::int64_t>(packets.size()));
        add(bytes_, bytes);
        add(calls_, 1);
    }

    friend class Source;
    static void add(std::atomic<std::int64_t>& counter, std::int64_t n) {  // one writer
        counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }

    std::string name_;
    std::atomic<bool> stop_{false}, running_{false};
    std::atomic<std::int64_t> packets_{0}, bytes_{0}, calls_{0}, drops_{-1}, cpu_ns_{0}, wall_ns_{0};
    int core_ = -1;
    std::thread thread_;
    std::chrono::steady_clock::time_point began_{};
};

class Source {
  public:
    // Worker i runs on core cores[i % cores], anywhere if there are none. Throws std::invalid_argument.
    Source(std::vector<std::unique_ptr<Worker>> workers, std::vector<int> cores);
    ~Source();

    // Once. Throws std::system_error if a thread cannot be started or pinned.
    void start();
    // Ask the threads to end; they do within some 20 ms.
    void stop();
    // Wait until they have; false if some still run after `timeout`.
    bool join(std::chrono::nanoseconds timeout);
    bool running() const;
    std::vector<ThreadReport> report() const;
    // What went wrong in a thread; empty if nothing.
    std::string error() const;

  private:
    void body(Worker& worker);

    std::vector<std::unique_ptr<Worker>> workers_;
    bool started_ = false;
    mutable std::mutex mutex_;
    std::string error_;
};

}  // namespace ryle
