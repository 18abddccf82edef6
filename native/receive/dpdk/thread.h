// Threads of ours that DPDK knows: each has its own cache of every pool.
#pragma once
#include <pthread.h>
#include <rte_lcore.h>
#include <rte_mempool.h>
#include <sched.h>
#include <time.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "eal.h"

namespace ryle::dpdk {

// Make the calling thread one that DPDK knows, until it ends.
inline void join_dpdk() {
    struct Membership {
        const bool joined = rte_lcore_id() == LCORE_ID_ANY && rte_thread_register() == 0;
        Membership() { ++members; }
        ~Membership() {
            if (joined && started()) {
                // Buffers left in this thread's caches would be lost to all others.
                rte_mempool_walk(
                    [](rte_mempool* pool, void*) {
                        if (rte_mempool_cache* cache = rte_mempool_default_cache(pool, rte_lcore_id()))
                            rte_mempool_cache_flush(cache, pool);
                    },
                    nullptr);
                rte_thread_unregister();
            }
            --members;
        }
    };
    thread_local const Membership membership;
}

// Runs `body` until it returns; `stopping()` turns true when it should. `core` < 0: wherever there is room.
class Thread {
  public:
    Thread() = default;
    Thread(const Thread&) = delete;
    ~Thread() { stop(); }

    void run(const std::string& name, int core, std::function<void()> body) {
        if (thread_.joinable()) throw Error(name + " runs already");
        if (core >= CPU_SETSIZE || (core >= 0 && !allowed(core)))
            throw Error("core " + std::to_string(core) + " is not one that this process may run on");
        stop_ = false;
        done_ = false;
        {
            std::lock_guard<std::mutex> lock(registry_mutex);
            registry.insert(this);
        }
        thread_ = std::thread([this, name, core, body = std::move(body)] {
            pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
            if (core >= 0) {
                cpu_set_t set;
                CPU_ZERO(&set);
                CPU_SET(core, &set);
                pthread_setaffinity_np(pthread_self(), sizeof set, &set);
            }
            join_dpdk();
            body();
            cpu_seconds_ = seconds(CLOCK_THREAD_CPUTIME_ID);
            done_ = true;
        });
    }
    bool stopping() const { return stop_.load(std::memory_order_relaxed); }
    bool running() const { return thread_.joinable() && !done_; }
    // Processor time used so far.
    double cpu_seconds() const {
        clockid_t clock;
        if (running() && pthread_getcpuclockid(const_cast<std::thread&>(thread_).native_handle(), &clock) == 0)
            return seconds(clock);
        return cpu_seconds_;
    }
    void ask() { stop_ = true; }
    void stop() {
        {
            std::lock_guard<std::mutex> lock(registry_mutex);
            registry.erase(this);
        }
        stop_ = true;
        if (thread_.joinable()) thread_.join();
    }
    // Of the process: it is about to end, and would take memory away under threads that still run.
    static void stop_all() {
        for (;;) {
            Thread* one = nullptr;
            {
                std::lock_guard<std::mutex> lock(registry_mutex);
                if (registry.empty()) return;
                one = *registry.begin();
            }
            one->stop();
        }
    }

  private:
    static double seconds(clockid_t clock) {
        timespec t{};
        return clock_gettime(clock, &t) == 0 ? static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec)
                                             : 0;
    }
    // By trying: the calling thread may have left the core to those that receive.
    static bool allowed(int core) {
        cpu_set_t before, one;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        if (sched_getaffinity(0, sizeof before, &before) != 0) return false;
        const bool may = sched_setaffinity(0, sizeof one, &one) == 0;
        sched_setaffinity(0, sizeof before, &before);
        return may;
    }
    static inline std::mutex registry_mutex;
    static inline std::set<Thread*> registry;
    std::thread thread_;
    std::atomic<double> cpu_seconds_{0};
    std::atomic<bool> stop_{false}, done_{false};
};

}  // namespace ryle::dpdk
