// The emulated form of src/ryle/correlate/hopper.cuh. Copies and products are done as soon as they are asked for: what
// the real ones may not touch meanwhile is not checked.
#pragma once

#include "ryle/gpu/device.cuh"

namespace emulation {

struct CountingBarrier;
static CountingBarrier* waits_for[MAX_THREADS];

struct CountingBarrier {
    uint8_t parity, count, pending, made;
    int bytes;

    void settle() {
        if (pending != 0 || bytes != 0) return;
        parity ^= 1;
        pending = count;
        for (unsigned t = 0; t < state.thread_count; ++t)
            if (waits_for[t] == this) {
                waits_for[t] = nullptr;
                make_ready(t / WARP, 1u << t % WARP);
            }
    }
};
static_assert(sizeof(CountingBarrier) == 8);

static inline CountingBarrier& counting(uint64_t* barrier, const Place& place) {
    CountingBarrier& found = *reinterpret_cast<CountingBarrier*>(barrier);
    if (found.made != 0xA5) fail("line %d: this barrier was not initialised", place.line);
    return found;
}

// What the host makes in place of a CUtensorMap.
struct Boxes {
    const unsigned char* data;
    uint64_t antennas, pols, blocks, channels, box_antennas, row_bytes;
    uint64_t channel_stride, block_stride, antenna_stride;  // bytes
};

struct Samples {
    const unsigned char* data;
    uint64_t bytes, x, y, z, box_x, box_z;  // bytes of an element, extents, and of the box, which has one y
};

// Where the swizzle of rows of 64 or of 128 bytes puts a byte.
static inline uint32_t swizzled(uint32_t at, uint32_t width = 128) { return at ^ (at >> 7 & (width / 16 - 1)) << 4; }

}  // namespace emulation

namespace ryle {

DEVICE uint32_t shared_address(const void* shared) {
    return static_cast<uint32_t>(static_cast<const unsigned char*>(shared) - emulation::state.shared);
}

DEVICE void barrier_init(uint64_t* barrier, int count) {
    const auto arrivals = static_cast<unsigned char>(count);
    *reinterpret_cast<emulation::CountingBarrier*>(barrier) = {0, arrivals, arrivals, 0xA5, 0};
}
DEVICE void barrier_init_done() {}
DEVICE void barrier_arrive_expecting(uint64_t* barrier, int bytes, EMULATED_PLACE) {
    emulation::CountingBarrier& b = emulation::counting(barrier, place);
    if (b.pending == 0) emulation::fail("line %d: more threads arrived than the barrier has in a phase", place.line);
    --b.pending;
    b.bytes += bytes;
    b.settle();
}
DEVICE void barrier_arrive(uint64_t* barrier, EMULATED_PLACE) { barrier_arrive_expecting(barrier, 0, place); }
DEVICE void barrier_wait(uint64_t* barrier, int parity, EMULATED_PLACE) {
    emulation::CountingBarrier& b = emulation::counting(barrier, place);
    while (b.parity == parity) {
        emulation::waits_for[emulation::state.current - emulation::state.thread] = &b;
        emulation::suspend();
    }
}

DEVICE int4 load_first(const void* from) {
    return emulation::state.current->lane == 0 ? *static_cast<const int4*>(from) : int4{};
}

DEVICE uint32_t least_halves(uint32_t a, uint32_t b, uint32_t c) {
    const auto least = [&](int shift) {
        const auto half = [&](uint32_t word) { return int(static_cast<int16_t>(word >> shift)); };
        return uint32_t(min(min(half(a), half(b)), half(c)) & 0xFFFF) << shift;
    };
    return least(0) | least(16);
}

DEVICE uint32_t greater_halves(uint32_t a, uint32_t b) {
    const auto greater = [&](int shift) {
        return uint32_t(max(static_cast<int16_t>(a >> shift), static_cast<int16_t>(b >> shift)) & 0xFFFF) << shift;
    };
    return greater(0) | greater(16);
}

DEVICE void load_matrices_transposed(uint32_t (&d)[4], const void* row, EMULATED_PLACE) {
    uint32_t rows[4];  // as they are: word q of row g
    load_matrices(rows, row, place);
    struct Own {
        uint32_t d[4];
    } own = {{rows[0], rows[1], rows[2], rows[3]}};
    const Own taken = emulation::meet(
        "load_matrices_transposed", place, false, emulation::ALL, own, [](auto) {},
        [&](auto values) {
            const unsigned lane = emulation::state.current->lane, column = lane / 4;
            Own mine;
            for (int i = 0; i < 4; ++i)
                for (unsigned half = 0; half < 2; ++half) {
                    const unsigned from = 4 * (2 * (lane % 4) + half) + column / 2;
                    memcpy(reinterpret_cast<char*>(&mine.d[i]) + 2 * half, values[from] + 4 * i + column % 2 * 2, 2);
                }
            return mine;
        });
    for (int i = 0; i < 4; ++i) d[i] = taken.d[i];
}
DEVICE void store_matrices(void* row, const uint32_t (&d)[4], EMULATED_PLACE) {
    struct Own {
        unsigned char* row;
        uint32_t d[4];
    } own = {static_cast<unsigned char*>(row), {d[0], d[1], d[2], d[3]}};
    if (shared_address(row) % 16 || shared_address(row) + 16 > emulation::state.shared_bytes)
        emulation::fail("store_matrices, line %d: a row at byte %u of shared memory", place.line, shared_address(row));
    emulation::meet(
        "store_matrices", place, false, emulation::ALL, own, [](auto) {},
        [&](auto values) {
            const unsigned lane = emulation::state.current->lane;
            for (unsigned i = 0; i < 4; ++i) {
                Own given;
                memcpy(&given, values[8 * i + lane / 4], sizeof given);
                memcpy(given.row + lane % 4 * 4, &own.d[i], 4);
            }
            return 0;
        });
}

DEVICE void shared_writes_done() {}
DEVICE void map_acquire(const void* map) { (void)map; }
DEVICE void fetch_box(void* shared, const void* map, uint64_t* barrier, int antenna, int block, int channel,
                      EMULATED_PLACE) {
    const emulation::Boxes& boxes = *static_cast<const emulation::Boxes*>(map);
    const uint32_t width = static_cast<uint32_t>(boxes.row_bytes), at = shared_address(shared);
    const uint64_t rows = boxes.box_antennas * boxes.pols;
    if (at % (8 * width)) emulation::fail("line %d: a box at shared byte %u", place.line, at);
    for (uint64_t r = 0; r < rows; ++r) {
        const uint64_t own = antenna + r / boxes.pols;
        const bool exists = own < boxes.antennas && block < static_cast<int>(boxes.blocks) &&
                            channel < static_cast<int>(boxes.channels);
        const unsigned char* from = boxes.data + channel * boxes.channel_stride + block * boxes.block_stride +
                                    own * boxes.antenna_stride + r % boxes.pols * width;
        for (uint32_t byte = 0; byte < width; ++byte)
            emulation::state.shared[emulation::swizzled(at + static_cast<uint32_t>(r) * width + byte, width)] =
                exists ? from[byte] : 0;
    }
    emulation::CountingBarrier& b = emulation::counting(barrier, place);
    b.bytes -= static_cast<int>(rows * width);
    b.settle();
}
DEVICE void fetch_samples(void* shared, const void* map, uint64_t* barrier, int x, int y, int z, EMULATED_PLACE) {
    const emulation::Samples& from = *static_cast<const emulation::Samples*>(map);
    const uint32_t width = static_cast<uint32_t>(from.box_x * from.bytes), at = shared_address(shared);
    const bool swizzle = width == 128;
    if (at % (swizzle ? 1024 : 128)) emulation::fail("line %d: a box at shared byte %u", place.line, at);
    for (uint32_t row = 0; row < from.box_z; ++row)
        for (uint32_t byte = 0; byte < width; ++byte) {
            const uint32_t to = at + row * width + byte;
            const uint64_t own = x + byte / from.bytes;
            const bool exists = own < from.x && static_cast<uint64_t>(y) < from.y && z + row < from.z;
            emulation::state.shared[swizzle ? emulation::swizzled(to) : to] =
                exists ? from.data[(((z + row) * from.y + y) * from.x + own) * from.bytes + byte % from.bytes] : 0;
        }
    emulation::CountingBarrier& b = emulation::counting(barrier, place);
    b.bytes -= static_cast<int>(from.box_z * width);
    b.settle();
}

static inline void check_bulk(const void* shared, const void* global, int bytes, const emulation::Place& place) {
    if (bytes <= 0 || bytes % 16 || reinterpret_cast<uintptr_t>(global) % 16 || shared_address(shared) % 16)
        emulation::fail("line %d: %d bytes between shared byte %u and %p", place.line, bytes, shared_address(shared),
                        global);
    if (!emulation::in_allocation(global, static_cast<unsigned>(bytes)))
        emulation::fail("line %d: global address %p is in no device array", place.line, global);
}
DEVICE void fetch(void* shared, const void* global, uint64_t* barrier, int bytes, EMULATED_PLACE) {
    check_bulk(shared, global, bytes, place);
    memcpy(shared, global, static_cast<size_t>(bytes));
    emulation::CountingBarrier& b = emulation::counting(barrier, place);
    b.bytes -= bytes;
    b.settle();
}

DEVICE void store(int* to, const int4& v, bool there) {
    if (there) *reinterpret_cast<int4*>(to) = v;
}
DEVICE void store_shared(void* to, const int4& v) { *static_cast<int4*>(to) = v; }

DEVICE void send(void* global, const void* shared, int bytes, bool add, EMULATED_PLACE) {
    check_bulk(shared, global, bytes, place);
    if (!add) {
        memcpy(global, shared, static_cast<size_t>(bytes));
        return;
    }
    for (int i = 0; i < bytes / 4; ++i) static_cast<uint32_t*>(global)[i] += static_cast<const uint32_t*>(shared)[i];
}
DEVICE void send_read() {}
DEVICE void send_done() {}

template <int REGISTERS>
DEVICE void registers_take() {}
template <int REGISTERS>
DEVICE void registers_give() {}
DEVICE void wgmma_begin() {}
DEVICE void wgmma_commit() {}
template <int PENDING>
DEVICE void wgmma_wait() {}
template <int COUNT>
DEVICE void settle(int (&)[COUNT]) {}
DEVICE uint64_t rows_descriptor(uint32_t address) { return address; }

template <int N>
DEVICE void wgmma(int (&d)[N / 2], const uint32_t (&a)[4], uint64_t b, EMULATED_PLACE) {
    struct Own {
        uint32_t a[4];
    } own = {{a[0], a[1], a[2], a[3]}};
    struct All {
        signed char a[16][32];
    };
    const All all = emulation::meet(
        "wgmma", place, false, emulation::ALL, own, [](auto) {},
        [](auto values) {
            All taken;
            for (int lane = 0; lane < 32; ++lane)
                for (int i = 0; i < 4; ++i)
                    memcpy(&taken.a[lane / 4 + 8 * (i % 2)][16 * (i / 2) + lane % 4 * 4], values[lane] + 4 * i, 4);
            return taken;
        });
    const int lane = static_cast<int>(emulation::state.current->lane);
    for (int n = 0; n < N / 8; ++n)
        for (int i = 0; i < 4; ++i) {
            const int row = lane / 4 + 8 * (i / 2), column = 8 * n + lane % 4 * 2 + i % 2;
            int sum = 0;
            for (int k = 0; k < 32; ++k) {
                const uint32_t at = emulation::swizzled(static_cast<uint32_t>(b) + column * 128 + k);
                sum += all.a[row][k] * static_cast<signed char>(emulation::state.shared[at]);
            }
            d[4 * n + i] = static_cast<int>(static_cast<uint32_t>(d[4 * n + i]) + static_cast<uint32_t>(sum));
        }
}

}  // namespace ryle
