// How a warp of the filter gets its rows of samples: 16 at a time by asynchronous copies into shared memory, which it
// shares with no other, while it filters the 16 before; with them what there is to know of the passes to come.
#pragma once
#include "filter_shape.cuh"
#include "passes.cuh"
#include "ryle/gpu/device.cuh"

namespace ryle {

// The first complex column of a thread in a strip of columns, in values.
DEVICE int column_of(int strip, int thread) { return 2 * (thread / STRIP * POINTS + strip * STRIP + thread % STRIP); }

// The rows of a warp, pass by pass.
struct Rows {
    const void* samples;    // uint8 [stream][stride]; or const uint8* [stream][packets]
    int64_t stride, bytes;  // of a stream: distance (in packets with POINTERS) and size
    const Pass* passes;     // [unit][MOST_PASSES]
    uint8_t* raw;           // shared [2: by turns][TILE][SEGMENTS][PIECES][16], of this warp
    Pass* ahead;            // shared [AHEAD: by turns], of this warp
    int strip;
    int turn;  // which half of `raw` is to be filled next
    // Where this lane fetches its pieces of 16 bytes of a pass.
    int64_t at;  // the next, counted from the chunk's first byte
    int stream;
    bool needed;  // whether the segment extends to its piece
    bool inside;  // whether all rows are there

    // Turn to a pass: where its first row lies that this lane fetches.
    DEVICE void begin(const Pass& pass) {
        const int lane = threadIdx.x % 32, piece = lane % SLOTS, of_leg = lane / SLOTS % SEGMENTS;
        const int64_t bit = (pass.start + column_of(strip, int(threadIdx.x) - lane + of_leg * SEGMENT)) * BITS;
        at = (bit >> 7 << 4) + piece * 16 + (lane / SLOTS / SEGMENTS - IDLE) * ROW_BYTES;
        stream = pass.stream;
        needed = piece < PIECES && piece * 128 < int(bit & 127) + 2 * SEGMENT * BITS;
        // The same for all threads of a block: whether all rows of the strip are there.
        const int64_t low = (pass.start + 2 * strip * STRIP) * BITS >> 3;
        inside = low >= 16 && low + (pass.tiles * TILE + TAPS) * ROW_BYTES <= bytes;
    }

    // Begin to fetch the next tile of rows; `first`: of a pass, when rows before the first do not exist.
    template <bool FIRST_TILE>
    DEVICE void fetch() {
        const int lane = threadIdx.x % 32;
        uint8_t* to = raw + turn * RAW_TILE + (lane / SLOTS * PIECES + lane % SLOTS) * 16;
        const uint8_t* from = static_cast<const uint8_t*>(samples) + stream * stride + at;
        auto there = [&](int row) { return !(FIRST_TILE && row < IDLE) || lane / SLOTS / SEGMENTS + row >= IDLE; };
        if (!POINTERS && inside) {
#pragma unroll
            for (int row = 0; row < TILE; row += STEP)
                copy_async_if<16>(needed && there(row), to + row * RAW_ROW, from + row * ROW_BYTES);
        } else {
#pragma unroll
            for (int row = 0; row < TILE; row += STEP) {
                // What does not exist is read by no spectrum that is wanted.
                const int64_t place = at + row * ROW_BYTES;
                bool wanted = needed && there(row) && place >= 0 && place < bytes;
                if constexpr (POINTERS) {
                    const uint32_t packet = uint32_t(wanted ? place : 0) / PACKET_BYTES;
                    const auto* table = static_cast<const unsigned long long*>(samples);
                    const auto* payload = reinterpret_cast<const uint8_t*>(__ldg(table + stream * stride + packet));
                    copy_async_if<16>(wanted && payload, to + row * RAW_ROW,
                                      payload + (uint32_t(place) - packet * PACKET_BYTES));
                } else {
                    copy_async_if<16>(wanted, to + row * RAW_ROW, from + row * ROW_BYTES);
                }
            }
        }
        copy_async_commit();
        at += TILE * ROW_BYTES;
        turn ^= 1;
    }

    // Begin to fetch what there is to know of pass number `number`, which is at `place`.
    DEVICE void announce(int number, int place) {
        copy_async_if<16>(threadIdx.x % 32 < sizeof(Pass) / 16,
                          reinterpret_cast<uint4*>(ahead + number % AHEAD) + threadIdx.x % 32,
                          reinterpret_cast<const uint4*>(passes + place) + threadIdx.x % 32);
    }
    DEVICE const Pass& pass(int number) const { return ahead[number % AHEAD]; }
};

}  // namespace ryle
