// Keeps DPDK's interrupt thread and bursts apart, for drivers that do not do so themselves.
//
// When the other process goes, net_memif (22.11, and what followed so far) unmaps the shared memory on the interrupt
// thread at once, although a burst may be under way that has looked before whether the device is connected: reading on
// is a SIGSEGV. DPDK offers no way to hold that thread, but it calls whoever has registered with it, one after the
// other. So the gate registers an event that is always due. In its call the thread waits; between two calls, where it
// does all else, it holds the lock that every burst takes.
#pragma once
#include <pthread.h>
#include <rte_interrupts.h>

#include <condition_variable>
#include <mutex>

namespace ryle::dpdk {

class Gate {
  public:
    // The process's only one; it lasts as long as DPDK's thread.
    static Gate& get();

    // A device needs the gate, or does so no more. From the end of `join` on, what holds a `Pass` has the interrupt
    // thread waiting. Throws Error if DPDK calls nobody.
    void join();
    void leave();
    // DPDK is about to give all memory back: if any device still needs the gate, the thread does nothing any more.
    void shut();

  private:
    friend class Pass;
    Gate();
    static void turn(void* gate);
    void turn();

    pthread_rwlock_t lock_;
    bool held_ = false;  // by the interrupt thread, which alone looks at this
    std::mutex mutex_;   // of what follows
    std::condition_variable changed_;
    unsigned users_ = 0, turns_ = 0;
    int event_ = -1;
    rte_intr_handle* handle_ = nullptr;
};

// While it lives DPDK's interrupt thread does nothing; many may have one at a time. `needed` false: it does nothing.
class Pass {
  public:
    explicit Pass(bool needed) : needed_(needed) {
        if (needed_) pthread_rwlock_rdlock(&Gate::get().lock_);
    }
    ~Pass() {
        if (needed_) pthread_rwlock_unlock(&Gate::get().lock_);
    }
    Pass(const Pass&) = delete;

  private:
    bool needed_;
};

}  // namespace ryle::dpdk
