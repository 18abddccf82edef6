// One block of CUDA threads, run as fibers of one OS thread.
//
// A thread runs until it must wait for others; which of those that can go on does so next is chosen at random (seeded),
// so that code which needs a barrier and has none is unlikely to get away with it.
#pragma once

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulation/fiber.h"

struct uint3 {
    unsigned x, y, z;
};
using dim3 = uint3;

namespace emulation {

constexpr unsigned MAX_THREADS = 1024, WARP = 32, MAX_WARPS = MAX_THREADS / WARP, BARRIERS = 16;
constexpr unsigned ALL = 0xFFFFFFFFu;
constexpr unsigned char POISON = 0xFF;  // NaN as float or half, -1 as an integer

// Where in the kernel's source a collective was called.
struct Place {
    const char* file;
    int line;
    static Place here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
};

struct Copy {
    unsigned char* shared;
    const void* global;
    unsigned bytes;
    bool wanted;
};

// Copies issued by one thread and not yet waited for, oldest first; groups[i] is the end of the i-th committed group.
struct Copies {
    Copy* copies;
    size_t* groups;
    size_t count, room, group_count, group_room;
};

// What a copy engine has been told to bring for somebody who waits at a word of shared memory.
struct Load {
    const void* arrival;
    Copy copies[4];
    unsigned count;
};

struct Thread {
    Context context;
    uint3 index;
    unsigned lane, warp;
    bool ended;
    Copies pending;
};

// Lanes of one warp exchanging values. Each lane is in one meeting at a time, so 32 a warp suffice.
struct Meeting {
    const char* what;
    Place place;
    unsigned mask, arrived, left;
    alignas(64) unsigned char value[WARP][64];
};

struct Warp {
    unsigned ready;     // lanes that could run and do not
    unsigned meetings;  // which of meeting[] are in use
    Meeting meeting[WARP];
};

struct Barrier {
    unsigned expected, arrived, sum, result;
    unsigned waiting[MAX_WARPS];
    Place place[MAX_WARPS];
};

struct Allocation {
    uintptr_t start;
    uint64_t bytes;
};

struct Launch {
    unsigned grid[3], block[3];
    uint64_t shared;
    uint64_t seed;
    const Allocation* allocations;  // sorted
    uint64_t allocation_count;
    double seconds;  // CPU time after which a kernel counts as one that never ends
    char* error;
    uint64_t error_bytes;
};

// All that a running kernel has.
struct State {
    Context main;
    Thread* current;
    unsigned warps_ready;  // warps with ready lanes
    unsigned random;
    unsigned thread_count, alive;
    uint3 block_index, block_size, grid_size;
    unsigned char* shared;
    uint64_t shared_bytes;
    const char* kernel;
    const Launch* launch;
    void (*body)(void* const*);
    void* const* arguments;
    bool failed;
    Barrier barrier[BARRIERS];
    Load load[4];  // under way; those without an arrival are free
    Thread thread[MAX_THREADS];
    Warp warp[MAX_WARPS];
};
static State state;

static inline size_t append(const char* format, ...) __attribute__((format(printf, 1, 2)));
static inline size_t append(const char* format, ...) {
    char* const text = state.launch->error;
    const size_t used = strlen(text), room = state.launch->error_bytes;
    va_list values;
    va_start(values, format);
    if (used + 1 < room) vsnprintf(text + used, room - used, format, values);
    va_end(values);
    return used;
}

static inline void append_place(const Place& place) {
    const char* slash = strrchr(place.file, '/');
    append(" (%s:%d)", slash ? slash + 1 : place.file, place.line);
}

static inline void append_who(const Thread* thread) {
    const uint3 b = state.block_index;
    append("kernel %s, block (%u, %u, %u)", state.kernel, b.x, b.y, b.z);
    if (thread) append(", thread (%u, %u, %u)", thread->index.x, thread->index.y, thread->index.z);
    append(": ");
}

// Give up the block and the launch; the error's text has been appended.
[[noreturn]] static inline void abandon() {
    state.failed = true;
    Context lost;
    state.current = nullptr;
    switch_context(lost, state.main);
    abort();
}

[[noreturn]] static void fail(const char* format, ...) __attribute__((format(printf, 1, 2), noinline, cold));
[[noreturn]] static void fail(const char* format, ...) {
    append_who(state.current);
    char text[1000];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    append("%s", text);
    abandon();
}

// One of the bits set in `mask`, which is not 0.
static inline unsigned choose(unsigned mask) {
    unsigned r = state.random;
    r ^= r << 13;
    r ^= r >> 17;
    r ^= r << 5;
    state.random = r;
    const unsigned turn = r >> 27;
    return (static_cast<unsigned>(__builtin_ctz(mask >> turn | mask << (-turn & 31))) + turn) & 31;
}

// The next thread to run, of the same warp if there is one; nullptr if none can.
static inline Thread* next_thread(unsigned warp) {
    if (!state.warp[warp].ready) {
        if (!state.warps_ready) return nullptr;
        warp = choose(state.warps_ready);
    }
    unsigned& ready = state.warp[warp].ready;
    const unsigned lane = choose(ready);
    ready &= ~(1u << lane);
    if (!ready) state.warps_ready &= ~(1u << warp);
    return &state.thread[warp * WARP + lane];
}

static inline void make_ready(unsigned warp, unsigned lanes) {
    if (!lanes) return;
    state.warp[warp].ready |= lanes;
    state.warps_ready |= 1u << warp;
}

// Let others run until somebody makes this thread ready.
static __attribute__((noinline)) void suspend() {
    Thread* const self = state.current;
    Thread* const next = next_thread(self->warp);
    state.current = next;
    switch_context(self->context, next ? next->context : state.main);
}

// Let others run that can.
static inline void yield() {
    make_ready(state.current->warp, 1u << state.current->lane);
    suspend();
}

// Let others run that can, of any warp: for who waits for what a thread of another does.
static inline void pause() {
    Thread* const self = state.current;
    make_ready(self->warp, 1u << self->lane);
    Thread* const next = next_thread(choose(state.warps_ready));
    state.current = next;
    switch_context(self->context, next->context);
}

// Meet the lanes of `mask`: give `mine`, wait until all of them have, take what `finish(values)` made of them, where
// `values` is an array of 64-byte slots, one a lane. Only the last to arrive calls `finish`. With `aligned`, all must
// come from the same line.
template <typename Mine, typename Finish, typename Take>
static inline auto meet(const char* what, const Place& place, bool aligned, unsigned mask, const Mine& mine,
                        const Finish& finish, const Take& take) {
    static_assert(sizeof(Mine) <= 64);
    Thread& self = *state.current;
    Warp& warp = state.warp[self.warp];
    const unsigned bit = 1u << self.lane;
    if (!(mask & bit))
        fail("%s with mask 0x%08x, line %d: this lane (%u) is not in the mask", what, mask, place.line, self.lane);
    Meeting* meeting = nullptr;
    for (unsigned used = warp.meetings; used; used &= used - 1) {
        Meeting& open = warp.meeting[__builtin_ctz(used)];
        if (open.mask == mask && !(open.arrived & bit) && open.what == what &&
            (!aligned || open.place.line == place.line)) {
            meeting = &open;
            break;
        }
    }
    if (!meeting) {
        const unsigned slot = static_cast<unsigned>(__builtin_ctz(~warp.meetings));
        warp.meetings |= 1u << slot;
        meeting = &warp.meeting[slot];
        meeting->what = what;
        meeting->place = place;
        meeting->mask = mask;
        meeting->arrived = meeting->left = 0;
    }
    memcpy(meeting->value[self.lane], &mine, sizeof mine);
    meeting->arrived |= bit;
    if (meeting->arrived == mask) {
        finish(meeting->value);
        make_ready(self.warp, mask & ~bit);
    } else {
        suspend();
    }
    auto taken = take(meeting->value);
    meeting->left |= bit;
    if (meeting->left == mask) warp.meetings &= ~(1u << (meeting - warp.meeting));
    return taken;
}

// Let go all who wait. A warp's lanes must all be there, as barriers count warps: only whole warps may have ended
// before.
static inline void release(Barrier& barrier) {
    barrier.result = barrier.sum;
    barrier.expected = barrier.arrived = barrier.sum = 0;
    for (unsigned w = 0; w * WARP < state.thread_count; ++w) {
        const unsigned lanes = barrier.waiting[w], rest = state.thread_count - w * WARP;
        const unsigned whole = rest >= WARP ? ALL : (1u << rest) - 1;
        if (lanes && lanes != whole)
            fail("barrier %d, line %d: of warp %u only lanes 0x%08x came to it",
                 static_cast<int>(&barrier - state.barrier), barrier.place[w].line, w, lanes);
        make_ready(w, lanes);
        barrier.waiting[w] = 0;
    }
}

// Wait at barrier `id` until `threads` have arrived (0: all of the block that have not ended); the sum of all `add`.
static __attribute__((noinline)) unsigned wait_at_barrier(unsigned id, unsigned threads, unsigned add,
                                                          const Place place) {
    Thread& self = *state.current;
    Barrier& barrier = state.barrier[id];
    if (barrier.arrived && barrier.expected != threads)
        fail("barrier %u, line %d: waits for %u threads, others at it for %u", id, place.line, threads,
             barrier.expected);
    if (barrier.waiting[self.warp] && barrier.place[self.warp].line != place.line)
        fail("barrier %u: lanes of warp %u came to it at line %d and at line %d; a warp's lanes must come together", id,
             self.warp, barrier.place[self.warp].line, place.line);
    barrier.expected = threads;
    barrier.place[self.warp] = place;
    barrier.sum += add;
    ++barrier.arrived;
    barrier.waiting[self.warp] |= 1u << self.lane;
    if (barrier.arrived == (threads ? threads : state.alive)) release(barrier);
    suspend();
    return barrier.result;
}

// What a new fiber does.
static void run_thread() {
    state.body(state.arguments);
    Thread& self = *state.current;
    self.ended = true;
    --state.alive;
    Barrier& all = state.barrier[0];
    if (all.arrived && all.arrived == state.alive) release(all);
    suspend();
    abort();
}

// Nobody can go on and somebody has not ended: say who waits for what.
static inline void report_deadlock() {
    append_who(nullptr);
    append("no thread can go on");
    for (unsigned id = 0; id < BARRIERS; ++id) {
        const Barrier& barrier = state.barrier[id];
        if (!barrier.arrived) continue;
        unsigned warp = 0;
        while (!barrier.waiting[warp]) ++warp;
        append("; %u of %u threads wait at ", barrier.arrived, barrier.expected ? barrier.expected : state.alive);
        append(id ? "barrier %u" : "__syncthreads", id);
        append_place(barrier.place[warp]);
        const uint3 first =
            state.thread[warp * WARP + static_cast<unsigned>(__builtin_ctz(barrier.waiting[warp]))].index;
        append(", the first of them thread (%u, %u, %u)", first.x, first.y, first.z);
    }
    for (unsigned w = 0; w * WARP < state.thread_count; ++w) {
        for (unsigned used = state.warp[w].meetings; used; used &= used - 1) {
            const Meeting& meeting = state.warp[w].meeting[__builtin_ctz(used)];
            append("; warp %u waits in %s", w, meeting.what);
            append_place(meeting.place);
            unsigned ended = 0;
            for (unsigned lane = 0; lane < WARP; ++lane) {
                const unsigned t = w * WARP + lane;
                if (t >= state.thread_count || state.thread[t].ended) ended |= 1u << lane;
            }
            const unsigned missing = meeting.mask & ~meeting.arrived;
            append(", mask 0x%08x, reached by 0x%08x", meeting.mask, meeting.arrived);
            if (missing & ended) append(", while 0x%08x have ended", missing & ended);
        }
    }
    if (state.alive < state.thread_count) append("; %u threads have ended", state.thread_count - state.alive);
}

}  // namespace emulation
