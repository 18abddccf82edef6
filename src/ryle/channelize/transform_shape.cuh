// How transform.cu divides its work, by the macros that it is compiled with; and a tile, as a block works on it.
#pragma once
#include "finish.cuh"
#include "heaps.cuh"
#include "passes.cuh"
#include "philox.cuh"

#define TO_BLOCKS 0
#define TO_HEAPS 1
#define TO_FLOATS 2

namespace ryle {

constexpr int ROWS = RADIX * MIDDLE;  // from the filter, and from the pass between the two kernels
constexpr int POINTS = CHANNELS / ROWS;
constexpr int P = POINTS / LAST;                   // butterflies of the last pass in a row
constexpr int WIDE = LAST == 8 && P >= 4 ? 2 : 1;  // spectra of a thread in the last pass
constexpr int LANES = SIDE / WIDE;
constexpr int Q = LAST / 4;
constexpr int STRIDE = CHANNELS / LAST;  // channels from one output of the last pass to the next
constexpr int SHARE = THREADS / 2 < POINTS ? THREADS / 2 : POINTS;  // channels of a row that are written at a time
constexpr int LIMIT = OUTPUT_BITS == 8 ? 127 : 7;
constexpr int VALUE =
    HEAP_VALUE<TOGETHER, OUTPUT_BITS>;  // bytes of a spectrum in a channel of a heap; pieces of a tile
constexpr int APART = SECOND * LAST;    // points of a row from one of the first pass's inputs to the next
constexpr int SIDES = TILE / SIDE;
constexpr int STEPS = SIDES * TOGETHER;  // of a block, for a tile and pair of rows
static_assert(P == FIRST * SECOND && P * LANES <= THREADS, "a thread has one task in the last pass");

constexpr int Z_BYTES = 2 * POINTS * SIDE * 8;
constexpr int OUT_BYTES = 2 * POINTS * 2 * TILE;
constexpr int SUM_BYTES = 2 * POINTS * 2 * 4;
constexpr int EDGE_BYTES = 2 * LAST * SIDE * 8;
constexpr int SPECTRA_BYTES = TILE * 32;

// Where output j of a butterfly of the last pass lies among those of its row, in shared memory.
#ifdef WHOLE
constexpr bool IN_ONE = true;
DEVICE constexpr int staged_place(int j) { return j / 4 * (32 * TILE * 8) + j % 4 * (2 * TILE); }
#else
constexpr bool IN_ONE = false;
DEVICE constexpr int staged_place(int j) { return j * (P * 2 * TILE); }
#endif
static_assert(TOGETHER == 1 || OUTPUT == TO_HEAPS);

// Whether there the two parts of a spectrum of a channel lie side by side, as a thread that has one spectrum stores
// them at once; or the real parts of all spectra, and then the imaginary parts.
constexpr bool PAIRED = WIDE == 1 && (IN_ONE || OUTPUT != TO_HEAPS);
DEVICE constexpr int of_spectrum(int s) { return PAIRED ? 2 * s : s; }

// A tile of spectra of one input, in two rows of channels.
struct Tile {
    int stream;
    int pair;               // the first row: row k has the channels k + ROWS·k2
    int image;              // and the second one, with their mirror images
    int first;              // of its spectra, among those wanted
    uint64_t first_index;   // the same since sync, for the dither
    const float4* spectra;  // shared: 16 times Spectrum
    const float2* gains;    // of the input, in the order of butterflies
    uint8_t* staged;        // shared [2 POINTS][2: re, im][TILE] or [TILE][2]: quantized values

    DEVICE int row(int which) const { return which ? image : pair; }
};

// Keys of the dither's generator, and the number in the whole array of input 0.
struct DitherKeys {
    RoundKeys rounds;
    int first_input;
};

}  // namespace ryle
