// How the kernel that does all of 1024 channels in one block divides its work, by the macros that it is compiled with.
#pragma once
#include "passes.cuh"
#include "ryle/gpu/device.cuh"

#ifndef POINTERS
#define POINTERS 0  // whether samples lie where a table of packet payloads points to, not in one buffer
#define PACKET_BYTES 16
#endif

namespace ryle::whole {

// n = LEGS x CLASSES complex points: point CLASSES·leg + class.
constexpr int LEGS = 32, CLASSES = 32;
static_assert(CHANNELS == LEGS * CLASSES && BITS <= 10 && TAPS <= 16);
constexpr int WARPS = THREADS / 32;
static_assert(WARPS == CLASSES / 2);  // a warp has two classes of the filter, and two rows of the last pass

// Rows of samples in shared memory: the words of a leg and the first of the next, as a row may begin at any bit; so
// legs are an odd number of words apart. Two groups of 16 rows: the windows of a tile reach over 15 + TAPS.
constexpr int LEG_WORDS = 2 * BITS, LEG_PITCH = LEG_WORDS + 1, ROW_WORDS = LEGS * LEG_WORDS;
constexpr int ROW_PITCH = LEGS * LEG_PITCH, GROUP_WORDS = TILE * ROW_PITCH;

// z [class][leg; then row k1][TILE]: 128 bytes of 16 spectra, two of which lie at place j ^ leg % 8 of 8.
constexpr int Z_ROW = TILE * 8, Z_BYTES = CLASSES * LEGS * Z_ROW;
constexpr int RAW_BYTES = 2 * GROUP_WORDS * 4;
constexpr int SPECTRA_BYTES = TILE * 32;
constexpr int TURNS_BYTES = LEGS * 16 * 8;
constexpr int STEPS_KNOWN = 3;
// Parts in which the rows of the step to come are fetched, beside what is made of this one's channels.
constexpr int PARTS = 3;

// What a block does next: filters a tile for those of its spectra that have one coarse delay.
struct Step {
    const uint8_t* from;  // the word in which its first row begins
    int64_t word;         // its number, counted from the chunk's first
    int shift;            // bits of it before that
    int stream;
    int tile;         // among those of all units
    uint32_t wanted;  // a bit for each spectrum
    int last;         // whether the tile's spectra are complete then
    int any;          // whether there is anything to do
    int inside;       // whether all its rows are there, in one piece
    int other;        // whether it is not of the stream of the step before, or is none
    int goes_on;      // whether its first rows are the last ones of the step before
};

// What is counted, and what is to come: in shared memory, as registers are few.
constexpr int SUMS_BYTES = 4 * THREADS * 4;  // of each thread: power of four halves of channels
constexpr int STEPS_BYTES = 24, ARRIVALS_BYTES = 16;
constexpr int KNOWN_BYTES = STEPS_KNOWN * int(sizeof(Step)) + STEPS_BYTES + ARRIVALS_BYTES;

constexpr int BYTES = Z_BYTES + RAW_BYTES + 2 * SPECTRA_BYTES + TURNS_BYTES + SUMS_BYTES + KNOWN_BYTES;
static_assert(BYTES == SHARED, "the host's plan and the kernel differ");

}  // namespace ryle::whole
