// First half of the channelizer: fetch and unpack samples, filter them (FIR), first radix of the Fourier transform,
// turns between the radices.
//
// A step of 2n values is a row of the matrix x[row][column]; spectrum s is the transform of
// y[column] = Σ_k w[k][column] x[s + k][column]. A thread owns one complex column, that is two neighbouring ones, and
// marches down the rows of a group of 128 spectra: every row adds its share to the sums of the TAPS spectra that it
// reaches, which are in registers and move on by one with each row, as the transposed form of the filter does. So all
// is in single precision, in the order of the taps, whatever the sample's width; nothing is shared before y is
// complete.
//
// The block of threads is RADIX legs of STRIP columns, n/RADIX apart. Every 16 spectra it turns y over through shared
// memory, so that a thread gets a spectrum's values of all legs and spectra lie in lanes: what is stored is whole
// lines.
#include "butterflies.cuh"
#include "passes.cuh"
#include "ryle/gpu/device.cuh"
#include "unpack.cuh"

using namespace ryle;

#ifndef POINTERS
#define POINTERS 0  // whether samples lie where a table of packet payloads points to, not in one buffer
#define PACKET_BYTES 16
#endif
constexpr int GROUP = 128, TILE = 16;
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
constexpr int RAW_TILE = TILE * RAW_ROW;
constexpr int RAW_BYTES = WARPS * 2 * RAW_TILE + 128;  // the last thread may read a word more than it needs

constexpr int AHEAD_BYTES = WARPS * 2 * (32 + GROUP);
constexpr int PARTS = RADIX > 8 ? 2 : 1;  // of the transform
constexpr int PITCH = THREADS + 1;        // odd: then a column of 16 spectra lies in all banks
constexpr int Y_BYTES = 2 * TILE * PITCH * 8;
static_assert(RAW_BYTES + Y_BYTES + AHEAD_BYTES + THREADS * 8 == SHARED, "the host's plan and the kernel differ");
static_assert(STEP > 0 && POINTS % STRIP == 0 && ROW_BYTES % 16 == 0 && PACKET_BYTES % 16 == 0);

using Power = Squares<BITS>::Counter;

// A pass and the segments of its group's spectra.
struct alignas(16) Announced {
    Pass pass;
    uint8_t segment[GROUP];
};

// Where a lane fetches its pieces of 16 bytes of a pass.
struct Source {
    int64_t at;  // the next, counted from the chunk's first byte
    int stream;
    bool needed;  // whether the segment extends to its piece
    bool inside;  // whether all rows are there
};

KERNEL(THREADS, BLOCKS_PER_SM)
filter(const void* __restrict__ samples,        // uint8 [stream][stride]; or const uint8* [stream][packets]
       const float2* __restrict__ weights,      // [TAPS][CHANNELS] of the two values of a complex point
       const float2* __restrict__ radix_turns,  // [POINTS][RADIX] W_n^(point·k1)
       const uint8_t* __restrict__ segment,     // [stream·groups][128] segment of each spectrum
       const Pass* __restrict__ passes,         // [1 + count]
       const uint8_t* __restrict__ conjugated,  // [stream], for complex samples
       float2* __restrict__ y,                  // [stream·slab·128/TILE][RADIX][POINTS][TILE]
       Power* __restrict__ counters,            // [stream][2]: second, sum of squares of samples
       int64_t stride, int64_t bytes) {         // of a stream: distance (in packets with POINTERS) and size
    SHARED_BYTES(shared);
    const int tid = threadIdx.x;
    float2* turned = reinterpret_cast<float2*>(shared + RAW_BYTES);           // [2: by turns][TILE][PITCH] y
    float2* turns = reinterpret_cast<float2*>(shared + RAW_BYTES + Y_BYTES);  // [STRIP][RADIX]
    Announced* ahead =                                                        // [2: by turns], of this warp
        reinterpret_cast<Announced*>(shared + RAW_BYTES + Y_BYTES + THREADS * 8) + tid / 32 * 2;
    uint8_t* raw = shared + tid / 32 * (2 * RAW_TILE);  // [2: by turns][TILE][SEGMENTS][PIECES][16]

    // Neighbouring blocks work on neighbouring strips of the same groups at the same time, so that what they fetch from
    // the same lines is read from memory once.
    const int count = passes[0].count, blocks = gridDim.x;
    const int lanes = min(STRIPS, blocks), parts = blocks / lanes, part = blockIdx.x / lanes;
    const int begin = int(int64_t(count) * part / parts), end = int(int64_t(count) * (part + 1) / parts);

    float2 w[TAPS], sum[TAPS];
    int turn = 0;  // which half of `raw` is to be filled next

#pragma unroll 1
    for (int strip = int(blockIdx.x) % lanes; strip < STRIPS; strip += lanes) {
        auto column_of = [&](int thread) { return 2 * (thread / STRIP * POINTS + strip * STRIP + thread % STRIP); };
        const int column = column_of(tid);
        __syncthreads();  // nobody reads the turns of the strip before
        turns[tid] = radix_turns[strip * THREADS + tid];
#pragma unroll
        for (int k = 0; k < TAPS; ++k) w[k] = weights[k * CHANNELS + column / 2];

        // Where a lane's first piece of the first row of a pass lies that this lane fetches.
        auto source_of = [&](const Pass& pass) {
            Source source;
            const int lane = tid % 32, piece = lane % SLOTS, segment = lane / SLOTS % SEGMENTS;
            const int64_t bit = (pass.start + column_of(tid - lane + segment * SEGMENT)) * BITS;
            source.at = (bit >> 7 << 4) + piece * 16 + (lane / SLOTS / SEGMENTS - IDLE) * ROW_BYTES;
            source.stream = pass.stream;
            source.needed = piece < PIECES && piece * 128 < int(bit & 127) + 2 * SEGMENT * BITS;
            // The same for all threads of a block: whether all rows of the strip are there.
            const int64_t low = (pass.start + 2 * strip * STRIP) * BITS >> 3;
            source.inside = low >= 16 && low + (GROUP + TAPS) * ROW_BYTES <= bytes;
            return source;
        };
        // Begin to fetch the next tile of rows.
        auto fetch = [&](Source& source, auto first) {
            const int lane = tid % 32;
            uint8_t* to = raw + turn * RAW_TILE + (lane / SLOTS * PIECES + lane % SLOTS) * 16;
            const uint8_t* from = static_cast<const uint8_t*>(samples) + source.stream * stride + source.at;
            auto there = [&](int row) {  // not so of rows before the first
                return !(decltype(first)::value && row < IDLE) || lane / SLOTS / SEGMENTS + row >= IDLE;
            };
            if (!POINTERS && source.inside) {
#pragma unroll
                for (int row = 0; row < TILE; row += STEP)
                    copy_async_if<16>(source.needed && there(row), to + row * RAW_ROW, from + row * ROW_BYTES);
            } else {
#pragma unroll
                for (int row = 0; row < TILE; row += STEP) {
                    // What does not exist is read by no spectrum that is wanted.
                    const int64_t at = source.at + row * ROW_BYTES;
                    bool wanted = source.needed && there(row) && at >= 0 && at < bytes;
                    if constexpr (POINTERS) {
                        const uint32_t packet = uint32_t(wanted ? at : 0) / PACKET_BYTES;
                        const uint8_t* payload =
                            static_cast<const uint8_t* const*>(samples)[source.stream * stride + packet];
                        copy_async_if<16>(wanted && payload, to + row * RAW_ROW,
                                          payload + (uint32_t(at) - packet * PACKET_BYTES));
                    } else {
                        copy_async_if<16>(wanted, to + row * RAW_ROW, from + row * ROW_BYTES);
                    }
                }
            }
            copy_async_commit();
            source.at += TILE * ROW_BYTES;
            turn ^= 1;
        };

        // Begin to fetch what there is to know of a pass, then of its spectra.
        auto announce_pass = [&](int number) {
            copy_async_if<16>(tid % 32 < 2, &ahead[number % 2].pass.start + tid % 32 * 2,
                              &passes[1 + number].start + tid % 32 * 2);
        };
        auto announce_segments = [&](int number) {
            copy_async_if<16>(tid % 32 < GROUP / 16, ahead[number % 2].segment + tid % 32 * 16,
                              segment + int64_t(ahead[number % 2].pass.group) * GROUP + tid % 32 * 16);
        };

        Source source = {};
        if (begin < end) {
            announce_pass(begin);
            copy_async_commit();
            copy_async_wait<0>();
            __syncwarp();
            announce_segments(begin);
            source = source_of(ahead[begin % 2].pass);
            fetch(source, Constant<true>());
            copy_async_wait<0>();
        }
        __syncthreads();
#pragma unroll 1
        for (int number = begin; number < end; ++number) {
            const Pass& pass = ahead[number % 2].pass;
            const uint8_t* segment_of = ahead[number % 2].segment;
            // Whether the pass is over all spectra of the group.
            const bool whole = __all_sync(
                ~0u, reinterpret_cast<const uint32_t*>(segment_of)[tid % 32] == uint32_t(pass.segment) * 0x01010101u);
            const bool flip = COMPLEX && conjugated[pass.stream];
            const Unpacker unpack(uint32_t(pass.start + column) * BITS);
            Squares<BITS> squares;

            // Where this thread's words of a row lie.
            const int bit_of_segment = int((pass.start + column_of(tid / SEGMENT * SEGMENT)) * BITS & 127);
            const uint8_t* words =
                raw + tid % 32 / SEGMENT * (PIECES * 16) + (bit_of_segment + tid % SEGMENT * 2 * BITS) / 32 * 4;
            // Wait for a tile of rows and begin to fetch the next.
            auto next_tile = [&](int tile) {
                copy_async_wait<0>();
                __syncwarp();
                if (number + 1 < end) {  // in time: at least eight tiles follow one another
                    if (tile == 0) announce_pass(number + 1);
                    if (tile == 2) announce_segments(number + 1);
                }
                if (tile + 1 < (LEAD + GROUP) / TILE) {
                    fetch(source, Constant<false>());
                } else if (number + 1 < end) {
                    source = source_of(ahead[(number + 1) % 2].pass);
                    fetch(source, Constant<true>());
                } else {
                    turn ^= 1;
                }
            };
            // Unpack rows of it; `turn` is back at the half that is complete.
            auto take = [&](int row) {
                const uint32_t* at = reinterpret_cast<const uint32_t*>(words + turn * RAW_TILE + row * RAW_ROW);
                return unpack(at[0], at[1]);
            };
            // Add a row to the sums of the spectra that it reaches.
            auto add_row = [&](float2 x, auto last) {
#pragma unroll
                for (int k = decltype(last)::value; k > 0; --k)
                    sum[k] = make_float2(fmaf(w[k].x, x.x, sum[k - 1].x), fmaf(w[k].y, x.y, sum[k - 1].y));
                sum[0] = make_float2(w[0].x * x.x, w[0].y * x.y);
            };
            // Samples in the first rows of windows are those counted; `t`: the row among them.
            auto count_squares = [&](const float2(&v)[BATCH], int t) {
                if (whole && t >= 0 && t + BATCH <= GROUP) {
                    squares.add(v);
                } else if (t < GROUP) {
                    float2 counted[BATCH];
#pragma unroll
                    for (int j = 0; j < BATCH; ++j) {
                        const bool yes = t + j >= 0 && t + j < GROUP && segment_of[t + j] == pass.segment;
                        counted[j] = yes ? v[j] : make_float2(0, 0);
                    }
                    squares.add(counted);
                }
            };

            unrolled<LEAD / TILE>([&](auto tile) {
                next_tile(tile.value);
                unrolled<TILE / BATCH>([&](auto batch) {
                    constexpr int T = decltype(tile)::value * TILE + decltype(batch)::value * BATCH - IDLE;
                    if constexpr (T + BATCH > 0) {
                        float2 v[BATCH];
#pragma unroll
                        for (int j = 0; j < BATCH; ++j) v[j] = take(batch.value * BATCH + j);
                        count_squares(v, T);
                        unrolled<BATCH>([&](auto j) {
                            constexpr int ROW = T + decltype(j)::value;
                            if constexpr (ROW >= 0) add_row(v[j.value], Constant<(ROW < TAPS - 1 ? ROW : TAPS - 1)>());
                        });
                    }
                });
            });

#pragma unroll 1
            for (int b = 0; b < GROUP / TILE; ++b) {
                float2* y_here = turned + b % 2 * (TILE * PITCH);
                next_tile(LEAD / TILE + b);
#pragma unroll
                for (int row = 0; row < TILE; row += BATCH) {
                    float2 v[BATCH];
#pragma unroll
                    for (int j = 0; j < BATCH; ++j) v[j] = take(row + j);
                    count_squares(v, TAPS - 1 + b * TILE + row);
#pragma unroll
                    for (int j = 0; j < BATCH; ++j) {
                        add_row(v[j], Constant<TAPS - 1>());
                        float2 value = sum[TAPS - 1];
                        if (COMPLEX && flip) value.y = -value.y;
                        y_here[(row + j) * PITCH + tid] = value;
                    }
                }
                __syncthreads();  // y is complete, and the one before is no longer read

                const int s = tid % TILE;
                const bool wanted = whole || segment_of[b * TILE + s] == pass.segment;
                float2* to =
                    y + (int64_t(pass.slot) * (GROUP / TILE) + b) * (CHANNELS * TILE) + (strip * STRIP) * TILE + s;
#pragma unroll(RADIX < 8 ? 2 : 1)
                for (int point = tid / TILE; point < STRIP; point += THREADS / TILE) {
                    const float2* column_of = y_here + s * PITCH + point;
                    const float2* turns_of = turns + point * RADIX;
                    // A radix of 16 as two of 8, for its outputs in turn: 16 values would not fit into the registers.
#pragma unroll
                    for (int part = 0; part < PARTS; ++part) {
                        float2 z[RADIX / PARTS];
#pragma unroll
                        for (int r = 0; r < RADIX / PARTS; ++r) {
                            z[r] = column_of[r * STRIP];
                            if constexpr (PARTS == 2) {
                                const float2 other = column_of[(r + RADIX / 2) * STRIP];
                                z[r] = part ? (z[r] - other) * root<RADIX>(r) : z[r] + other;
                            }
                        }
                        dft(z);
#pragma unroll
                        for (int r = 0; r < RADIX / PARTS; ++r) {
                            const int k1 = r * PARTS + part;
                            if (k1 > 0) z[r] = z[r] * turns_of[k1];
                            if (wanted) to[(k1 * POINTS + point) * TILE] = z[r];
                        }
                    }
                }
            }
            squares.add_to(counters + pass.stream * 2 + 1);
        }
    }
}
