// Run a grid of blocks of a kernel, one after another or together, and turn whatever goes wrong into an error's text.
#pragma once

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <type_traits>
#include <utility>

#include "emulation/block.h"

namespace emulation {

constexpr size_t PAGE = 4096, STACK = 256 * 1024;  // the lowest page of a stack is a guard

// One for all kernels that an OS thread runs, in whatever library they are (hence visible): a process may have only so
// many mappings, and every guard page makes two.
constexpr size_t SHARED_AREA = 1024 * 1024, BLOCK_STACKS = STACK * MAX_THREADS;
constexpr unsigned MOST_TOGETHER = 16;
struct Area {
    char *stacks, *shared;
};
inline thread_local __attribute__((visibility("default"))) Area areas[MOST_TOGETHER];

static inline char* reserve(size_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

// Gives back what an OS thread reserved when it ends: engines start threads anew for every run.
struct __attribute__((visibility("default"))) Reserved {
    bool used = false;
    ~Reserved() {
        for (Area& area : areas) {
            if (area.stacks) munmap(area.stacks, BLOCK_STACKS);
            if (area.shared) munmap(area.shared, SHARED_AREA);
            area = {};
        }
    }
};
inline thread_local __attribute__((visibility("default"))) Reserved reserved;

// Reserve stacks and shared memory of a block once; false if there is not enough address space.
static inline bool reserve_memory(Area& area) {
    reserved.used = true;  // made now, so that it ends with the thread
    if (!area.stacks) {
        area.stacks = reserve(BLOCK_STACKS);
        if (!area.stacks) return false;
        for (size_t i = 0; i < MAX_THREADS; ++i) mprotect(area.stacks + i * STACK, PAGE, PROT_NONE);
    }
    if (!area.shared) {
        area.shared = reserve(SHARED_AREA);
        if (!area.shared) return false;
        mprotect(area.shared, PAGE, PROT_NONE);
        mprotect(area.shared + SHARED_AREA - PAGE, PAGE, PROT_NONE);
    }
    return true;
}

static inline void describe_address(uintptr_t at) {
    const uintptr_t shared = reinterpret_cast<uintptr_t>(here->shared);
    for (const Area& area : areas) {
        const uintptr_t own = reinterpret_cast<uintptr_t>(area.shared), stack = reinterpret_cast<uintptr_t>(area.stacks);
        if (own && at >= own && at < own + SHARED_AREA) {
            append("byte %lld of %llu bytes of shared memory", static_cast<long long>(at - shared),
                   static_cast<unsigned long long>(here->shared_bytes));
            return;
        }
        if (stack && at >= stack && at < stack + BLOCK_STACKS) {
            append("the end of its stack (%zu bytes): local arrays too large, or endless recursion", STACK);
            return;
        }
    }
    const Launch& launch = *here->launch;
    const Allocation* nearest = nullptr;
    uint64_t distance = 1 << 20;
    for (uint64_t i = 0; i < launch.allocation_count; ++i) {
        const Allocation& a = launch.allocations[i];
        const uint64_t away = at < a.start ? a.start - at : at >= a.start + a.bytes ? at - (a.start + a.bytes) : 0;
        if (away < distance) {
            nearest = &a;
            distance = away;
        }
    }
    if (!nearest)
        append("address 0x%llx, which is in no device array", static_cast<unsigned long long>(at));
    else if (at < nearest->start)
        append("%llu bytes before the start of a device array of %llu bytes", static_cast<unsigned long long>(distance),
               static_cast<unsigned long long>(nearest->bytes));
    else
        append("%llu bytes after the end of a device array of %llu bytes", static_cast<unsigned long long>(distance),
               static_cast<unsigned long long>(nearest->bytes));
}

static inline const char* access_kind(void* context) {
#if defined(__x86_64__) && defined(__linux__)
    constexpr int error_register = 19;  // REG_ERR, which <ucontext.h> names only with _GNU_SOURCE
    return static_cast<ucontext_t*>(context)->uc_mcontext.gregs[error_register] & 2 ? "wrote to " : "read from ";
#else
    (void)context;
    return "touched ";
#endif
}

static void on_signal(int number, siginfo_t* info, void* context) {
    if (!here->current) {
        if (number == SIGVTALRM) return;  // comes again
        signal(number, SIG_DFL);          // not in a kernel: the emulation's own mistake
        return;
    }
    append_who(here->current);
    if (number == SIGVTALRM) {
        append("the kernel has run for %g s; does a loop never end? (EmulatedGpu's time_limit)", here->launch->seconds);
    } else if (number == SIGFPE) {
        append("integer division by zero");
    } else if (number == SIGILL) {
        append("undefined behaviour, a trap was reached");
    } else {
        append("%s", access_kind(context));
        describe_address(reinterpret_cast<uintptr_t>(info->si_addr));
    }
    abandon();
}

// Signal handlers, their stack and the time limit, for as long as a launch lasts.
class Signals {
  public:
    explicit Signals(double seconds) {
        static char* const own = reserve(1 << 16);
        stack_t stack{};
        stack.ss_sp = own;
        stack.ss_size = 1 << 16;
        sigaltstack(&stack, &old_stack);
        struct sigaction action{};
        action.sa_sigaction = on_signal;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;  // handlers leave by switching contexts
        for (int i = 0; i < COUNT; ++i) sigaction(NUMBERS[i], &action, &old[i]);
        sigevent event{};
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = SIGVTALRM;
        event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
        timed = timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) == 0;
        itimerspec when{};
        when.it_value.tv_sec = static_cast<time_t>(seconds);
        when.it_value.tv_nsec = static_cast<long>((seconds - static_cast<double>(when.it_value.tv_sec)) * 1e9);
        when.it_interval.tv_nsec = 10'000'000;
        if (timed) timer_settime(timer, 0, &when, nullptr);
    }
    ~Signals() {
        if (timed) timer_delete(timer);
        for (int i = 0; i < COUNT; ++i) sigaction(NUMBERS[i], &old[i], nullptr);
        old_stack.ss_flags &= SS_DISABLE;
        sigaltstack(&old_stack, nullptr);
    }

  private:
    static constexpr int NUMBERS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGVTALRM};
    static constexpr int COUNT = 5;
    struct sigaction old[COUNT];
    stack_t old_stack;
    timer_t timer;
    bool timed;
};

// Make a block's threads, in `here`.
static inline void begin_block(const Area& area, uint3 index) {
    const uint3 size = here->block_size;
    here->block_index = index;
    here->shared =
        reinterpret_cast<unsigned char*>(area.shared + SHARED_AREA - PAGE - (here->shared_bytes + 127) / 128 * 128);
    memset(here->barrier, 0, sizeof here->barrier);
    memset(here->load, 0, sizeof here->load);
    memset(here->shared, POISON, here->shared_bytes);
    here->alive = here->thread_count;
    here->warps_ready = 0;
    for (unsigned t = 0; t < here->thread_count; ++t) {
        Thread& thread = here->thread[t];
        thread.index = {t % size.x, t / size.x % size.y, t / (size.x * size.y)};
        thread.lane = t % WARP;
        thread.warp = t / WARP;
        thread.ended = false;
        thread.pending.count = thread.pending.group_count = 0;
        // Stacks that all began at the same offset of a page would fight for the same lines of the cache.
        const size_t shift = t * 5 % 61 * 64;
        make_context(thread.context, area.stacks + t * STACK + PAGE, STACK - PAGE - shift, run_thread);
        if (thread.lane == 0) here->warp[thread.warp].ready = here->warp[thread.warp].meetings = 0;
        make_ready(thread.warp, 1u << thread.lane);
    }
}

// Run the threads of `here` until one pauses, all have ended or something fails; false in the last two cases.
static inline bool go_on() {
    Thread* const first = here->warps_ready ? next_thread(choose(here->warps_ready)) : nullptr;
    if (!first) {
        report_deadlock();
        here->failed = true;
        return false;
    }
    here->current = first;
    switch_context(here->main, first->context);
    here->current = nullptr;
    return here->alive && !here->failed;
}

// 0 if all went well; otherwise launch.error holds what did not.
static inline int run_grid(const char* kernel, void (*body)(void* const*), const Launch& launch,
                           void* const* arguments) {
    const uint64_t x = launch.grid[0], y = launch.grid[1], blocks = x * y * launch.grid[2];
    const unsigned together = launch.together ? static_cast<unsigned>(blocks) : 1;
    static State* others[MOST_TOGETHER - 1];
    const auto state_of = [&](unsigned i) { return i ? others[i - 1] : &first_block; };
    launch.error[0] = 0;
    here = &first_block;
    here->launch = &launch;
    here->kernel = kernel;
    if (blocks > MOST_TOGETHER && launch.together) {
        append("kernel %s: %llu blocks that wait for each other; here at most %u can", kernel,
               static_cast<unsigned long long>(blocks), MOST_TOGETHER);
        return 1;
    }
    for (unsigned i = 0; i < together; ++i) {
        if (i && !others[i - 1]) {
            others[i - 1] = static_cast<State*>(aligned_alloc(alignof(State), sizeof(State)));
            if (others[i - 1]) memset(others[i - 1], 0, sizeof(State));
        }
        if (!state_of(i) || !reserve_memory(areas[i]) || launch.shared + 2 * PAGE > SHARED_AREA) {
            append("kernel %s: no memory for the stacks of its threads", kernel);
            return 1;
        }
        State& state = *state_of(i);
        state.launch = &launch;
        state.kernel = kernel;
        state.body = body;
        state.arguments = arguments;
        state.failed = false;
        state.current = nullptr;
        state.block_size = {launch.block[0], launch.block[1], launch.block[2]};
        state.grid_size = {launch.grid[0], launch.grid[1], launch.grid[2]};
        state.thread_count = launch.block[0] * launch.block[1] * launch.block[2];
        state.random = static_cast<unsigned>((launch.seed + i) * 2654435761u) | 1;
        state.shared_bytes = launch.shared;
    }
    const auto index_of = [&](uint64_t b) {
        return uint3{static_cast<unsigned>(b % x), static_cast<unsigned>(b / x % y), static_cast<unsigned>(b / (x * y))};
    };
    Signals signals(launch.seconds);
    if (launch.together) {  // any of those that have not ended goes on
        unsigned left = (1u << together) - 1;
        for (unsigned i = 0; i < together; ++i) {
            here = state_of(i);
            begin_block(areas[i], index_of(i));
        }
        while (left) {
            here = &first_block;
            const unsigned i = choose(left);
            here = state_of(i);
            if (go_on()) continue;
            if (here->failed) return 1;
            left &= ~(1u << i);
        }
        return 0;
    }
    // Blocks in an order of their own: a stride that has no factor in common with their number.
    const auto gcd = [](uint64_t a, uint64_t b) {
        while (b) a = std::exchange(b, a % b);
        return a;
    };
    uint64_t stride = launch.seed % blocks + 1;
    while (gcd(stride, blocks) != 1) ++stride;
    for (uint64_t i = 0, b = launch.seed / 7 % blocks; i < blocks && !here->failed; ++i, b = (b + stride) % blocks) {
        begin_block(areas[0], index_of(b));
        while (go_on()) {
        }
    }
    return here->failed;
}

template <typename T>
constexpr void append_type(char*& text) {
    static_assert(std::is_pointer_v<T> || std::is_arithmetic_v<T>, "a kernel takes only pointers and scalars");
    *text++ = std::is_pointer_v<T> ? 'p' : std::is_floating_point_v<T> ? 'f' : std::is_signed_v<T> ? 'i' : 'u';
    *text++ = static_cast<char>('0' + sizeof(T));
}

// "p8i4f4": the kernel's parameters, one letter and one digit each.
template <auto kernel, typename... Parameters>
static const char* signature_of(void (*)(Parameters...)) {
    static char text[2 * sizeof...(Parameters) + 1];
    char* end = text;
    (append_type<Parameters>(end), ...);
    return text;
}

template <auto kernel, typename... Parameters>
static void call(void* const* arguments, void (*)(Parameters...)) {
    [&]<size_t... I>(std::index_sequence<I...>) {
        kernel(*static_cast<const std::remove_cv_t<Parameters>*>(arguments[I])...);
    }(std::index_sequence_for<Parameters...>{});
}

template <auto kernel>
static void body(void* const* arguments) {
    call<kernel>(arguments, kernel);
}

}  // namespace emulation

// What the compiler's checks call; all begin with where in the source it happened.
struct CheckedPlace {
    const char* file;
    uint32_t line, column;
};
#define EMULATION_CHECK(handler, message)                                                                   \
    extern "C" __attribute__((visibility("hidden"), noinline, cold)) void __ubsan_handle_##handler##_abort( \
        const CheckedPlace* place) {                                                                        \
        const char* slash = strrchr(place->file, '/');                                                      \
        emulation::fail("%s:%u: %s", slash ? slash + 1 : place->file, place->line, message);                \
    }
EMULATION_CHECK(type_mismatch_v1, "misaligned access: the address is not a multiple of the type's alignment")
EMULATION_CHECK(out_of_bounds, "index outside an array")
EMULATION_CHECK(shift_out_of_bounds, "shift by the type's width or more, or by a negative number")
EMULATION_CHECK(divrem_overflow, "integer division by zero, or overflow")

#define EMULATED_KERNEL(name, max_threads)                                                                        \
    extern "C" __attribute__((visibility("default"))) const char* emulated_signature_##name() {                   \
        return emulation::signature_of<&name>(&name);                                                             \
    }                                                                                                             \
    extern "C" __attribute__((visibility("default"))) int emulated_max_threads_##name() { return max_threads; }   \
    extern "C" __attribute__((visibility("default"))) int emulated_launch_##name(const emulation::Launch* launch, \
                                                                                 void* const* arguments) {        \
        return emulation::run_grid(#name, emulation::body<&name>, *launch, arguments);                            \
    }
