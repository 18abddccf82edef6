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
#include "filter_rows.cuh"
#include "first_radix.cuh"
#include "ryle/gpu/device.cuh"
#include "unpack.cuh"

using namespace ryle;

using Power = Squares<BITS>::Counter;

KERNEL(THREADS, BLOCKS_PER_SM)
filter(const void* __restrict__ samples,        // uint8 [stream][stride]; or const uint8* [stream][packets]
       const float2* __restrict__ weights,      // [TAPS][CHANNELS] of the two values of a complex point
       const float2* __restrict__ radix_turns,  // [POINTS][RADIX] W_n^(point·k1)
       const Pass* __restrict__ passes,         // [unit][MOST_PASSES]
       const uint8_t* __restrict__ conjugated,  // [stream], for complex samples
       float2* __restrict__ y,                  // [unit][TILES][TILE/SIDE][RADIX][POINTS][SIDE]
       Power* __restrict__ counters,            // [stream][2]: second, sum of squares of samples
       int64_t stride, int64_t bytes,           // of a stream: distance (in packets with POINTERS) and size
       int units) {
    SHARED_BYTES(shared);
    const int tid = threadIdx.x;
    float2* turned = reinterpret_cast<float2*>(shared + RAW_BYTES);           // [2: by turns][TILE][PITCH] y
    float2* turns = reinterpret_cast<float2*>(shared + RAW_BYTES + Y_BYTES);  // [STRIP][RADIX]
    Rows rows = {samples, stride, bytes, passes};
    rows.raw = shared + tid / 32 * (2 * RAW_TILE);
    rows.ahead = reinterpret_cast<Pass*>(shared + RAW_BYTES + Y_BYTES + THREADS * 8) + tid / 32 * AHEAD;

    // Neighbouring blocks work on neighbouring strips of the same groups at the same time, so that what they fetch from
    // the same lines is read from memory once.
    const int blocks = gridDim.x, lanes = min(STRIPS, blocks), parts = blocks / lanes, part = blockIdx.x / lanes;
    int begin = int(int64_t(units) * part / parts) * MOST_PASSES,
        end = int(int64_t(units) * (part + 1) / parts) * MOST_PASSES;
    // Taken together, they go to registers of the warp where those of threads are too few.
    if constexpr (RADIX == 32) begin = __reduce_max_sync(~0u, begin), end = __reduce_max_sync(~0u, end);

    float2 w[TAPS], sum[TAPS];
    int half = 0;  // of `turned` that is written next

#pragma unroll 1
    for (int strip = int(blockIdx.x) % lanes; strip < STRIPS; strip += lanes) {
        rows.strip = strip;
        const int column = column_of(strip, tid);
        __syncthreads();  // nobody reads the turns of the strip before
        turns[tid] = radix_turns[strip * THREADS + tid];
#pragma unroll
        for (int k = 0; k < TAPS; ++k) w[k] = weights[k * CHANNELS + column / 2];

        int place = begin, number = 0;
        if (begin < end) {
            rows.announce(0, begin);
            copy_async_commit();
            copy_async_wait<0>();
            __syncwarp();
            if (const int next = rows.pass(0).next(begin); next < end) rows.announce(1, next);
            rows.begin(rows.pass(0));
            rows.fetch<true>();
            copy_async_wait<0>();
        }
        __syncthreads();
#pragma unroll 1
        for (; place < end; ++number) {
            const Pass& pass = rows.pass(number);
            // The same for all lanes; taken together, they go to registers of the warp, as those of threads are few.
            const int next = __reduce_max_sync(~0u, pass.next(place)), tiles = __reduce_max_sync(~0u, pass.tiles);
            __builtin_assume(tiles > 0);
            // Whether the pass is for all spectra of its tiles.
            const bool whole = __all_sync(~0u, tid % 32 >= tiles || pass.wanted[tid % TILES] == 0xffff);
            const bool flip = COMPLEX && conjugated[pass.stream];
            const Unpacker unpack(uint32_t(pass.start + column) * BITS);
            Squares<BITS> squares;

            // Where this thread's words of a row lie.
            const int bit_of_segment = int((pass.start + column_of(strip, tid / SEGMENT * SEGMENT)) * BITS & 127);
            const uint8_t* words =
                rows.raw + tid % 32 / SEGMENT * (PIECES * 16) + (bit_of_segment + tid % SEGMENT * 2 * BITS) / 32 * 4;
            // Wait for a tile of rows and begin to fetch the next.
            auto next_tile = [&](int tile) {
                copy_async_wait<0>();
                __syncwarp();
                if (tile == 0 && next < end) {
                    const int after = rows.pass(number + 1).next(next);
                    if (after < end) rows.announce(number + 2, after);
                }
                if (tile + 1 < LEAD / TILE + tiles) {
                    rows.fetch<false>();
                } else if (next < end) {
                    rows.begin(rows.pass(number + 1));
                    rows.fetch<true>();
                } else {
                    rows.turn ^= 1;
                }
            };
            // Unpack rows of it; `rows.turn` is back at the half that is complete.
            auto take = [&](int row) {
                const uint32_t* at = reinterpret_cast<const uint32_t*>(words + rows.turn * RAW_TILE + row * RAW_ROW);
                return unpack(at[0], at[1]);
            };
            // Add a row to the sums of the spectra that it reaches.
            auto add_row = [&](float2 x, auto last) {
#pragma unroll
                for (int k = decltype(last)::value; k > 0; --k)
                    sum[k] = make_float2(fmaf(w[k].x, x.x, sum[k - 1].x), fmaf(w[k].y, x.y, sum[k - 1].y));
                sum[0] = make_float2(w[0].x * x.x, w[0].y * x.y);
            };
            // Samples in the first rows of windows are those counted; `t`: the row among them, counted from tile `b`
            // on.
            auto count_squares = [&](const float2(&v)[BATCH], int b, int t) {
                if (whole && t >= 0 && b + (t + BATCH - 1) / TILE < tiles) {
                    squares.add(v);
                } else if (b + t / TILE < tiles) {
                    float2 counted[BATCH];
#pragma unroll
                    for (int j = 0; j < BATCH; ++j)
                        counted[j] = t + j >= 0 && pass.holds(b * TILE + t + j) ? v[j] : make_float2(0, 0);
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
                        count_squares(v, 0, T);
                        unrolled<BATCH>([&](auto j) {
                            constexpr int ROW = T + decltype(j)::value;
                            if constexpr (ROW >= 0) add_row(v[j.value], Constant<(ROW < TAPS - 1 ? ROW : TAPS - 1)>());
                        });
                    }
                });
            });

#pragma unroll 1
            for (int b = 0; b < tiles; ++b) {
                float2* y_here = turned + half * (TILE * PITCH);
                half ^= 1;
                next_tile(LEAD / TILE + b);
#pragma unroll
                for (int row = 0; row < TILE; row += BATCH) {
                    float2 v[BATCH];
#pragma unroll
                    for (int j = 0; j < BATCH; ++j) v[j] = take(row + j);
                    count_squares(v, b, TAPS - 1 + row);
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
                const bool wanted = whole || pass.holds(b * TILE + s);
                float2* to = y + int64_t(pass.first + b) * (CHANNELS * TILE);
                if constexpr (RADIX == 32)
                    first_radix_32(y_here, turns, to + (strip * STRIP) * SIDE, wanted);
                else
                    first_radix(y_here + s * PITCH, turns,
                                to + s / SIDE * (CHANNELS * SIDE) + (strip * STRIP) * SIDE + s % SIDE, wanted);
            }
            squares.add_to(counters + pass.stream * 2 + 1);
            place = next;
        }
    }
}
