// A lock that is held for a few microseconds: whoever finds it taken tries again for about as long before it sleeps.
//
// To sleep and to be woken takes longer than the work under the lock. Threads that each take it a hundred thousand
// times a second would stand in a queue of sleepers, in which the processors do nothing.
#pragma once
#include <mutex>

namespace ryle {

class Soon {
  public:
    explicit Soon(std::mutex& mutex) : lock_(mutex, std::try_to_lock) {
        for (int tries = 0; !lock_.owns_lock() && tries < kTries; ++tries) {
            for (int i = 0; i < kPauses; ++i) rest();
            (void)lock_.try_lock();
        }
        if (!lock_.owns_lock()) lock_.lock();
    }

  private:
    static constexpr int kTries = 100, kPauses = 16;  // 20 to 100 us, as long as a pause takes on this processor
    static void rest() {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        asm volatile("yield");
#endif
    }
    std::unique_lock<std::mutex> lock_;
};

}  // namespace ryle
