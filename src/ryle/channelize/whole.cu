// The channelizer of 1024 channels in one kernel: nothing between samples and quantized spectra leaves the
// multiprocessor. A block works on a tile of 16 spectra of one input at a time.
//
// Filter: a warp has two classes of points, a thread one leg of them: a complex column, 16 sums and 16 weights in
// registers. First pass: a thread has all legs of a class for one spectrum, and only its own warp's values. Last pass:
// a thread has all classes of a row k1 for one spectrum, and its channels are k1 + 32·k2; half a warp has row k1, the
// other half its mirror image 32 - k1. They give each other half of their outputs, so that each has 16 channels, in
// fours n/4 apart, and their images. Rows 0 and 16, of warp 0, are their own images.
#define WHOLE
#include "butterflies.cuh"
#include "unpack.cuh"
#include "whole_finish.cuh"
#include "whole_rows.cuh"

using namespace ryle;

namespace ryle::whole {

// Filter a class of points of this thread's leg into its row of z, after `z_is_free`. Gives the sum of the squares of
// the samples in the first rows of windows of spectra that are wanted.
template <class F>
DEVICE uint32_t filter(const Step& step, int which, int group, const uint32_t* raw, const float4* weights,
                       unsigned char* z, bool flip, const F& z_is_free) {
    constexpr int PAIRS = (TAPS + 1) / 2;
    const uint32_t lane = thread_anew() % 32;
    float4 w[PAIRS];
    weights += which * (PAIRS * LEGS) + lane;
#pragma unroll
    for (int j = 0; j < PAIRS; ++j) w[j] = __ldg(weights + j * LEGS);
    const uint32_t wanted = step.wanted, bit = step.shift + which * (2 * BITS);
    const Unpacker unpack(bit);
    const uint32_t* from[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) from[half] = raw + (group ^ half) * GROUP_WORDS + lane * LEG_PITCH + bit / 32;
    float2 sum[TILE];
    float squares = 0;
#pragma unroll
    for (int r = 0; r < TILE + TAPS - 1; ++r) {
        const uint32_t* at = from[r / TILE] + r % TILE * ROW_PITCH;
        const float2 x = unpack(at[0], at[1]);
        if (r < TILE && wanted >> r & 1) squares = fmaf(x.x, x.x, fmaf(x.y, x.y, squares));
#pragma unroll
        for (int t = 0; t < TILE; ++t) {
            const int tap = r - t;
            if (tap < 0 || tap >= TAPS) continue;
            const float2 weight =
                tap % 2 ? make_float2(w[tap / 2].z, w[tap / 2].w) : make_float2(w[tap / 2].x, w[tap / 2].y);
            if (tap == 0)
                sum[t] = make_float2(weight.x * x.x, weight.y * x.y);
            else
                sum[t] = make_float2(fmaf(weight.x, x.x, sum[t].x), fmaf(weight.y, x.y, sum[t].y));
        }
    }
    z_is_free();
    unsigned char* row = z + (which * LEGS + lane) * Z_ROW;
    auto place = [&](int j) { return reinterpret_cast<float2*>(row + ((j ^ (lane & 7)) << 4)); };
    auto sign = [&](float2 a) { return COMPLEX && flip ? conj(a) : a; };
    if (wanted == 0xffff) {
#pragma unroll
        for (int j = 0; j < TILE / 2; ++j) {
            const float2 a = sign(sum[2 * j]), b = sign(sum[2 * j + 1]);
            *reinterpret_cast<float4*>(place(j)) = make_float4(a.x, a.y, b.x, b.y);
        }
    } else {
#pragma unroll
        for (int s = 0; s < TILE; ++s)
            if (wanted >> s & 1) place(s / 2)[s % 2] = sign(sum[s]);
    }
    return uint32_t(squares);
}

}  // namespace ryle::whole

KERNEL(THREADS, 1)
whole_channelizer(
    const void* __restrict__ samples,        // uint8 [stream][stride]; or const uint8* [stream][packets]
    const float4* __restrict__ weights,      // [class][(TAPS + 1)/2][leg]: two taps of the two values of a point
    const float2* __restrict__ turns,        // [LEGS: k1][16]: of a row's points, as dft_of_turned takes them
    const Pass* __restrict__ passes,         // [unit][MOST_PASSES]
    const uint8_t* __restrict__ conjugated,  // [stream], for complex samples
    const float2* __restrict__ mirror,       // [CHANNELS] as in transform.cu
    const float2* __restrict__ gains,        // [stream][CHANNELS] in the same order
    const float4* __restrict__ spectra,      // [stream·groups·8][32]: 16 times Spectrum, see windows.cu
    void* __restrict__ out,                  // K-blocks or rows, heaps, or complex float [stream][spectrum][CHANNELS]
    void* __restrict__ own,                  // with OWN, where channels [own_first, own_end) of rows go
    unsigned long long* __restrict__ output_power,   // [stream][CHANNELS] sum of squares of quantized values
    unsigned long long* __restrict__ counters,       // [stream][2]: complex values clamped, sum of squares of samples
    int64_t stride, int64_t bytes,                   // of a stream: distance (in packets with POINTERS) and size
    int groups, int streams, int before, int count,  // group 0 starts with number `before` of `count` spectra wanted
    int heap, int pols,                              // spectra of a heap, polarizations of an antenna
    int64_t channel_bytes, int64_t block_bytes, int64_t antenna_bytes,  // between rows of 64 spectra
    int own_first, int own_end, int64_t own_block_bytes, int64_t own_antenna_bytes,
    // Keys of the dither's rounds: as parameters they are operands, where additions would cost a slot each.
    uint64_t key_0, uint64_t key_1, uint64_t key_2, uint64_t key_3, uint64_t key_4, uint64_t key_5, uint64_t key_6,
    uint32_t first_low, uint32_t first_high, int first_input) {
    using namespace whole;
    SHARED_BYTES(shared);
    unsigned char* z = shared;
    uint32_t* raw = reinterpret_cast<uint32_t*>(shared + whole::Z_BYTES);
    uint8_t* described = shared + whole::Z_BYTES + RAW_BYTES;  // [2: by turns][TILE] Spectrum
    float2* turns_of = reinterpret_cast<float2*>(described + 2 * whole::SPECTRA_BYTES);
    uint32_t* sums = reinterpret_cast<uint32_t*>(described + 2 * whole::SPECTRA_BYTES + TURNS_BYTES);  // [4][THREADS]
    Step* known = reinterpret_cast<Step*>(sums + 4 * THREADS);                                         // by turns
    Steps* steps = reinterpret_cast<Steps*>(known + STEPS_KNOWN);
    // All warps have their rows of the step to come; and have read of z all that they want.
    uint64_t *rows_there = reinterpret_cast<uint64_t*>(steps + 1), *z_free = rows_there + 1;
    static_assert(sizeof(Steps) == STEPS_BYTES);
    const Destination to = {out, count,     pols,    channel_bytes,   block_bytes,       antenna_bytes,
                            own, own_first, own_end, own_block_bytes, own_antenna_bytes, heap};
    const DitherKeys keys = {{key_0, key_1, key_2, key_3, key_4, key_5, key_6}, first_input};
    const int tid = threadIdx.x;
    const Samples source = {samples, stride, bytes};

    const int tiles = groups * TILES, all = tiles * streams;
    const int begin = int(int64_t(all) * blockIdx.x / gridDim.x),
              end = int(int64_t(all) * (blockIdx.x + 1) / gridDim.x);
    if (begin >= end) return;
    if (tid == 0) {
        steps->begin(passes, begin, end);
        steps->next(known[0], nullptr, source);
        steps->next(known[1], known, source);
    }
    arrival_init(rows_there, THREADS);
    arrival_init(z_free, WARPS);
    turns_of[tid] = turns[tid];
#pragma unroll
    for (int q = 0; q < 4; ++q) sums[q * THREADS + tid] = 0;
    __syncthreads();
    auto describe = [&](const Step& step, int turn) {
        const uint32_t tid = thread_anew();
        copy_async_if<16>(tid < whole::SPECTRA_BYTES / 16, described + turn * whole::SPECTRA_BYTES + tid * 16,
                          spectra + int64_t(step.tile) * (TILE * 2) + tid);
    };
    fetch<0, 1>(source, known[0], 0, 0, raw);
    fetch<0, 1>(source, known[0], TILE, 1, raw);
    describe(known[0], 0);
    copies_arrive(rows_there);
    arrive(z_free);

    int group = 0;  // that of raw that has the first rows

#pragma unroll 1
    for (int number = 0;; ++number) {
        const Step& step = known[number % STEPS_KNOWN];
        const Step& next = known[(number + 1) % STEPS_KNOWN];
        if (!step.any) break;
        const int turn = number % 2;
        const bool flip = COMPLEX && conjugated[step.stream];
        arrival_wait(rows_there, turn);
#pragma unroll
        for (int c = 0; c < 2; ++c) {
            const uint32_t thread = thread_anew(), warp = thread / 32, lane = thread % 32;
            const uint32_t power = __reduce_add_sync(~0u, filter(step, 2 * warp + c, group, raw, weights, z, flip, [&] {
                if (c == 0) arrival_wait(z_free, turn);
            }));
            if (lane == 0 && power) atomicAdd(counters + step.stream * 2 + 1, static_cast<unsigned long long>(power));
        }
        __syncwarp();
        if (step.last) {
            const uint32_t thread = thread_anew(), warp = thread / 32, side = thread / 16 % 2, s = thread % 16;
            float2 v[LEGS];
#pragma unroll
            for (int b = 0; b < LEGS; ++b) v[b] = *point(z, 2 * warp + side, b, s);
            dft(v);
#pragma unroll
            for (int b = 0; b < LEGS; ++b) *point(z, 2 * warp + side, b, s) = v[b];
        }
        __syncthreads();  // z is complete, and nobody reads rows any more
        if (thread_anew() == THREADS / 2) steps->next(known[(number + 2) % STEPS_KNOWN], &next, source);
        const bool goes = next.goes_on, in_parts = goes && step.last;
        if (next.any) {
            if (!goes) fetch<0, 1>(source, next, 0, group, raw);
            if (!in_parts) fetch<0, 1>(source, next, TILE, group ^ !goes, raw);
            describe(next, turn ^ 1);
        }
        if (step.last) {
            Tile tile;
            tile.stream = step.stream;
            tile.first = before + step.tile % tiles * TILE;
            tile.first_index = (uint64_t(first_high) << 32 | first_low) + uint64_t(int64_t(tile.first));
            tile.spectra = reinterpret_cast<const float4*>(described + turn * whole::SPECTRA_BYTES);
            tile.gains = gains + tile.stream * CHANNELS;
            int over = last_pass(z, turns_of, tile, mirror, keys, static_cast<float2*>(out), count, [&](auto part) {
                if constexpr (part.value < PARTS)
                    if (in_parts) fetch<part.value, PARTS>(source, next, TILE, group, raw);
            });
            copies_arrive(rows_there);
            const uint32_t thread = thread_anew(), warp = thread / 32, lane = thread % 32;
            if (__any_sync(~0u, over)) {
                over = __reduce_add_sync(~0u, over);
                if (lane == 0) atomicAdd(counters + tile.stream * 2, static_cast<unsigned long long>(over));
            }
            __syncwarp();
            store(tile, to, warp, z, sums);
            // After a stream's last tile, and now and then, as sums have 32 bits.
            if (next.other || step.tile % 64 == 63) {
#pragma unroll
                for (int q = 0; q < 4; ++q) {
                    const uint32_t half = sums[q * THREADS + thread], sum = half + __shfl_xor_sync(~0u, half, 1);
                    const int channel = row_of(warp, q / 2) + ROWS * (q % 2 * 16 + lane / 2);
                    if (lane % 2 == 0)
                        atomicAdd(output_power + tile.stream * CHANNELS + channel,
                                  static_cast<unsigned long long>(sum));
                    sums[q * THREADS + thread] = 0;
                }
            }
        } else {
            copies_arrive(rows_there);
        }
        if (goes) group ^= 1;
        arrive(z_free);
    }
}
