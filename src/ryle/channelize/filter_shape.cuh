// How filter.cu divides its work, by the macros that it is compiled with.
#pragma once
#include "passes.cuh"
#include "ryle/gpu/device.cuh"

#ifndef POINTERS
#define POINTERS 0  // whether samples lie where a table of packet payloads points to, not in one buffer
#define PACKET_BYTES 16
#endif

namespace ryle {

constexpr int BATCH = 4;                  // rows that are unpacked at once: more would not fit into the registers
constexpr int COLUMNS = 2 * CHANNELS;     // values of a step
constexpr int POINTS = CHANNELS / RADIX;  // complex points after the first radix
constexpr int STRIP = THREADS / RADIX, STRIPS = POINTS / STRIP;
constexpr int WARPS = THREADS / 32;
constexpr int64_t ROW_BYTES = int64_t(COLUMNS) * BITS / 8;

// Rows are worked on TILE at a time. Of the first LEAD, no sum is complete; IDLE of them do not exist, so that the
// others are a multiple of TILE.
constexpr int IDLE = (TILE - (TAPS - 1) % TILE) % TILE, LEAD = IDLE + TAPS - 1;

// A warp fetches its own samples, in pieces of 16 bytes, the columns of a leg as one segment.
constexpr int SEGMENT = STRIP < 32 ? STRIP : 32, SEGMENTS = 32 / SEGMENT;
constexpr int PIECES = (127 + 2 * SEGMENT * BITS + 127) / 128;  // a segment may begin at any bit of its first piece
constexpr int SLOTS = PIECES <= 2    ? 2
                      : PIECES <= 4  ? 4
                      : PIECES <= 8  ? 8
                      : PIECES <= 16 ? 16
                                     : 32;       // lanes of a segment
constexpr int STEP = 32 / SLOTS / SEGMENTS;      // rows that a warp fetches at once
constexpr int RAW_ROW = SEGMENTS * PIECES * 16;  // bytes
constexpr int RAW_TILE = TILE * RAW_ROW + 16;    // the last thread may read a word more than it needs
constexpr int RAW_BYTES = WARPS * 2 * RAW_TILE;

constexpr int AHEAD = 4;  // passes that a warp knows of: this one and the next two
constexpr int AHEAD_BYTES = WARPS * AHEAD * int(sizeof(Pass));
constexpr int PITCH = THREADS + 1;  // odd: then a column of 16 spectra lies in all banks
constexpr int Y_BYTES = 2 * TILE * PITCH * 8;
static_assert(RAW_BYTES + Y_BYTES + AHEAD_BYTES + THREADS * 8 == SHARED, "the host's plan and the kernel differ");
static_assert(STEP > 0 && POINTS % STRIP == 0 && ROW_BYTES % 16 == 0 && PACKET_BYTES % 16 == 0);

}  // namespace ryle
