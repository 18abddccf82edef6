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
#include "quantize.cuh"
#include "store.cuh"
#include "unpack.cuh"
#include "whole_rows.cuh"

using namespace ryle;

namespace ryle::whole {

// Filter a class of points of this thread's leg into its row of z, after `z_is_free`. Gives the sum of the squares of the
// samples in the first rows of windows of spectra that are wanted.
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

// Spectrum s of row `row` of a class's rows of z.
DEVICE float2* point(unsigned char* z, int of_class, int row, int s) {
    return reinterpret_cast<float2*>(z + (of_class * LEGS + row) * Z_ROW + ((s / 2 ^ (row & 7)) << 4) + s % 2 * 8);
}

// Tables of a row of the last pass: in z, in what the warp has read of it.
constexpr int GAINS_AT = 8, IMAGES_AT = 9, MIRROR_AT = 10, MORE_AT = 11;  // classes
DEVICE float2* table(unsigned char* z, int of_class, int row) {
    return reinterpret_cast<float2*>(z + (of_class * LEGS + row) * Z_ROW);
}

// Begin to fetch them: by half warps the gains and mirror turns of the first half of row k1's channels, the gains of
// their images, which begin at `images`; and of row 0 the third quarter of the first two.
DEVICE void fetch_tables(unsigned char* z, int k1, int s, const float2* gains, const float2* images,
                         const float2* mirror) {
    constexpr int EACH = Z_ROW / 16;  // pieces of 16 bytes
    const int piece = s % EACH * 2;
    copy_async_if<16>(true, table(z, s < EACH ? GAINS_AT : IMAGES_AT, k1) + piece,
                      (s < EACH ? gains + k1 * POINTS : images) + piece);
    if (s < EACH)
        copy_async_if<16>(true, table(z, MIRROR_AT, k1) + piece, mirror + k1 * POINTS + piece);
    else if (k1 == 0 && s < EACH + 4)
        copy_async_if<16>(true, table(z, MORE_AT, 0) + piece, (s % 4 < 2 ? gains : mirror - 4) + POINTS / 2 + piece);
}

// Finish outputs G + 8t of row 0, t = 0 to 3, of which each is the image of another: half a warp those of G = 0, the
// other half, to which they are given, those of G = 4.
DEVICE void finish_own_images(const float2 (&v)[LAST], int side, uint8_t* z, int s, Tile tile, const DitherKeys& keys,
                              float2* floats, int count, int& over) {
    static_assert(LAST == 32);
    float2 own[4];
#pragma unroll
    for (int t = 0; t < 4; ++t) {
        const float2 given = make_float2(__shfl_sync(~0u, v[4 + t * Q].x, s), __shfl_sync(~0u, v[4 + t * Q].y, s));
        own[t] = side ? given : v[t * Q];
    }
    auto pair = [&](int t, float2& a, float2& b) {
        a = own[t];
        b = side ? own[3 - t] : own[(4 - t) % 4];
    };
    auto place = [&](int t) { return z + s + (side ? staged_place(4 + t * Q) : staged_place(t * Q)); };
    tile.gains = table(z, side ? MORE_AT : GAINS_AT, 0);
    const float2* mirror = side ? table(z, MORE_AT, 0) + 4 : table(z, MIRROR_AT, 0);
    finish_four(side * (4 * STRIDE), 0, s, pair, place, tile, mirror, keys, floats, count, over);
}

// The two rows of a warp in the last pass.
DEVICE int row_of(int warp, int which) { return which == 0 ? warp : warp ? 32 - warp : 16; }

// Store what a warp has finished, which is staged in its rows of z, and add its power to `sums`
// [4][THREADS]: a thread has the real or the imaginary parts of four channels.
DEVICE void store(const Tile& tile, const Destination& to, int warp, const uint8_t* z, uint32_t* sums) {
    const uint32_t thread = thread_anew(), lane = thread % 32, part = lane % 2;
    const bool inside = tile.first < to.count && tile.first + TILE > 0;
    const int within = tile.stream % to.pols * 128 + tile.first % 64 / 16 * 32 + part * 16;
    const int64_t block = tile.first / 64 * to.block_bytes + tile.stream / to.pols * to.antenna_bytes + within;
    const int64_t own_block = tile.first / 64 * to.own_block_bytes + tile.stream / to.pols * to.own_antenna_bytes -
                              to.own_first * to.channel_bytes + within;
#pragma unroll
    for (int q = 0; q < 4; ++q) {
        const int k2 = q % 2 * 16 + lane / 2, k1 = row_of(warp, q / 2), channel = k1 + ROWS * k2;
        const uint4 values = *reinterpret_cast<const uint4*>(z + k1 * Z_ROW + staged_place(k2) + part * 16);
        uint32_t& sum = sums[q * THREADS + thread];
        sum = squares(values, sum);
        if constexpr (OUTPUT == TO_BLOCKS) {
            const bool own = OWN && channel >= to.own_first && channel < to.own_end;
            uint8_t* at = static_cast<uint8_t*>(own ? to.own : to.out) + (own ? own_block : block);
            if (inside) *reinterpret_cast<uint4*>(at + channel * to.channel_bytes) = values;
        }
    }
    if constexpr (OUTPUT == TO_HEAPS) {
        const int antenna = tile.stream / to.pols, pol = tile.stream % to.pols;
#pragma unroll 1
        for (int task = lane; task < 2 * POINTS * TILE; task += 32) {
            const int i = task % TILE, k2 = task / TILE % POINTS, row = task / TILE / POINTS, t = tile.first + i;
            if (t < 0 || t >= to.count) continue;
            const int64_t heap = int64_t(antenna) * (to.count / to.heap) + t / to.heap;
            const int64_t channel = row_of(warp, row) + ROWS * k2;
            const int64_t value = ((heap * CHANNELS + channel) * to.heap + t % to.heap) * to.pols + pol;
            const uint8_t *re = z + row_of(warp, row) * Z_ROW + staged_place(k2) + i, *im = re + TILE;
            if constexpr (OUTPUT_BITS == 8)
                static_cast<uint16_t*>(to.out)[value] = uint16_t(*re | *im << 8);
            else
                static_cast<uint8_t*>(to.out)[value] = uint8_t(*re << 4 | (*im & 15));
        }
    }
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
    int own_first, int own_end, int64_t own_block_bytes, int64_t own_antenna_bytes, uint32_t key0, uint32_t key1,
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
    const DitherKeys keys = {key0, key1, first_input};
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
            const uint32_t power =
                __reduce_add_sync(~0u, filter(step, 2 * warp + c, group, raw, weights, z, flip, [&] {
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
        const bool goes = next.goes_on, bit_by_bit = goes && step.last;
        if (next.any) {
            if (!goes) fetch<0, 1>(source, next, 0, group, raw);
            if (!bit_by_bit) fetch<0, 1>(source, next, TILE, group ^ !goes, raw);
            describe(next, turn ^ 1);
        }
        if (step.last) {
            const uint32_t thread = thread_anew(), warp = thread / 32, lane = thread % 32, s = lane % 16, side = lane / 16;
            const int k1 = warp ? (side ? 32 - warp : warp) : side * 16, other = warp ? 32 - k1 : k1;
            float2 v[2][1][LAST];  // of this row, and of the other: images
#pragma unroll
            for (int i = 0; i < CLASSES; ++i) v[0][0][i] = *point(z, i, k1, s);
            const bool special = warp == 0 && side == 0;
            __syncwarp();  // what the warp has read can be written to
            {
                const float2* of_input = gains + step.stream * CHANNELS;
                fetch_tables(z, k1, s, of_input, of_input + (special ? 4 : other * POINTS) + POINTS / 2, mirror);
            }
            copy_async_commit();
            float2 of_points[16];
#pragma unroll
            for (int i = 0; i < 16; i += 2) {
                const float4 two = *reinterpret_cast<const float4*>(turns_of + k1 * 16 + i);
                of_points[i] = make_float2(two.x, two.y);
                of_points[i + 1] = make_float2(two.z, two.w);
            }
            dft_of_turned<LAST, LAST>(v[0][0], of_points);
            copy_async_wait<0>();
            __syncwarp();  // tables are there
            int over = 0;
            Tile tile;
            tile.stream = step.stream;
            tile.pair = k1;
            tile.image = other;
            tile.first = before + step.tile % tiles * TILE;
            tile.first_index = (uint64_t(first_high) << 32 | first_low) + uint64_t(int64_t(tile.first));
            tile.spectra = reinterpret_cast<const float4*>(described + turn * whole::SPECTRA_BYTES);
            tile.gains = reinterpret_cast<const float2*>(z);
            tile.staged = nullptr;
            uint8_t* mine = z + k1 * Z_ROW + s;
            if (warp == 0)
                finish_own_images(v[0][0], side, z, s, tile, keys, static_cast<float2*>(out), count, over);
#pragma unroll
            for (int j = 0; j < LAST; ++j) {
                if (j % 8 < 4) continue;
                const float2 mine = v[0][0][j];
                const int apart = warp > 0 ? 16 : 0;
                v[1][0][j] = make_float2(__shfl_xor_sync(~0u, mine.x, apart), __shfl_xor_sync(~0u, mine.y, apart));
            }
            if (special) {  // output j is the image of output 32 - j, not of 31 - j
#pragma unroll
                for (int j = 0; j < LAST; ++j)
                    if (j % 8 >= 4 && j % 8 < 7) v[1][0][j] = v[0][0][j + 1];
            }
            auto entry = [&](int of_class) { return (of_class * LEGS + k1) * (Z_ROW / 8); };  // as tables follow z
            const Butterfly both[2] = {{k1, mine, entry(GAINS_AT)},
                                       {special ? STRIDE : other, z + other * Z_ROW + s + (special ? 2 * TILE : 0),
                                        entry(IMAGES_AT) - POINTS / 2}};
            finish_butterflies<Q / 2>(v, both, s, tile, tile.gains + (MIRROR_AT - GAINS_AT) * (LEGS * Z_ROW / 8), keys,
                                      static_cast<float2*>(out), count, over, special, [&](auto part) {
                                          if constexpr (part.value < PARTS)
                                              if (bit_by_bit) fetch<part.value, PARTS>(source, next, TILE, group, raw);
                                      });
            copies_arrive(rows_there);
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
