#include "gate.h"

#include <rte_errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <thread>

#include "eal.h"

namespace ryle::dpdk {
namespace {

// Between two turns of the interrupt thread: connecting takes it some ten, and each stops bursts for some 10 us.
constexpr auto kPause = std::chrono::milliseconds(2);
constexpr auto kPatience = std::chrono::seconds(10);

}  // namespace

Gate& Gate::get() {
    static Gate* const gate = new Gate;  // the interrupt thread may outlive static objects
    return *gate;
}

Gate::Gate() {
    // Those who ask to read wait once somebody asks to write: bursts in close succession must not shut the thread out.
    pthread_rwlockattr_t attributes;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&lock_, &attributes);
    pthread_rwlockattr_destroy(&attributes);
}

void Gate::join() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!handle_) {
        event_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        handle_ = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
        if (event_ < 0 || !handle_ || rte_intr_fd_set(handle_, event_) ||
            rte_intr_type_set(handle_, RTE_INTR_HANDLE_EXT) || rte_intr_callback_register(handle_, turn, this))
            fail("no event for DPDK's interrupt thread", rte_errno);
    }
    if (++users_ == 1) eventfd_write(event_, 1);
    const unsigned before = turns_;
    if (changed_.wait_for(lock, kPatience, [&] { return turns_ != before; })) return;
    --users_;
    throw Error("DPDK's interrupt thread does not answer");
}

void Gate::leave() {
    std::lock_guard<std::mutex> lock(mutex_);
    eventfd_t value;
    if (--users_ == 0) eventfd_read(event_, &value);
}

void Gate::shut() {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool needed = users_ > 0;
    lock.unlock();  // the thread takes it before it waits
    if (needed) pthread_rwlock_rdlock(&lock_);
}

void Gate::turn(void* gate) { static_cast<Gate*>(gate)->turn(); }

void Gate::turn() {
    if (held_) pthread_rwlock_unlock(&lock_);
    {
        std::lock_guard<std::mutex> lock(mutex_);
        ++turns_;
    }
    changed_.notify_all();
    std::this_thread::sleep_for(kPause);
    pthread_rwlock_wrlock(&lock_);
    held_ = true;
}

}  // namespace ryle::dpdk
