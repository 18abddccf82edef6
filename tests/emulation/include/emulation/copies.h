// Asynchronous copies to shared memory: done as late as the kernel allows, and poison until then.
#pragma once

#include "emulation/block.h"

namespace emulation {

static inline bool in_allocation(const void* address, unsigned bytes) {
    static uint64_t last = 0;
    const uintptr_t at = reinterpret_cast<uintptr_t>(address);
    const Launch& launch = *state.launch;
    const auto holds = [&](const Allocation& a) { return at >= a.start && at + bytes <= a.start + a.bytes; };
    if (last < launch.allocation_count && holds(launch.allocations[last])) return true;
    for (uint64_t i = 0; i < launch.allocation_count; ++i)
        if (holds(launch.allocations[i])) {
            last = i;
            return true;
        }
    return false;
}

template <typename T>
static inline void push(T*& items, size_t& count, size_t& room, const T& item) {
    if (count == room) {
        room = room ? 2 * room : 16;
        items = static_cast<T*>(realloc(items, room * sizeof(T)));
    }
    items[count++] = item;
}

// Check a copy and spoil the place it goes to.
static inline Copy begin_copy(void* to, const void* from, unsigned bytes, unsigned align, bool wanted,
                              const Place& place) {
    unsigned char* const shared = static_cast<unsigned char*>(to);
    if (reinterpret_cast<uintptr_t>(to) % align)
        fail("copy_async<%u>, line %d: shared byte %td is not a multiple of %u", bytes, place.line,
             shared - state.shared, align);
    if (shared < state.shared || shared + bytes > state.shared + state.shared_bytes)
        fail("copy_async<%u>, line %d: to byte %td of %llu bytes of shared memory", bytes, place.line,
             shared - state.shared, static_cast<unsigned long long>(state.shared_bytes));
    if (wanted) {
        if (reinterpret_cast<uintptr_t>(from) % align)
            fail("copy_async<%u>, line %d: global address %p is not a multiple of %u", bytes, place.line, from, align);
        if (!in_allocation(from, bytes))
            fail("copy_async<%u>, line %d: global address %p is in no device array", bytes, place.line, from);
    }
    memset(shared, POISON, bytes);
    return {shared, from, bytes, wanted};
}

static inline void issue_copy(void* to, const void* from, unsigned bytes, bool wanted, const Place& place) {
    Copies& pending = state.current->pending;
    push(pending.copies, pending.count, pending.room, begin_copy(to, from, bytes, bytes, wanted, place));
}

// Tell the copy engine to bring something by the time that somebody waits for it at `arrival`.
static inline void begin_load(const void* arrival, void* const* to, const void* const* from, const unsigned* bytes,
                              unsigned count, const Place& place) {
    for (Load& load : state.load) {
        if (load.arrival == arrival) fail("fill, line %d: the one before has not been waited for", place.line);
        if (load.arrival) continue;
        load.arrival = arrival;
        load.count = count;
        for (unsigned i = 0; i < count; ++i) load.copies[i] = begin_copy(to[i], from[i], bytes[i], 16, true, place);
        return;
    }
    fail("fill, line %d: more copies under way than there is room for in emulation", place.line);
}
// Let what was to come to `arrival` be there; false if nothing was.
static inline bool finish_load(const void* arrival) {
    for (Load& load : state.load) {
        if (load.arrival != arrival) continue;
        for (unsigned i = 0; i < load.count; ++i) memcpy(load.copies[i].shared, load.copies[i].global, load.copies[i].bytes);
        load.arrival = nullptr;
        return true;
    }
    return false;
}

static inline void commit_copies() {
    Copies& pending = state.current->pending;
    push(pending.groups, pending.group_count, pending.group_room, pending.count);
}

static inline void finish_copies(size_t still_pending) {
    Copies& pending = state.current->pending;
    if (pending.group_count <= still_pending) return;
    const size_t groups = pending.group_count - still_pending, done = pending.groups[groups - 1];
    for (size_t i = 0; i < done; ++i) {
        const Copy& copy = pending.copies[i];
        if (copy.wanted)
            memcpy(copy.shared, copy.global, copy.bytes);
        else
            memset(copy.shared, 0, copy.bytes);
    }
    pending.count -= done;
    memmove(pending.copies, pending.copies + done, pending.count * sizeof(Copy));
    pending.group_count = still_pending;
    for (size_t i = 0; i < still_pending; ++i) pending.groups[i] = pending.groups[groups + i] - done;
}

}  // namespace emulation
