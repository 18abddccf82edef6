// Asynchronous copies to shared memory: done as late as the kernel allows, and poison until then.
#pragma once

#include "emulation/block.h"

namespace emulation {

static inline bool in_allocation(const void* address, unsigned bytes) {
    static uint64_t last = 0;
    const uintptr_t at = reinterpret_cast<uintptr_t>(address);
    const Launch& launch = *here->launch;
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

static inline void issue_copy(void* to, const void* from, unsigned bytes, bool wanted, const Place& place) {
    unsigned char* const shared = static_cast<unsigned char*>(to);
    if (reinterpret_cast<uintptr_t>(to) % bytes)
        fail("copy_async<%u>, line %d: shared byte %td is not a multiple of %u", bytes, place.line,
             shared - here->shared, bytes);
    if (shared < here->shared || shared + bytes > here->shared + here->shared_bytes)
        fail("copy_async<%u>, line %d: to byte %td of %llu bytes of shared memory", bytes, place.line,
             shared - here->shared, static_cast<unsigned long long>(here->shared_bytes));
    if (wanted) {
        if (reinterpret_cast<uintptr_t>(from) % bytes)
            fail("copy_async<%u>, line %d: global address %p is not a multiple of %u", bytes, place.line, from, bytes);
        if (!in_allocation(from, bytes))
            fail("copy_async<%u>, line %d: global address %p is in no device array", bytes, place.line, from);
    }
    memset(shared, POISON, bytes);
    Copies& pending = here->current->pending;
    push(pending.copies, pending.count, pending.room, {shared, from, bytes, wanted});
}

static inline void commit_copies() {
    Copies& pending = here->current->pending;
    push(pending.groups, pending.group_count, pending.group_room, pending.count);
}

static inline void finish_copies(size_t still_pending) {
    Copies& pending = here->current->pending;
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
