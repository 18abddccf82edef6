// Run a grid of blocks of a kernel, one after another, and turn whatever goes wrong into an error's text.
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
inline thread_local __attribute__((visibility("default"))) char *stacks, *shared_area;
constexpr size_t SHARED_AREA = 1024 * 1024;

static inline char* reserve(size_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

// Gives back what an OS thread reserved when it ends: engines start threads anew for every run.
struct __attribute__((visibility("default"))) Reserved {
    bool used = false;
    ~Reserved() {
        if (stacks) munmap(stacks, STACK * MAX_THREADS);
        if (shared_area) munmap(shared_area, SHARED_AREA);
        stacks = shared_area = nullptr;
    }
};
inline thread_local __attribute__((visibility("default"))) Reserved reserved;

// Reserve stacks and shared memory once; false if there is not enough address space.
static inline bool reserve_memory() {
    reserved.used = true;  // made now, so that it ends with the thread
    if (!stacks) {
        stacks = reserve(STACK * MAX_THREADS);
        if (!stacks) return false;
        for (size_t i = 0; i < MAX_THREADS; ++i) mprotect(stacks + i * STACK, PAGE, PROT_NONE);
    }
    if (!shared_area) {
        shared_area = reserve(SHARED_AREA);
        if (!shared_area) return false;
        mprotect(shared_area, PAGE, PROT_NONE);
        mprotect(shared_area + SHARED_AREA - PAGE, PAGE, PROT_NONE);
    }
    return true;
}

static inline void describe_address(uintptr_t at) {
    const uintptr_t shared = reinterpret_cast<uintptr_t>(state.shared), area = reinterpret_cast<uintptr_t>(shared_area);
    const uintptr_t stack = reinterpret_cast<uintptr_t>(stacks);
    if (at >= area && at < area + SHARED_AREA) {
        append("byte %lld of %llu bytes of shared memory", static_cast<long long>(at - shared),
               static_cast<unsigned long long>(state.shared_bytes));
        return;
    }
    if (at >= stack && at < stack + STACK * MAX_THREADS) {
        append("the end of its stack (%zu bytes): local arrays too large, or endless recursion", STACK);
        return;
    }
    const Launch& launch = *state.launch;
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
    if (!state.current) {
        if (number == SIGVTALRM) return;  // comes again
        signal(number, SIG_DFL);          // not in a kernel: the emulation's own mistake
        return;
    }
    append_who(state.current);
    if (number == SIGVTALRM) {
        append("the kernel has run for %g s; does a loop never end? (EmulatedGpu's time_limit)", state.launch->seconds);
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

static inline void run_block() {
    const uint3 size = state.block_size;
    memset(state.barrier, 0, sizeof state.barrier);
    memset(state.load, 0, sizeof state.load);
    memset(state.shared, POISON, state.shared_bytes);
    state.alive = state.thread_count;
    state.warps_ready = 0;
    for (unsigned t = 0; t < state.thread_count; ++t) {
        Thread& thread = state.thread[t];
        thread.index = {t % size.x, t / size.x % size.y, t / (size.x * size.y)};
        thread.lane = t % WARP;
        thread.warp = t / WARP;
        thread.ended = false;
        thread.pending.count = thread.pending.group_count = 0;
        // Stacks that all began at the same offset of a page would fight for the same lines of the cache.
        const size_t shift = t * 5 % 61 * 64;
        make_context(thread.context, stacks + t * STACK + PAGE, STACK - PAGE - shift, run_thread);
        if (thread.lane == 0) state.warp[thread.warp].ready = state.warp[thread.warp].meetings = 0;
        make_ready(thread.warp, 1u << thread.lane);
    }
    Thread* const first = next_thread(0);
    state.current = first;
    switch_context(state.main, first->context);
    state.current = nullptr;
    if (!state.failed && state.alive) {
        report_deadlock();
        state.failed = true;
    }
}

// 0 if all went well; otherwise launch.error holds what did not.
static inline int run_grid(const char* kernel, void (*body)(void* const*), const Launch& launch,
                           void* const* arguments) {
    launch.error[0] = 0;
    state.launch = &launch;
    state.kernel = kernel;
    state.body = body;
    state.arguments = arguments;
    state.failed = false;
    state.block_size = {launch.block[0], launch.block[1], launch.block[2]};
    state.grid_size = {launch.grid[0], launch.grid[1], launch.grid[2]};
    state.thread_count = launch.block[0] * launch.block[1] * launch.block[2];
    state.random = static_cast<unsigned>(launch.seed * 2654435761u) | 1;
    if (!reserve_memory() || launch.shared + 2 * PAGE > SHARED_AREA) {
        append("kernel %s: no memory for the stacks of its threads", kernel);
        return 1;
    }
    state.shared_bytes = launch.shared;
    state.shared =
        reinterpret_cast<unsigned char*>(shared_area + SHARED_AREA - PAGE - (launch.shared + 127) / 128 * 128);

    // Blocks in an order of their own: a stride that has no factor in common with their number.
    const uint64_t x = launch.grid[0], y = launch.grid[1], blocks = x * y * launch.grid[2];
    const auto gcd = [](uint64_t a, uint64_t b) {
        while (b) a = std::exchange(b, a % b);
        return a;
    };
    uint64_t stride = launch.seed % blocks + 1;
    while (gcd(stride, blocks) != 1) ++stride;
    Signals signals(launch.seconds);
    for (uint64_t i = 0, b = launch.seed / 7 % blocks; i < blocks && !state.failed; ++i, b = (b + stride) % blocks) {
        state.block_index = {static_cast<unsigned>(b % x), static_cast<unsigned>(b / x % y),
                             static_cast<unsigned>(b / (x * y))};
        run_block();
    }
    return state.failed;
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
