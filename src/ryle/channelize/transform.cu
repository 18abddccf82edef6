// Second half of the channelizer: the rest of the Fourier transform, and all that follows it: from the transform of pairs
// of real samples to that of real samples, delay and phase, gains, dither, quantization, saturation count, output power and
// the transposition to the layout asked for.
//
// After the first radix, row k1 of POINTS points becomes the channels k1 + RADIX·k2. A block takes rows k1 and RADIX - k1 of
// TILE spectra, so that every channel c meets its mirror image n - c: in the last radix a thread owns LAST channels of one row
// and their images in the other, and needs nobody else's values. Rows 0 and RADIX/2 are their own images; there a thread owns
// two butterflies of one row, except one thread of row 0 whose butterflies (0 and P/2) mirror themselves: it sorts its
// registers first. Four channels n/4 apart share a call of the dither's generator and lie in one butterfly.
#include "butterflies.cuh"
#include "philox.cuh"
#include "ryle/gpu/device.cuh"

using namespace ryle;

#define TO_BLOCKS 0
#define TO_HEAPS 1
#define TO_FLOATS 2

constexpr int GROUP = 128;
constexpr int POINTS = CHANNELS / RADIX;
constexpr int P = POINTS / LAST;              // butterflies of the last pass in a row
static_assert(FIRST * MIDDLE * LAST == POINTS);
constexpr int LIMIT = OUTPUT_BITS == 8 ? 127 : 7;
// With fewer than 16 spectra side by side, points that are LAST or M apart would lie in the same banks: they are moved on by
// one place each.
constexpr bool SKEWED = TILE < 16;
constexpr int M = POINTS / FIRST;             // points of a sub-transform after the first pass
DEVICE constexpr int place(int point) {
    return point + (SKEWED ? point / LAST + (MIDDLE > 1 ? point / M : 0) : 0);
}
constexpr int ROW = POINTS + (SKEWED ? POINTS / LAST + (MIDDLE > 1 ? FIRST : 0) : 0);
constexpr int Z_BYTES = (FIRST * MIDDLE > 1) ? 2 * ROW * TILE * 8 : 0;
constexpr int OUT_BYTES = 2 * POINTS * 2 * TILE;
constexpr int SUM_BYTES = 2 * POINTS * 4;
constexpr int ROW_BYTES = POINTS * TILE * 8;
constexpr int LANDING_BYTES = PREFETCH ? 2 * ROW_BYTES + 16 : 0;
static_assert(LANDING_BYTES + Z_BYTES + OUT_BYTES + SUM_BYTES == SHARED, "the host's plan and the kernel differ");

// e^{j angle} for angles within ±π/4 (±π/2 for complex samples): Taylor series, error about 2^-25.
DEVICE float2 small_turn(float angle) {
    if (COMPLEX) angle *= 0.5f;
    const float s = angle * angle;
    const float sine = angle * fmaf(s, fmaf(s, fmaf(s, fmaf(s, 2.7557319e-6f, -1.9841270e-4f), 8.3333333e-3f), -0.16666667f), 1.0f);
    const float cosine = fmaf(s, fmaf(s, fmaf(s, fmaf(s, 2.4801587e-5f, -1.3888889e-3f), 4.1666667e-2f), -0.5f), 1.0f);
    const float2 turn = make_float2(cosine, sine);
    return COMPLEX ? turn * turn : turn;
}

template <int N> struct Bytes;
template <> struct Bytes<2> { using type = uint16_t; };
template <> struct Bytes<4> { using type = uint32_t; };
template <> struct Bytes<8> { using type = uint2; };
template <> struct Bytes<16> { using type = uint4; };

DEVICE int squares(uint32_t word) { return __dp4a(int(word), int(word), 0); }
DEVICE int squares(uint16_t word) { return squares(uint32_t(word)); }
DEVICE int squares(uint2 words) { return squares(words.x) + squares(words.y); }
DEVICE int squares(uint4 words) { return squares(words.x) + squares(words.y) + squares(words.z) + squares(words.w); }

// Turn the outputs of a butterfly by a row of a table and store number j at place(j·STRIDE).
template <int STRIDE, int R> DEVICE void store_turned(float2 *to, float2 (&v)[R], const float2 *table) {
    const float4 *two = reinterpret_cast<const float4 *>(table);
#pragma unroll
    for (int j = 0; j < R; j += 2) {
        const float4 turn = __ldg(two + j / 2);
        if (j > 0) v[j] = v[j] * make_float2(turn.x, turn.y);
        v[j + 1] = v[j + 1] * make_float2(turn.z, turn.w);
        to[place(j * STRIDE) * TILE] = v[j];
        to[place((j + 1) * STRIDE) * TILE] = v[j + 1];
    }
}

KERNEL(THREADS, BLOCKS_PER_SM)
transform(const float2 *__restrict__ y,        // [stream·slab·128/TILE][RADIX][POINTS][TILE]
          const float2 *__restrict__ turns,    // [POINTS/FIRST][FIRST] W_POINTS^(a j), [LAST][MIDDLE] W_(MIDDLE LAST)^(a j)
          const float2 *__restrict__ mirror,   // [CHANNELS] -j W_2n^c
          const float2 *__restrict__ gains,    // [stream][CHANNELS], times 1/2 for real samples, over the weights' scale
          const float4 *__restrict__ spectra,  // [stream·groups][128]: e^{j phase}, angle per channel, valid
          void *__restrict__ out,              // K-blocks, heaps or complex float [stream][spectrum][CHANNELS]
          unsigned long long *__restrict__ output_power, // [stream][CHANNELS] sum of squares of quantized values
          unsigned long long *__restrict__ counters,     // [stream][2]: first, complex values clamped
          int groups, int first_group, int slab, int streams, // groups of each stream: all; those of this launch
          int before, int count, // group 0 starts with number `before` of `count` spectra wanted
          int heap, int pols, uint32_t key0, uint32_t key1, uint32_t first_low, uint32_t first_high, int first_input) {
    SHARED_BYTES(shared);
    uint8_t *landing = shared;                                       // [2][POINTS][TILE], filled in advance
    float2 *z = reinterpret_cast<float2 *>(shared + LANDING_BYTES);  // [2][ROW][TILE]
    uint8_t *staged = shared + LANDING_BYTES + Z_BYTES;              // [2 POINTS][2: re, im][TILE]
    uint32_t *sums = reinterpret_cast<uint32_t *>(staged + OUT_BYTES); // [2 POINTS] output power, of at most 2^16 spectra
    uint64_t *arrival = reinterpret_cast<uint64_t *>(shared + 2 * ROW_BYTES);
    const int tid = threadIdx.x;
    constexpr int TILES = GROUP / TILE;
    // As many blocks as it takes to fill 16 spectra, a sector of the output, work beside one another.
    constexpr int SIDES = TILE < 16 ? 16 / TILE : 1;
    const int tiles = slab * TILES, wide = tiles / SIDES, items = wide * (RADIX / 2) * streams;
    const int side_tile = blockIdx.x % SIDES, crew = blockIdx.x / SIDES, crews = gridDim.x / SIDES;

    // Tile, pair of rows and stream of an item.
    struct Item {
        int tile, pair, stream;
    };
    auto item_of = [&](int number) {
        const int rest = uint32_t(number) / uint32_t(wide);
        return Item{(number - rest * wide) * SIDES + side_tile, rest % (RADIX / 2), rest / (RADIX / 2)};
    };
    auto rows_of = [&](const Item &item) { return y + (int64_t(item.stream) * tiles + item.tile) * (RADIX * POINTS * TILE); };
    auto prefetch = [&](const Item &item) {
#if __CUDA_ARCH__ >= 900
        if (tid > 0) return; // one thread starts the copy engine
#endif
        const float2 *from = rows_of(item);
        fill({landing, landing + ROW_BYTES},
             {from + item.pair * (POINTS * TILE), from + (item.pair ? RADIX - item.pair : RADIX / 2) * (POINTS * TILE)},
             ROW_BYTES, arrival);
    };
    uint32_t parity = 0;
    if constexpr (PREFETCH) {
        fill_init(arrival);
        __syncthreads();
    }
    // A block takes items that follow one another: tiles of the same channels, whose power it can add up by itself.
    const int begin = int(int64_t(items) * crew / crews), end = int(int64_t(items) * (crew + 1) / crews);
    Item item = item_of(begin);
    if (PREFETCH && begin < end) prefetch(item);
    for (int i = tid; i < 2 * POINTS; i += THREADS) sums[i] = 0;

#pragma unroll 1
    for (int number = begin; number < end; ++number) {
    const int tile = item.tile, pair = item.pair, stream = item.stream; // the tile among those of this launch
    const int row_k1[2] = {pair, pair ? RADIX - pair : RADIX / 2};
    const int whole_tile = first_group * TILES + tile; // counted from group 0
    const int first = before + whole_tile * TILE;      // of this tile's spectra, among those wanted
    const float2 *from = rows_of(item);
    if constexpr (PREFETCH) {
        fill_wait(arrival, parity);
        parity ^= 1;
    }
    auto read_row = [&](int row, int point, int s) {
        if constexpr (PREFETCH)
            return reinterpret_cast<const float2 *>(landing)[(row * POINTS + point) * TILE + s];
        else
            return __ldcs(from + (row_k1[row] * POINTS + point) * TILE + s);
    };

    if constexpr (FIRST > 1) {
#pragma unroll 1
        for (int task = tid; task < 2 * M * TILE; task += THREADS) {
            const int s = task % TILE, a = task / TILE % M, row = task / TILE / M;
            float2 v[FIRST];
#pragma unroll
            for (int b = 0; b < FIRST; ++b) v[b] = read_row(row, a + b * M, s);
            dft(v);
            store_turned<M>(z + (row * ROW + (M > LAST ? place(a) : a)) * TILE + s, v, turns + a * FIRST);
        }
        __syncthreads();
        if (PREFETCH && number + 1 < end) prefetch(item_of(number + 1));
    }
    if constexpr (MIDDLE > 1) {
#pragma unroll 1
        for (int task = tid; task < 2 * FIRST * LAST * TILE; task += THREADS) {
            const int s = task % TILE, a = task / TILE % LAST, rest = task / TILE / LAST, j0 = rest % FIRST, row = rest / FIRST;
            float2 *at = z + (row * ROW + place(j0 * M)) * TILE + s;
            float2 v[MIDDLE];
#pragma unroll
            for (int b = 0; b < MIDDLE; ++b) v[b] = at[(place(b * LAST) + a) * TILE];
            dft(v);
            store_turned<LAST>(at + a * TILE, v, turns + POINTS + a * MIDDLE);
        }
        __syncthreads();
    }

    // SELF: rows 0 and RADIX/2, each its own image.
    auto last_pass = [&](auto self) {
        constexpr bool SELF = decltype(self)::value;
        int clamped = 0;
#pragma unroll 1
        for (int task = tid; task < P * TILE; task += THREADS) {
            const int s = task % TILE, index = task / TILE;
            // Two butterflies (row, p); p = j0 + FIRST·j1 lies at j0·(POINTS/FIRST) + j1·LAST.
            int row[2] = {0, 1}, p[2];
            bool special = false;
            if constexpr (!SELF) {
                p[0] = index;
                p[1] = P - 1 - p[0];
            } else if (P == 1) {
                p[0] = p[1] = 0;
                special = true;
            } else if (index < P / 2) {
                row[0] = 1;
                p[0] = index;
                p[1] = P - 1 - index;
            } else {
                row[1] = 0;
                p[0] = index - P / 2;
                p[1] = p[0] ? P - p[0] : P / 2;
                special = p[0] == 0;
            }
            const float4 spectrum = spectra[(stream * groups * TILES + whole_tile) * TILE + s];
            // Place in `staged` of butterfly `side`'s output j: local[side] + j·P.
            const int local[2] = {row[0] * POINTS + p[0], row[1] * POINTS + p[1]};
            if (spectrum.w == 0) { // not valid: all its channels are zero
                for (int side = 0; side < 2; ++side)
                    for (int j = 0; j < LAST; ++j) {
                        const int at = local[side] + P * j;
                        staged[at * (2 * TILE) + s] = staged[at * (2 * TILE) + TILE + s] = 0;
                        if constexpr (OUTPUT == TO_FLOATS) {
                            const int channel = row_k1[row[side]] + RADIX * (p[side] + P * j);
                            if (first + s >= 0 && first + s < count)
                                static_cast<float2 *>(out)[(int64_t(stream) * count + first + s) * CHANNELS + channel] = make_float2(0, 0);
                        }
                    }
                continue;
            }
            float2 v[2][LAST];
#pragma unroll
            for (int side = 0; side < 2; ++side) {
                if constexpr (FIRST > 1) {
                    const int base = p[side] % FIRST * M + p[side] / FIRST * LAST;
                    const float2 *at = z + (row[side] * ROW + place(base)) * TILE + s;
#pragma unroll
                    for (int b = 0; b < LAST; ++b) v[side][b] = at[b * TILE];
                } else {
#pragma unroll
                    for (int b = 0; b < LAST; ++b) v[side][b] = read_row(row[side], b, s);
                }
                dft(v[side]);
            }
            // Channel of butterfly `side`'s output j: base[side] + j·n/LAST.
            const int base[2] = {(row[0] ? row_k1[1] : row_k1[0]) + RADIX * p[0], (row[1] ? row_k1[1] : row_k1[0]) + RADIX * p[1]};
            // Dither of four channels of butterfly `side`: outputs i, i + LAST/4, i + LAST/2, i + 3 LAST/4.
            auto dither_words = [&](int side, int i) {
                if constexpr (!DITHER) return make_uint4(0, 0, 0, 0);
                const uint64_t index = (uint64_t(first_high) << 32 | first_low) + uint64_t(int64_t(first + s));
                return philox4x32(uint32_t(base[side] + i * (CHANNELS / LAST)), uint32_t(index), uint32_t(index >> 32),
                                  uint32_t(first_input + stream), key0, key1);
            };
            uint32_t noise[2][SELF ? LAST : 1];
            if constexpr (SELF && DITHER) {
#pragma unroll
                for (int side = 0; side < 2; ++side)
#pragma unroll
                    for (int i = 0; i < LAST / 4; ++i) {
                        const uint4 words = dither_words(side, i);
                        noise[side][i] = words.x;
                        noise[side][i + LAST / 4] = words.y;
                        noise[side][i + LAST / 2] = words.z;
                        noise[side][i + 3 * LAST / 4] = words.w;
                    }
            }
            // From here on v[0][j] and v[1][LAST-1-j] are mirror images: channels c and n - c, c = low + j·n/LAST in the first
            // half of j, high + j·n/LAST in the second; places likewise.
            int low = base[0], high = base[0], low_local = local[0], high_local = local[0];
            int low_mirror = local[1] + P * (LAST - 1), high_mirror = low_mirror;
            if (SELF && special) {
                float2 a[LAST], b[LAST]; // b[j] is the image of a[j]
                uint32_t m[LAST], n[LAST];
#pragma unroll
                for (int j = 0; j < LAST; ++j) {
                    const int i = j - LAST / 2;
                    a[j] = j < LAST / 2 ? v[0][j] : v[1][i >= 0 ? i : 0];
                    b[j] = j == 0 ? v[0][LAST / 2] : j < LAST / 2 ? v[0][LAST - j] : v[1][i >= 0 ? LAST - 1 - i : 0];
                    if constexpr (DITHER) {
                        m[j] = j < LAST / 2 ? noise[0][j] : noise[1][i >= 0 ? i : 0];
                        n[j] = j == 0 ? noise[0][LAST / 2] : j < LAST / 2 ? noise[0][LAST - j] : noise[1][i >= 0 ? LAST - 1 - i : 0];
                    }
                }
#pragma unroll
                for (int j = 0; j < LAST; ++j) {
                    v[0][j] = a[j];
                    v[1][LAST - 1 - j] = b[j];
                    if constexpr (DITHER) {
                        noise[0][j] = m[j];
                        noise[1][LAST - 1 - j] = n[j];
                    }
                }
                high = base[1] - CHANNELS / 2;
                high_local = local[1] - P * (LAST / 2);
                low_mirror = local[0] + P * LAST;
                high_mirror = local[1] + P * (LAST - 1) + P * (LAST / 2);
            }
            int over = 0;
            const float2 phase = make_float2(spectrum.x, spectrum.y);
            const float2 step = small_turn(spectrum.z * (CHANNELS / LAST));
            const float2 turn = small_turn(spectrum.z * (low - CHANNELS / 2));
            float2 turn0 = phase * turn, turn1 = phase * conj(turn);
            // Where channel `low` or `high` and its image are, so that j adds a constant.
            const float2 *gain = gains + stream * CHANNELS;
            const float2 *gain_up[2] = {gain + low, gain + high}, *gain_down[2] = {gain + (CHANNELS - low), gain + (CHANNELS - high)};
            const float2 *mirror_up[2] = {mirror + low, mirror + high};
            uint8_t *staged_up[2] = {staged + low_local * (2 * TILE) + s, staged + high_local * (2 * TILE) + s};
            uint8_t *staged_down[2] = {staged + low_mirror * (2 * TILE) + s, staged + high_mirror * (2 * TILE) + s};
            constexpr int STRIDE = CHANNELS / LAST;
            // Finish channel `low` + j·STRIDE and its image.
            auto finish = [&](int j, float2 turn0, float2 turn1, uint32_t word0, uint32_t word1) {
                const int h = j < LAST / 2 ? 0 : 1;
                float2 value0 = v[0][j], value1 = v[1][LAST - 1 - j], image_turn = turn1;
                const float2 *image_gain = gain_down[h] - j * STRIDE;
                uint8_t *at0 = staged_up[h] + j * (2 * TILE * P), *at1 = staged_down[h] - j * (2 * TILE * P);
                if (SELF && j == 0 && special) { // channels 0 and n/2, each its own image
                    image_gain = gain + CHANNELS / 2;
                    at1 = staged + (local[0] + P * (LAST / 2)) * (2 * TILE) + s;
                    image_turn = phase;
                }
                if constexpr (!COMPLEX) {
                    const float2 a = value0, b = value1;
                    const float2 sum = make_float2(a.x + b.x, a.y - b.y);
                    const float2 difference = make_float2(a.x - b.x, a.y + b.y) * __ldg(mirror_up[h] + j * STRIDE);
                    value0 = sum + difference;
                    value1 = conj(sum - difference);
                    if (SELF && j == 0 && special) {
                        value0 = make_float2(2 * (a.x + a.y), 0);
                        value1 = make_float2(2 * b.x, -2 * b.y);
                    }
                }
                value0 = value0 * turn0;
                value1 = value1 * image_turn;
                const float2 gain0 = __ldg(gain_up[h] + j * STRIDE), gain1 = __ldg(image_gain);
                float2 noise0 = make_float2(0, 0), noise1 = make_float2(0, 0);
                if constexpr (DITHER) {
                    noise0 = dither_of(word0);
                    noise1 = dither_of(word1);
                }
                const float2 result0 = make_float2(fmaf(gain0.x, value0.x, fmaf(-gain0.y, value0.y, noise0.x)),
                                                   fmaf(gain0.x, value0.y, fmaf(gain0.y, value0.x, noise0.y)));
                const float2 result1 = make_float2(fmaf(gain1.x, value1.x, fmaf(-gain1.y, value1.y, noise1.x)),
                                                   fmaf(gain1.x, value1.y, fmaf(gain1.y, value1.x, noise1.y)));
                if constexpr (OUTPUT == TO_FLOATS) {
                    if (first + s >= 0 && first + s < count) {
                        float2 *to = static_cast<float2 *>(out) + (int64_t(stream) * count + first + s) * CHANNELS;
                        to[(h ? high : low) + j * STRIDE] = result0;
                        to[image_gain - gain] = result1;
                    }
                }
                auto quantize = [&](float2 value, uint8_t *at) {
                    count_at_least(over, fmaxf(fabsf(value.x), fabsf(value.y)), LIMIT + 0.5f);
                    int re = round_to_int8(value.x), im = round_to_int8(value.y);
                    if constexpr (LIMIT < 127) {
                        re = max(-LIMIT, min(re, LIMIT));
                        im = max(-LIMIT, min(im, LIMIT));
                    }
                    at[0] = uint8_t(re);
                    at[TILE] = uint8_t(im);
                };
                quantize(result0, at0);
                quantize(result1, at1);
            };
            if constexpr (SELF) {
#pragma unroll
                for (int j = 0; j < LAST; ++j) {
                    if (j == LAST / 2 && special) {
                        const float2 turn = small_turn(spectrum.z * (high + j * STRIDE - CHANNELS / 2));
                        turn0 = phase * turn;
                        turn1 = phase * conj(turn);
                    }
                    finish(j, turn0, turn1, noise[0][j], noise[1][LAST - 1 - j]);
                    turn0 = turn0 * step;
                    turn1 = turn1 * conj(step);
                }
            } else {
                // In an order in which words of the dither are used as they are made.
                constexpr int Q = LAST / 4;
                float2 leap = step * step;
                if constexpr (Q == 4) leap = leap * leap;
#pragma unroll
                for (int i = 0; i < Q; ++i) {
                    const uint4 up = dither_words(0, i), down = dither_words(1, Q - 1 - i);
                    const uint32_t words0[4] = {up.x, up.y, up.z, up.w}, words1[4] = {down.w, down.z, down.y, down.x};
                    float2 there0 = turn0, there1 = turn1;
#pragma unroll
                    for (int w = 0; w < 4; ++w) {
                        finish(i + w * Q, there0, there1, words0[w], words1[w]);
                        there0 = there0 * leap;
                        there1 = there1 * conj(leap);
                    }
                    turn0 = turn0 * step;
                    turn1 = turn1 * conj(step);
                }
            }
            if (LIMIT == 127 && over) // seldom: -128 becomes -127
#pragma unroll 1
                for (int i = 0; i < 4 * LAST; ++i) {
                    uint8_t *at = staged + (local[i & 1] + P * (i / 4)) * (2 * TILE) + (i / 2 % 2) * TILE + s;
                    if (*at == 0x80) *at = 0x81;
                }
            clamped += over;
        }
        return clamped;
    };
    int clamped = pair ? last_pass(Constant<false>()) : last_pass(Constant<true>());
    if (__any_sync(~0u, clamped)) {
        clamped = __reduce_add_sync(~0u, clamped);
        if (tid % 32 == 0) atomicAdd(counters + stream * 2, static_cast<unsigned long long>(clamped));
    }
    __syncthreads();
    // Two threads a channel: the real parts and the imaginary parts of its spectra.
    using Vector = typename Bytes<TILE>::type;
    const int part = tid % 2;
    const int64_t channel_bytes = int64_t(count / 64) * streams * 128;
    const bool inside = first < count && first + TILE > 0;
    const Item next = item_of(number + 1);
    const bool last_of_channels = next.pair != pair || next.stream != stream || number + 1 == end;
    constexpr int SHARE = THREADS / 2 < POINTS ? THREADS / 2 : POINTS; // channels at a time
#pragma unroll
    for (int row = 0; row < 2; ++row) {
        const int k1 = row ? row_k1[1] : row_k1[0];
        const uint8_t *from = staged + (row * (2 * POINTS) + tid) * TILE;
        uint32_t *sum_of = sums + row * POINTS + tid / 2;
        unsigned long long *total = output_power + stream * CHANNELS + k1 + RADIX * (tid / 2);
        uint8_t *to = static_cast<uint8_t *>(out) + (int64_t(first / 64) * streams + stream) * 128 + first % 64 / 16 * 32 +
                      part * 16 + first % 16 + (k1 + RADIX * (tid / 2)) * channel_bytes;
        constexpr int TOGETHER = POINTS / SHARE <= 4 ? POINTS / SHARE : 2;
#pragma unroll TOGETHER
        for (int at = 0; at < POINTS; at += SHARE) {
            const bool mine = inside && tid / 2 < SHARE;
            Vector values = {};
            if (mine) values = *reinterpret_cast<const Vector *>(from + at * (2 * TILE));
            int sum = squares(values);
            sum += __shfl_xor_sync(~0u, sum, 1);
            if (tid / 2 < SHARE && part == 0) {
                const uint32_t so_far = sum_of[at] + uint32_t(sum);
                sum_of[at] = last_of_channels ? 0 : so_far;
                if (last_of_channels) atomicAdd(total + RADIX * at, static_cast<unsigned long long>(so_far));
            }
            if constexpr (OUTPUT == TO_BLOCKS) {
                if (mine) *reinterpret_cast<Vector *>(to + RADIX * at * channel_bytes) = values;
            } else if constexpr (OUTPUT == TO_HEAPS) {
                if (!mine) continue;
                // [stream / pols][heap][channel][spectrum][pol][2] or, with 4 bits, a byte for both parts.
                const int channel = k1 + RADIX * (tid / 2 + at);
                const uint8_t *re = staged + (row * POINTS + tid / 2 + at) * (2 * TILE), *im = re + TILE;
                const int antenna = stream / pols, pol = stream % pols;
                for (int k = part; k < TILE; k += 2) {
                    const int t = first + k;
                    if (t < 0 || t >= count) continue;
                    const int64_t value = (((int64_t(antenna) * (count / heap) + t / heap) * CHANNELS + channel) * heap + t % heap) * pols + pol;
                    if constexpr (OUTPUT_BITS == 8)
                        static_cast<uint16_t *>(out)[value] = uint16_t(re[k] | im[k] << 8);
                    else
                        static_cast<uint8_t *>(out)[value] = uint8_t(re[k] << 4 | (im[k] & 15));
                }
            }
        }
    }
    if constexpr (FIRST == 1) __syncthreads(); // `staged` has been read (otherwise there is a barrier before it is written)
    if (PREFETCH && FIRST == 1 && number + 1 < end) prefetch(next);
    item = next;
    }
}
