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
constexpr bool BESIDE = PACKED || SAMPLES;  // columns are expanded or transposed by warps beside
constexpr int EXPANDERS = BESIDE ? 3 : 0;   // warps of a team; 3 more would take registers from those who multiply
constexpr int THREADS = 32 * (8 + round_up(TEAMS * (1 + EXPANDERS), 4));
// Of a thread, after the launch with as many each as there are: no more than that.
constexpr bool EQUAL = PACKED && THREADS > 384;
constexpr bool MANY = THREADS > 384;
constexpr int PRODUCER_REGISTERS = MANY ? 56 : BESIDE ? 56 : 40, CONSUMER_REGISTERS = MANY ? 200 : BESIDE ? 224 : 232;
static_assert((MANY ? 2 : 1) * PRODUCER_REGISTERS + 2 * CONSUMER_REGISTERS <= (MANY ? 4 * 128 : 3 * 168));

constexpr int FETCH_ROW = PACKED ? ROW / 2 : ROW;      // bytes, as fetched
constexpr int FETCHED = BESIDE ? FIRST * ROW : 0;      // where in a stage; before are the expanded columns
constexpr int COLUMNS = BESIDE ? 0 : 128 * FETCH_ROW;  // where in a stage a rectangle's are
constexpr int BOXES = SMALL ? 1 : 2;                   // of a run's samples, beside the spare ones
constexpr int FETCHED_FIRST = SAMPLES ? BOXES * BOX_INPUTS + SPARE : FIRST;
constexpr int STAGE = FETCHED + (FETCHED_FIRST + (RUNS > 1 ? 128 : 0)) * FETCH_ROW;

// Sums on their way out. With two polarizations they lie in shared memory as they will outside, each antenna's in a
// row.
constexpr bool STAGED = POLS == 2;
constexpr int PITCH = FIRST * 4 + (SAMPLES ? 4 : 0);  // of those rows, in words
constexpr int TURN_PITCH = 68;  // so that rows and columns of what is transposed lie in different banks
constexpr int TURN = 64 * TURN_PITCH;
constexpr bool ONE_OUTLET = STAGED && !SMALL;  // for both warpgroups
constexpr int OUTLET = ONE_OUTLET ? 32 * PITCH : TURN;
static_assert(OUTLET >= TURN && (!STAGED || !SMALL || OUTLET >= 32 * 33 / 2 * 8));
constexpr int OUT = (ONE_OUTLET ? 1 : 2) * OUTLET * 4;  // bytes
constexpr int BARRIERS = 1024;
constexpr int ROOM = (SHARED_SIZE - BARRIERS - OUT) / (TEAMS * STAGE);
constexpr int MAX_STAGES = 12, STAGES = ROOM < MAX_STAGES ? ROOM : MAX_STAGES;
static_assert(STAGES >= 3 && TEAMS * STAGES * 40 <= BARRIERS);

DEVICE int first_input(int run) { return run ? SPARE + 128 * run : 0; }

// Which of a warp's 16 rows a lane has in the first or second half of its registers.
DEVICE int own_row(int half) {
    const int g = threadIdx.x % 32 / 4;
    return SAMPLES ? 2 * own_pair(g) + half : g + 8 * half;
}

}  // namespace ryle
