// The X-engine for Hopper: int8 matrix instructions of warpgroups, fed by the copy engine.
//
// Blocks of threads live as long as the kernel. One thread fetches K-blocks of the tiles that it draws from a counter
// into a ring in shared memory; two warpgroups multiply, columns from there and rows from registers, where [re | im]
// becomes [-im | re], for the imaginary part of the conjugate, which is kept. The inputs are cut into a first run of
// 128 + SPARE (16 or 32 when few are left over, so that they waste little) and runs of 128. Tiles:
//
//  - rectangles, 128 rows times all columns of an earlier run: each warpgroup has 64 rows;
//  - triangles, a run with itself: warpgroup 0 has rows SPARE to SPARE + 63, warpgroup 1 the next 64, each with all
//    columns up to its own; the corner of the first SPARE rows falls to warpgroup 0;
//  - of 64 inputs or fewer, the whole channel: then each warpgroup has its own ring and its own channels.
//
// Where rows and columns are the same 64 inputs, half the products are the conjugates of the others. All real parts are
// computed, but of -Im = M^T - M, with M = im · re^T, only X: sums that have M^T's terms of groups 0 and 2 and those of
// -M of groups 1 and 3. Then -Im = X - X^T, too. One step does two groups: [re_r(0) | -im_r(1)] · [im_c(0) | re_c(1)],
// for im(0) and re(1) are neighbours in a row.
//
// PACKED rows have 64 bytes of two four-bit parts each. Idle warps of the last warpgroups expand the columns, times 16,
// beside them; rows are expanded in registers. Sums are then 256 times too large until written.
//
// A warpgroup's sums leave through shared memory, by the copy engine. There is room for one warpgroup: the other
// multiplies meanwhile, and falls behind, or gets ahead, by so much that next time it need not wait.
#include "ryle/correlate/hopper.cuh"
#include "ryle/correlate/kblocks.cuh"
#include "ryle/correlate/samples.cuh"

using namespace ryle;

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

// One of the tiles, in the order in which they are drawn.
struct alignas(16) Tile {
    int integration, channel;  // -1 after the last
    int rows, columns;         // runs
};

struct Ring {
    unsigned char* stages;
    uint64_t *fetched, *full, *empty;
    Tile* tiles;  // whose data a stage has, with the first of them

    // A warp has read a stage.
    DEVICE void leave(int stage) const {
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(empty + stage);
    }
};

// Where a thread is in its team's ring.
struct Place {
    int stage = 0, parity = 0;
    DEVICE int before() const { return (stage ? stage : STAGES) - 1; }
    DEVICE void advance() {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};

constexpr uint32_t HIGH_PARTS = 0xF0F0F0F0u;

DEVICE int first_input(int run) { return run ? SPARE + 128 * run : 0; }

// Where this thread's parts lie from a row of 64 on, its chunk 0. The rows of other chunks differ in bits 4 to 6 only,
// of PACKED ones in 4 and 5.
DEVICE int lane_offset(int row) {
    if constexpr (SAMPLES)
        return FETCHED + row / BOX_INPUTS * BOX +
               sample_offset<BOX_INPUTS>(threadIdx.x % 128 / 32, threadIdx.x % 32 / 4, threadIdx.x % 4);
    const int lane = threadIdx.x % 128, own = lane / 32 * 16 + lane % 32 / 4;
    const int begin = PACKED ? own * FETCH_ROW + (own / 2 % 4 << 4) : chunk_offset(own, 0);
    return FETCHED + row * FETCH_ROW + begin + lane % 4 * 4;
}

// The same of the rows of the corner.
DEVICE int corner_offset() {
    if constexpr (!SAMPLES) return lane_offset(0);
    return FETCHED + BOXES * BOX + sample_offset<SPARE>(threadIdx.x % 128 / 32, threadIdx.x % 32 / 4, threadIdx.x % 4);
}

// Which of a warp's 16 rows a lane has in the first or second half of its registers.
DEVICE int own_row(int half) {
    const int g = threadIdx.x % 32 / 4;
    return SAMPLES ? 2 * own_pair(g) + half : g + 8 * half;
}

// Four bytes a register of this warp's 16 rows, as the matrix instructions want a group of rows; zero in warps from
// `live` rows on. `at` is the stage's offset and this thread's in it. The address is made anew for each group, with one
// operation: kept, 16 of them would take the registers that the sums need.
template <int LIVE, bool CORNER = false>
DEVICE void load_rows(uint32_t (&a)[4], const unsigned char* stages, int at, int group) {
    const bool live = LIVE == 64 || static_cast<int>(threadIdx.x) % 128 / 32 * 16 < LIVE;
    if constexpr (SAMPLES) {
        a[0] = a[1] = a[2] = a[3] = 0;
        if (live) load_samples<CORNER ? SPARE : BOX_INPUTS>(a, stages, at, group);
        return;
    }
    const auto load = [&](int chunk, int half) {
        const unsigned char* from = stages + (at ^ chunk << 4) + half * 8 * FETCH_ROW;
        return live ? *reinterpret_cast<const uint32_t*>(from) : 0;
    };
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        if constexpr (PACKED) {
            const uint32_t both = load(group, half);
            a[half] = both & HIGH_PARTS;
            a[2 + half] = both << 4 & HIGH_PARTS;
        } else {
            a[half] = load(2 * group, half);
            a[2 + half] = load(2 * group + 1, half);
        }
    }
}

// Sums of 64 rows: complex with FULL columns, then, with their own X inputs, real parts and half of the imaginary
// parts; besides those of the CORNER, the tile's first rows with themselves. `im` and what becomes of `x` are those of
// the conjugates.
template <int FULL, int X, int CORNER>
struct Sums {
    static constexpr int SIZE = (FULL + X) / 2;
    int re[SIZE] = {}, im[FULL ? FULL / 2 : 1] = {}, x[X ? X / 2 : 1] = {};
    int corner_re[CORNER ? CORNER / 2 : 1] = {}, corner_x[CORNER ? CORNER / 2 : 1] = {};
};

constexpr int FEW = 2;  // K-blocks, after which the copy engine has long taken the sums of the tile before

// Multiply all K-blocks of a tile: this warpgroup's rows from `row` on in a stage, the columns from byte `columns` on.
// `begun` is called after the first FEW.
template <int FULL, int X, int CORNER, typename Begun>
DEVICE void multiply(Sums<FULL, X, CORNER>& sums, const Ring& ring, Place& place, int blocks, int row, int columns,
                     const Begun& begun) {
    constexpr int LIVE = FULL == 0 ? X : 64;
    // Whether there are registers for rows that wait until others have been multiplied.
    constexpr bool EARLY = 2 * FULL + 3 * X / 2 + 2 * CORNER <= 256;
    const int lane = lane_offset(row), corner_lane = corner_offset();
    const auto leave = [&](int stage) { ring.leave(stage); };
    for (int block = 0; block < blocks; ++block) {
        if constexpr (BESIDE) barrier_wait(ring.fetched + place.stage, place.parity);
        barrier_wait(ring.full + place.stage, place.parity);
        const int stage = place.stage * STAGE;
        const uint32_t at = shared_address(ring.stages + stage);
        uint32_t next[4], held[2] = {}, corner_held[2] = {};
        if constexpr (EARLY) load_rows<LIVE>(next, ring.stages, stage + lane, 0);
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
            uint32_t a[4] = {next[0], next[1], next[2], next[3]}, corner[4] = {};
            if constexpr (!EARLY) load_rows<LIVE>(a, ring.stages, stage + lane, group);
            const uint32_t turned[4] = {negate_bytes(a[2]), negate_bytes(a[3]), a[0], a[1]};
            if constexpr (CORNER > 0) load_rows<CORNER, true>(corner, ring.stages, stage + corner_lane, group);
            const uint32_t mixed[4] = {held[0], held[1], turned[0], turned[1]};
            const uint32_t corner_mixed[4] = {corner_held[0], corner_held[1], negate_bytes(corner[2]),
                                              negate_bytes(corner[3])};
            wgmma_begin();
            wgmma<FULL + X>(sums.re, a, rows_descriptor(at + columns + 32 * group));
            if constexpr (FULL > 0) wgmma<FULL>(sums.im, turned, rows_descriptor(at + columns + 32 * group));
            if constexpr (CORNER > 0) wgmma<CORNER>(sums.corner_re, corner, rows_descriptor(at + 32 * group));
            if (group % 2 == 0) {
                held[0] = a[0];
                held[1] = a[1];
                corner_held[0] = corner[0];
                corner_held[1] = corner[1];
            } else {
                if constexpr (X > 0) wgmma<X>(sums.x, mixed, rows_descriptor(at + row * ROW + 32 * (group - 1) + 16));
                if constexpr (CORNER > 0)
                    wgmma<CORNER>(sums.corner_x, corner_mixed, rows_descriptor(at + 32 * (group - 1) + 16));
            }
            wgmma_commit();
            if constexpr (EARLY)
                if (group < GROUPS - 1) load_rows<LIVE>(next, ring.stages, stage + lane, group + 1);
            wgmma_wait<1>();
            if (group == 0 && block > 0) leave(place.before());
            if (group == 1 && block == min(FEW, blocks - 1)) begun();
        }
        place.advance();
    }
    wgmma_wait<0>();
    settle(sums.re);
    settle(sums.im);
    settle(sums.x);
    settle(sums.corner_re);
    settle(sums.corner_x);
    leave(place.before());
}

// Where a warpgroup's sums are transposed and leave from. Two that have one outlet take turns, warpgroup 0 first.
template <int WARPGROUP>
struct Outlet {
    int* words;
    bool used = false;

    // Some time after the last use: the copy engine has taken what this warpgroup left, it is the other's turn.
    DEVICE void pass_on() {
        if constexpr (ONE_OUTLET) {
            sums_taken();
            __syncwarp();
            if (WARPGROUP == 1 || used) barrier_pass(3 + WARPGROUP, 256);
        }
        used = false;
    }
    // Wait for this warpgroup's turn.
    DEVICE void take() {
        used = true;
        if constexpr (ONE_OUTLET) {
            barrier(4 - WARPGROUP, 256);
        } else {
            sums_taken();
            barrier(1 + WARPGROUP, 128);
        }
    }
    DEVICE void close() {
        if (WARPGROUP == 0) pass_on();  // nobody waits for the other any more
        sums_taken();
    }
};

// x - x^T of 64 rows with themselves.
template <int X, int WARPGROUP>
DEVICE void turn(int (&x)[X / 2], int* scratch) {
    const int q = threadIdx.x % 4, row = threadIdx.x % 128 / 32 * 16;
#pragma unroll
    for (int i = 0; i < X / 4; ++i) {
        int* to = scratch + (row + own_row(i % 2)) * TURN_PITCH + 8 * (i / 2) + 2 * q;
        *reinterpret_cast<int2*>(to) = make_int2(x[2 * i], x[2 * i + 1]);
    }
    barrier(1 + WARPGROUP, 128);
#pragma unroll
    for (int i = 0; i < X / 2; ++i)
        x[i] -= scratch[(8 * (i / 4) + 2 * q + i % 2) * TURN_PITCH + row + own_row(i / 2 % 2)];
    barrier(1 + WARPGROUP, 128);
}

// Lay the sums of a warp's 16 rows with COUNT columns into the outlet, from `column` of the rows there on; `re` may
// begin with those of other columns.
template <int COUNT, int SIZE>
DEVICE void lay(int* words, const int (&re)[SIZE], const int (&im)[COUNT / 2], int from, int column) {
    const int q = threadIdx.x % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int own = own_row(half), antenna = threadIdx.x % 128 / 32 * 8 + own / 2;
        int* to =
            words + 4 * column + 8 * q + 4 * (own % 2) + (SMALL ? antenna * (antenna + 1) / 2 * 8 : antenna * PITCH);
#pragma unroll
        for (int n = 0; n < COUNT / 8; ++n) {
            const int d = 4 * n + 2 * half;
            const int4 sums =
                make_int4(re[from + d] >> SHIFT, im[d] >> SHIFT, re[from + d + 1] >> SHIFT, im[d + 1] >> SHIFT);
            if (!SMALL || 4 * n + q <= antenna) *reinterpret_cast<int4*>(to + 32 * n) = sums;
        }
    }
}

// Let the copy engine take what a warp has laid into the outlet: of antennas from row `first_row` on with `columns`
// columns from `first_column` on, `column` of the rows there.
DEVICE void send(int* to, const int* words, int first_row, int first_column, int columns, int column, bool add) {
    shared_writes_done();
    __syncwarp();
    const int lane = threadIdx.x % 32, own = threadIdx.x % 128 / 32 * 8 + (SMALL ? 0 : lane);
    const int antenna = first_row / 2 + own, begin = first_column / 2;
    if (lane >= (SMALL ? 1 : 8) || antenna >= ANTENNAS) return;
    const int place = antenna * (antenna + 1) / 2;  // times 8 words
    if constexpr (SMALL) {                          // all rows of the warp are neighbours
        const int end = min(antenna + 8, ANTENNAS);
        write_sums(to + 8 * place, words + 8 * place, (end * (end + 1) / 2 - place) * 32, add);
    } else {
        const int count = min(antenna + 1 - begin, columns / 2);
        write_sums(to + 8 * (place + begin), words + own * PITCH + 4 * column, count * 32, add);
    }
}

// With one polarization the sums' places are no multiples of 16 bytes: write those of a warp's 16 rows one by one.
template <int COUNT, int SIZE>
DEVICE void put(int* to, const int (&re)[SIZE], const int (&im)[COUNT / 2], int from, int row, int column, bool add) {
    const int q = threadIdx.x % 4;
    row += threadIdx.x % 128 / 32 * 16;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        Pairs pairs(to, row + own_row(half));
#pragma unroll
        for (int n = 0; n < COUNT / 8; ++n) {
            const int d = 4 * n + 2 * half, c = column + 8 * n + 2 * q;
            const int4 before = add ? pairs.get(c) : make_int4(0, 0, 0, 0);
            pairs.put(c, before, re[from + d], -im[d], re[from + d + 1], -im[d + 1]);
        }
    }
}

// Multiply a tile and write it to a result of the sums: of inputs from `first_row` and `first_column` on.
template <int FULL, int X, int CORNER, int WARPGROUP>
DEVICE void tile(const Ring& ring, Place& place, int blocks, int row, int columns, int* sums_to, int result,
                 int first_row, int first_column, Outlet<WARPGROUP>& outlet, bool add) {
    Sums<FULL, X, CORNER> sums;
    multiply(sums, ring, place, blocks, row, columns, [&] { outlet.pass_on(); });
    keep_here(first_row);  // or addresses would be computed, and held, before the loop
    keep_here(result);
    int* to = sums_to + int64_t(result) * PRODUCTS * 2;
    int* words = outlet.words;
    outlet.take();
    if constexpr (X > 0) turn<X, WARPGROUP>(sums.x, words);
    if constexpr (CORNER > 0) turn<CORNER, WARPGROUP>(sums.corner_x, words);
    const bool corner = CORNER > 0 && static_cast<int>(threadIdx.x) % 128 / 32 * 16 < CORNER;
    if constexpr (STAGED) {
        // The corner's rows lie behind the others, where there is room, as warpgroup 1 has more columns.
        constexpr int BEHIND = FULL + X;
        static_assert(BEHIND + CORNER <= FIRST);
        if constexpr (X > 0) lay<X>(words, sums.re, sums.x, FULL / 2, FULL);
        if constexpr (FULL > 0) lay<FULL>(words, sums.re, sums.im, 0, 0);
        if constexpr (CORNER > 0)
            if (corner) lay<CORNER>(words, sums.corner_re, sums.corner_x, 0, BEHIND);
        send(to, words, first_row, first_column, FULL + X, 0, add);
        if (corner) send(to, words, first_column, first_column, CORNER, BEHIND, add);
    } else {
        if constexpr (FULL > 0) put<FULL>(to, sums.re, sums.im, 0, first_row, first_column, add);
        if constexpr (X > 0) put<X>(to, sums.re, sums.x, FULL / 2, first_row, first_column + FULL, add);
        if constexpr (CORNER > 0)
            if (corner) put<CORNER>(to, sums.corner_re, sums.corner_x, 0, first_column, first_column, add);
    }
}

// Fetch what a team needs, in the order of the tiles it draws.
DEVICE void produce(const Ring& ring, const unsigned char* maps, const Tile* tiles, int* counter, int works,
                    int first_block, int blocks) {
    map_acquire(maps);
    map_acquire(maps + 128);
    Place place;
    int work = atomicAdd(counter, 1);
    while (work < works) {
        const Tile tile = tiles[work];
        const int next = atomicAdd(counter, 1);  // early: the answer takes a while
        const int rows = RUNS == 1 ? 0 : tile.rows, columns = RUNS == 1 ? 0 : tile.columns;
        const int live = (columns ? 128 : FETCHED_FIRST) + (rows == columns ? 0 : 128);
        const int begin = first_block + tile.integration * blocks;
#pragma unroll 1
        for (int block = 0; block < blocks; ++block) {
            barrier_wait(ring.empty + place.stage, place.parity ^ 1);
            uint64_t* fetched = ring.fetched + place.stage;
            unsigned char* stage = ring.stages + place.stage * STAGE + FETCHED;
            const int from = begin + block;
            const auto fetch_run = [&](int run) {
                fetch_box(stage, maps + (run ? 128 : 0), fetched, first_input(run), from, tile.channel);
            };
            barrier_arrive_expecting(fetched, live * FETCH_ROW + (block == 0 ? sizeof(Tile) : 0));
            if (block == 0) fetch(ring.tiles + place.stage, tiles + work, fetched, sizeof(Tile));
            if constexpr (SAMPLES) {
                const auto fetch_samples_box = [&](const unsigned char* map, int input, int count) {
                    if constexpr (HEAPS) {
                        for (int half = 0; half < 2; ++half)
                            fetch_samples(stage + half * (count / 2 * ROW), map, fetched, from * BLOCK + 32 * half,
                                          tile.channel, input / 2);
                    } else {
                        fetch_samples(stage, map, fetched, input, tile.channel, from * BLOCK);
                    }
                    stage += count * ROW;
                };
                const auto fetch_samples_run = [&](int run) {
                    for (int box = 0; box < BOXES; ++box)
                        fetch_samples_box(maps + 128, SPARE + 128 * run + BOX_INPUTS * box, BOX_INPUTS);
                };
                if (rows != columns) fetch_samples_run(rows);
                fetch_samples_run(columns);
                if (SPARE > 0 && columns == 0) fetch_samples_box(maps, 0, SPARE);
                place.advance();
                continue;
            }
            if (rows != columns) {
                fetch_run(rows);
                stage += 128 * FETCH_ROW;
            }
            fetch_run(columns);
            place.advance();
        }
        work = next;
    }
    // All have drawn; ready for the next launch.
    if (work == works + TEAMS * int(gridDim.x) - 1) *counter = 0;
    barrier_wait(ring.empty + place.stage, place.parity ^ 1);
    barrier_arrive_expecting(ring.fetched + place.stage, sizeof(Tile));
    fetch(ring.tiles + place.stage, tiles + works, ring.fetched + place.stage, sizeof(Tile));
}

// Wait for the next tile's first data; false if there is none.
DEVICE bool next_tile(Tile& tile, const Ring& ring, const Place& place) {
    barrier_wait(ring.fetched + place.stage, place.parity);
    const Tile there = ring.tiles[place.stage];
    // A shuffle tells the compiler what is the same in all threads.
    tile.integration = __shfl_sync(~0u, there.integration, 0);
    tile.channel = __shfl_sync(~0u, there.channel, 0);
    tile.rows = __shfl_sync(~0u, there.rows, 0);
    tile.columns = __shfl_sync(~0u, there.columns, 0);
    return __all_sync(~0u, tile.channel >= 0);
}

// Expand the columns that were fetched to what is multiplied; `thread` of the team's expanding warps.
DEVICE void expand(const Ring& ring, int thread, int blocks) {
    // A thread's rows are a multiple of 8 apart, so that their chunks are exchanged alike.
    constexpr int STEP = 32 * EXPANDERS / GROUPS, AT_ONCE = 4;
    static_assert(STEP % 8 == 0);
    const int first = thread / GROUPS, group = thread % GROUPS ^ first / 2 % 4;
    Place place;
    Tile tile;
    while (next_tile(tile, ring, place)) {
        const int rows = RUNS == 1 || tile.columns == 0 ? FIRST : 128;
        const int skipped = RUNS == 1 || tile.rows == tile.columns ? 0 : 128;
        for (int block = 0; block < blocks; ++block) {
            barrier_wait(ring.fetched + place.stage, place.parity);
            unsigned char* stage = ring.stages + place.stage * STAGE;
            const unsigned char* packed = stage + FETCHED + skipped * FETCH_ROW + thread * 16;
            unsigned char* re = stage + chunk_offset(first, group * 2);
            unsigned char* im = stage + chunk_offset(first, group * 2 + 1);
            for (int row = first; row < rows; row += AT_ONCE * STEP) {
                uint4 both[AT_ONCE];  // read before any is written: the compiler may not exchange the two
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i)
                    if (row + i * STEP < rows) both[i] = *reinterpret_cast<const uint4*>(packed + i * STEP * FETCH_ROW);
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i)
                    if (row + i * STEP < rows) {
                        const uint4 b = both[i];
                        *reinterpret_cast<uint4*>(re + i * STEP * ROW) =
                            make_uint4(b.x & HIGH_PARTS, b.y & HIGH_PARTS, b.z & HIGH_PARTS, b.w & HIGH_PARTS);
                        *reinterpret_cast<uint4*>(im + i * STEP * ROW) = make_uint4(
                            b.x << 4 & HIGH_PARTS, b.y << 4 & HIGH_PARTS, b.z << 4 & HIGH_PARTS, b.w << 4 & HIGH_PARTS);
                    }
                packed += AT_ONCE * STEP * FETCH_ROW;
                re += AT_ONCE * STEP * ROW;
                im += AT_ONCE * STEP * ROW;
            }
            shared_writes_done();
            __syncwarp();
            if (thread % 32 == 0) barrier_arrive(ring.full + place.stage);
            place.advance();
        }
    }
}

// Transpose the columns that were fetched; `warp` of the team's transposing warps.
DEVICE void transpose_columns(const Ring& ring, int warp, int first_block, int blocks, Clamping clamping) {
    const int j = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    const bool wanted = clamping.wanted;
    Place place;
    Tile tile;
    while (next_tile(tile, ring, place)) {
        const int run = RUNS == 1 ? 0 : tile.columns;
        const bool same = RUNS == 1 || tile.rows == tile.columns;
        const int spare = run ? 0 : SPARE / 16, count = run ? 8 : FIRST / 16;
        clamping.wanted = wanted && same;  // each input is in one such tile
        clamping.channel = tile.channel;
        clamping.spectrum = (first_block + tile.integration * blocks) * BLOCK;
        for (int block = 0; block < blocks; ++block, clamping.spectrum += BLOCK) {
            barrier_wait(ring.fetched + place.stage, place.parity);
            const int boxes = place.stage * STAGE + FETCHED + (same ? 0 : 2 * BOX);
            for (int octet = warp; octet < count; octet += EXPANDERS) {
                unsigned char* to = ring.stages + place.stage * STAGE + octet * 16 * ROW;
                const int input = first_input(run) + 16 * octet;
                if (SPARE > 0 && octet < spare) {
                    const int at = boxes + BOXES * BOX + sample_offset<SPARE>(octet, j, q);
                    transpose<SPARE, (RUNS > 1)>(ring.stages, at, to, clamping, input);
                } else {
                    const int n = octet - spare, at = boxes + n / 4 * BOX + sample_offset<BOX_INPUTS>(n % 4, j, q);
                    transpose<BOX_INPUTS, (RUNS > 1)>(ring.stages, at, to, clamping, input);
                }
            }
            shared_writes_done();
            __syncwarp();
            if (threadIdx.x % 32 == 0) barrier_arrive(ring.full + place.stage);
            place.advance();
        }
    }
}

// Pass over a tile's data.
DEVICE void skip(const Ring& ring, Place& place, int blocks) {
    for (int block = 0; block < blocks; ++block) {
        barrier_wait(ring.full + place.stage, place.parity);
        ring.leave(place.stage);
        place.advance();
    }
}

template <int WARPGROUP>
DEVICE void consume(const Ring& ring, int* words, int* sums, int channels, int blocks, bool add) {
    constexpr int W = WARPGROUP;
    Place place;
    Tile t;
    Outlet<W> outlet{words};
    while (next_tile(t, ring, place)) {
        const int result = t.integration * channels + t.channel;
        const int rows = first_input(t.rows), columns = first_input(t.columns);
        const auto is = [&](bool same, int run) {  // as a shuffle
            return __any_sync(
                ~0u, (t.rows == t.columns) == same && (run < 0 || SPARE == 0 || (t.columns == 0) == (run == 0)));
        };
        if constexpr (SMALL) {
            tile<0, FIRST, 0, W>(ring, place, blocks, 0, 0, sums, result, 0, 0, outlet, add);
            continue;
        }
        if constexpr (HALF && W == 1)
            if (__any_sync(~0u, t.rows == RUNS - 1)) {
                skip(ring, place, blocks);
                outlet.pass_on();
                outlet.take();
                continue;
            }
        if constexpr (RUNS > 1 && (SPARE == 0 || RUNS > 2))
            if (is(false, 1)) {
                tile<128, 0, 0, W>(ring, place, blocks, 64 * W, COLUMNS, sums, result, rows + 64 * W, columns, outlet,
                                   add);
                continue;
            }
        if constexpr (RUNS > 1 && SPARE > 0)
            if (is(false, 0)) {
                tile<FIRST, 0, 0, W>(ring, place, blocks, 64 * W, COLUMNS, sums, result, rows + 64 * W, 0, outlet, add);
                continue;
            }
        if constexpr (!SMALL && (RUNS > 1 || SPARE == 0))
            if (is(true, 1)) {
                tile<64 * W, 64, 0, W>(ring, place, blocks, 64 * W, 0, sums, result, rows + 64 * W, columns, outlet,
                                       add);
                continue;
            }
        if constexpr (SPARE > 0)
            if (is(true, 0))
                tile<SPARE + 64 * W, 64, W ? 0 : SPARE, W>(ring, place, blocks, SPARE + 64 * W, 0, sums, result,
                                                           SPARE + 64 * W, 0, outlet, add);
    }
    outlet.close();
}

// Sum `blocks` K-blocks from `first_block` on for each of several integrations, one after the other in the data
// [channel][block][input][128] that `maps` describe (boxes of FIRST and of 128 rows), to sums
// [integration][channel][product][re, im]. `tiles` are `works` and one that is none; `counter` is 0, and 0 again after.
//
// SAMPLES lie in the order of others, without -128 or, with `clamp`, where all tiles are of a run
// with itself, to be mended in place. `maps` describe boxes of SPARE and of 64 inputs.
KERNEL(THREADS, 1)
correlate(const unsigned char* maps, const Tile* tiles, int* sums, int* counter, int works, int channels,
          int first_block, int blocks, int add
#if TIME_MAJOR || HEAPS
          ,
          unsigned char* samples, uint64_t* clamped, int clamp, int spectra
#endif
) {
    SHARED_BYTES(shared);
    int* words = reinterpret_cast<int*>(shared + TEAMS * STAGES * STAGE);
    unsigned char* end = reinterpret_cast<unsigned char*>(words) + OUT;
    Tile* coming = reinterpret_cast<Tile*>(end);
    uint64_t* barriers = reinterpret_cast<uint64_t*>(coming + TEAMS * STAGES);
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
    if (threadIdx.x == 0) {
        if (shared_address(shared) % 1024 != 0) __trap();
        for (int i = 0; i < TEAMS * STAGES; ++i) {
            barrier_init(barriers + i, 1);
            barrier_init(barriers + TEAMS * STAGES + i, 4 * WARPGROUPS);
            if (BESIDE) barrier_init(barriers + 2 * TEAMS * STAGES + i, EXPANDERS);
        }
        barrier_init_done();
    }
    __syncthreads();
    auto ring = [&](int team) {
        uint64_t* fetched = barriers + team * STAGES;
        return Ring{shared + team * STAGES * STAGE, fetched, fetched + (BESIDE ? 2 * TEAMS * STAGES : 0),
                    fetched + TEAMS * STAGES, coming + team * STAGES};
    };
    if (warpgroup >= 2) {
        if constexpr (!EQUAL) registers_give<PRODUCER_REGISTERS>();
        const int warp = threadIdx.x / 32 - 8;
        if (warp < TEAMS) {
            if (threadIdx.x % 32 == 0) produce(ring(warp), maps, tiles, counter, works, first_block, blocks);
        } else if (PACKED && warp < TEAMS * (1 + EXPANDERS)) {
            const int team = (warp - TEAMS) / (EXPANDERS ? EXPANDERS : 1);
            expand(ring(team), threadIdx.x - 32 * (8 + TEAMS + team * EXPANDERS), blocks);
        }
#if TIME_MAJOR || HEAPS
        else if (warp < TEAMS * (1 + EXPANDERS)) {
            const int team = (warp - TEAMS) / EXPANDERS;
            transpose_columns(ring(team), warp - TEAMS - team * EXPANDERS, first_block, blocks,
                              {samples, clamped, channels, spectra, clamp != 0, 0, 0});
        }
#endif
    } else if (warpgroup == 0) {
        if constexpr (!EQUAL) registers_take<CONSUMER_REGISTERS>();
        consume<0>(ring(0), words, sums, channels, blocks, add);
    } else {
        if constexpr (!EQUAL) registers_take<CONSUMER_REGISTERS>();
        consume<1>(ring(TEAMS - 1), words + (ONE_OUTLET ? 0 : OUTLET), sums, channels, blocks, add);
    }
}
