// How Hopper's kernel cuts the inputs into runs, and shares out threads, registers and shared memory for so many.
#pragma once
#include "ryle/correlate/kblocks.cuh"
#include "ryle/correlate/samples.cuh"

namespace ryle {

DEVICE constexpr int round_up(int n, int to) { return (n + to - 1) / to * to; }

constexpr bool SMALL = INPUTS <= 64;
constexpr int REST = INPUTS % 128;
// More would not fit the registers, in rectangles even less.
constexpr int SPARE = INPUTS > 128 && REST <= (INPUTS < 256 ? 32 : SAMPLES ? 0 : 16) ? round_up(REST, 16) : 0;
constexpr int FIRST = SMALL ? round_up(INPUTS, 16) : 128 + SPARE;  // rows of the first run
constexpr int RUNS = SMALL || INPUTS <= FIRST ? 1 : 1 + (INPUTS - FIRST + 127) / 128;
// Whether warpgroup 1 has no inputs in the last run.
constexpr bool HALF = RUNS > 1 && INPUTS - SPARE - 128 * (RUNS - 1) <= 64;

constexpr int TEAMS = SMALL ? 2 : 1;        // that have a ring each
constexpr int WARPGROUPS = 2 / TEAMS;       // of a team
constexpr bool BESIDE = PACKED || SAMPLES;  // columns are expanded or transposed by a warpgroup of their own
constexpr int HELPERS = 4 / TEAMS;          // warps of it that a team has
constexpr int THREADS = BESIDE ? 512 : 384;
// Registers of a thread that fetches, that works beside and of the warpgroups that multiply. Of several runs'
// rectangles both of them need the same, of one run the second the more columns. What is enough for all numbers of
// inputs, so that nothing spills with the compilers of CUDA 13.0 and 13.5, was found by trying.
struct Registers {
    int fetch, beside, first, second;
};
constexpr Registers REGISTERS = !BESIDE                   ? Registers{24, 0, 240, 240}
                                : SMALL                   ? Registers{24, 128, 168, 168}
                                : SAMPLES                 ? (RUNS > 1    ? Registers{24, 72, 208, 208}
                                                             : POLS == 1 ? Registers{24, 64, 208, 216}
                                                                         : Registers{24, 72, 200, 216})
                                : RUNS == 1 || SPARE == 0 ? Registers{24, 40, 224, 224}
                                : RUNS == 2               ? Registers{32, 40, 224, 216}
                                                          : Registers{32, 32, 224, 224};
static_assert(REGISTERS.fetch + REGISTERS.beside + REGISTERS.first + REGISTERS.second <= (BESIDE ? 4 * 128 : 3 * 168));

constexpr int FETCH_ROW = PACKED ? ROW / 2 : ROW;             // bytes, as fetched
constexpr int FETCHED = PACKED ? FIRST * ROW : 0;             // where in a stage; before are the expanded columns
constexpr int COLUMNS = PACKED ? 0 : 128 * FETCH_ROW;         // where in a stage a rectangle's are
constexpr int BOXES = (FIRST + BOX_INPUTS - 1) / BOX_INPUTS;  // of the first run's samples
constexpr int RUN_BOXES = RUNS == 1 ? BOXES : 2;              // of a run's
static_assert(!SAMPLES || SPARE == 0 || RUNS == 1);
constexpr int FETCHED_FIRST = SAMPLES ? BOXES * BOX_INPUTS : FIRST;
constexpr int STAGE = FETCHED + (FETCHED_FIRST + (RUNS > 1 ? 128 : 0)) * FETCH_ROW;

// K-blocks of a run with itself that share a stage: such a run has half of a rectangle's rows, so that few stages last
// as long.
constexpr int RUN = 128 * ROW;  // bytes of a run's K-block
constexpr int SHARING = RUNS > 1 && SPARE == 0 && !BESIDE ? 2 : 1;

// Of the two halves of a warp's rows, how many are LAID down for the copy engine to send; others leave from registers.
// Room for both takes half of the ring: that gains where most tiles are rectangles, and loses where few are. Forms with
// warps beside need the ring, with few inputs all waits for the memory, long arrays with some inputs left over have no
// registers for it, and one polarization's products are no multiples of 16 bytes, which the copy engine wants.
constexpr bool LAYING = POLS == 2 && !BESIDE && !SMALL && (SPARE == 0 || RUNS <= 2);
constexpr int LAID = LAYING ? (RUNS > 4 ? 2 : 1) : 0;
constexpr int SLOT_ROW = FIRST / 2 * 32;  // bytes of an antenna's products with all columns of a tile
constexpr int SLOT = 4 * SLOT_ROW;        // of half of a warp's rows
constexpr int TURN_PITCH = 68;  // words, so that rows and columns of what is transposed lie in different banks
constexpr int TURN = 64 * TURN_PITCH * 4;  // bytes in which a warpgroup transposes sums, where it then lays them down
constexpr int OUTLET = LAID * 4 * SLOT > TURN ? LAID * 4 * SLOT : TURN;
constexpr int BARRIERS = LAID ? 2048 : 1024;  // and what is told of tiles and of what is laid down
constexpr int ROOM = (SHARED_SIZE - BARRIERS - 2 * OUTLET) / (TEAMS * STAGE);
constexpr int MAX_STAGES = 12, STAGES = ROOM < MAX_STAGES ? ROOM : MAX_STAGES;
static_assert(STAGES >= 3 && TEAMS * STAGES * 40 + (LAID ? 8 * (4 * LAID * 16 + 16) : 0) <= BARRIERS);

DEVICE int first_input(int run) { return run ? SPARE + 128 * run : 0; }

// Which of a warp's 16 rows a lane has in the first or second half of its registers, by how rows were loaded.
template <bool PAIRED>
DEVICE int own_row(int half) {
    const int g = threadIdx.x % 32 / 4;
    return PAIRED ? 2 * own_pair(g) + half : g + 8 * half;
}

}  // namespace ryle
