// Last part of the channelizer: the rest of the Fourier transform, and all that follows it: from the transform of pairs
// of real samples to that of real samples, delay and phase, gains, dither, quantization, saturation count, output power
// and the transposition to the layout asked for.
//
// What comes is ROWS rows of POINTS points; row k becomes the channels k + ROWS·k2. A block takes rows k and ROWS - k
// of TILE spectra, so that every channel c meets its mirror image n - c: in the last pass a thread owns LAST channels
// of one row and their images in the other, of WIDE neighbouring spectra, and needs nobody else's values. Four channels
// n/4 apart share a call of the dither's generator and lie in one butterfly.
//
// Rows 0 and ROWS/2 are their own images: there a thread owns two butterflies of one row. Butterflies 0 and P/2 of row
// 0 mirror themselves; these two (EDGE) are put aside and finished value by value.
#include "finish.cuh"
#include "philox.cuh"
#include "points.cuh"
#include "ryle/gpu/device.cuh"

using namespace ryle;

#define TO_BLOCKS 0
#define TO_HEAPS 1
#define TO_FLOATS 2

constexpr int GROUP = 128, TILE = 16, TILES = GROUP / TILE;
constexpr int ROWS = RADIX * MIDDLE;  // from the filter, and from the pass between the two kernels
constexpr int POINTS = CHANNELS / ROWS;
constexpr int P = POINTS / LAST;                   // butterflies of the last pass in a row
constexpr int WIDE = LAST == 8 && P >= 4 ? 2 : 1;  // spectra of a thread in the last pass
constexpr int LANES = TILE / WIDE;
constexpr int Q = LAST / 4;
constexpr int STRIDE = CHANNELS / LAST;  // channels from one output of the last pass to the next
constexpr int SHARE = THREADS / 2 < POINTS ? THREADS / 2 : POINTS;  // channels of a row that are written at a time
constexpr int LIMIT = OUTPUT_BITS == 8 ? 127 : 7;
static_assert(P == FIRST && P * LANES <= THREADS, "a thread has one task in the last pass");

constexpr int Z_BYTES = 2 * POINTS * TILE * 8;
constexpr int OUT_BYTES = 2 * POINTS * 2 * TILE;
constexpr int SUM_BYTES = 2 * POINTS * 2 * 4;
constexpr int EDGE_BYTES = 2 * LAST * TILE * 8;
constexpr int SPECTRA_BYTES = TILE * 32;
static_assert(Z_BYTES + OUT_BYTES + SUM_BYTES + EDGE_BYTES + 2 * SPECTRA_BYTES + 16 == SHARED,
              "the host's plan and the kernel differ");

// The limit by which values are clamped, which NaN passes.
DEVICE float clamped(float value) {
    value = value > float(LIMIT) ? float(LIMIT) : value;
    return value < -float(LIMIT) ? -float(LIMIT) : value;
}

// Sum of the squares of sixteen bytes, and of what is there already.
DEVICE uint32_t squares(uint4 bytes, uint32_t sum) {
    int total = __dp4a(int(bytes.x), int(bytes.x), int(sum));
    total = __dp4a(int(bytes.y), int(bytes.y), total);
    total = __dp4a(int(bytes.z), int(bytes.z), total);
    return uint32_t(__dp4a(int(bytes.w), int(bytes.w), total));
}

// gain·value + noise
DEVICE float2 amplified(float2 gain, float2 value, float2 noise) {
    return make_float2(fmaf(gain.x, value.x, fmaf(-gain.y, value.y, noise.x)),
                       fmaf(gain.x, value.y, fmaf(gain.y, value.x, noise.y)));
}

KERNEL(THREADS, BLOCKS_PER_SM)
transform(
    const float2* __restrict__ y,  // [stream·slab·128/TILE][RADIX][MIDDLE][POINTS][TILE]: row k1 + RADIX·k2 at (k1, k2)
    const float2* __restrict__ turns,    // [P][LAST/2]: of a butterfly's inputs, as dft_of_turned takes them
    const float2* __restrict__ mirror,   // [CHANNELS] -j e^{-jπc/n}: [row][i][h][p][2], see by_butterfly in
                                         // cuda_tables.py
    const float2* __restrict__ gains,    // [stream][CHANNELS] in the same order, times 1/2 for real samples, over the
                                         // weights' scale
    const float4* __restrict__ spectra,  // [stream·groups·8][32]: 16 times Spectrum, see windows.cu
    void* __restrict__ out,              // K-blocks or rows, heaps, or complex float [stream][spectrum][CHANNELS]
    void* __restrict__ own,              // with OWN, where channels [own_first, own_end) of rows go in place of `out`
    unsigned long long* __restrict__ output_power,       // [stream][CHANNELS] sum of squares of quantized values
    unsigned long long* __restrict__ counters,           // [stream][2]: first, complex values clamped
    int groups, int first_group, int slab, int streams,  // groups of each stream: all; those of this launch
    int before, int count,  // group 0 starts with number `before` of `count` spectra wanted
    int heap, int pols,     // spectra of a heap, polarizations of an antenna
    int64_t channel_bytes, int64_t block_bytes, int64_t antenna_bytes,  // between rows of 64 spectra
    int own_first, int own_end, int64_t own_block_bytes, int64_t own_antenna_bytes, uint32_t key0, uint32_t key1,
    uint32_t first_low, uint32_t first_high, int first_input) {
    SHARED_BYTES(shared);
    float2* z = reinterpret_cast<float2*>(shared);                             // [2][POINTS][TILE]
    uint8_t* staged = shared + Z_BYTES;                                        // [2 POINTS][2: re, im][TILE]
    uint32_t* sums = reinterpret_cast<uint32_t*>(staged + OUT_BYTES);          // [2 POINTS][2: re, im] power of a group
    float2* edge = reinterpret_cast<float2*>(staged + OUT_BYTES + SUM_BYTES);  // [2][LAST][TILE]
    uint8_t* described = staged + OUT_BYTES + SUM_BYTES + EDGE_BYTES;          // [2: by turns][TILE] Spectrum
    uint64_t* arrival = reinterpret_cast<uint64_t*>(described + 2 * SPECTRA_BYTES);
    const int tid = threadIdx.x;
    const int tiles = slab * TILES, items = tiles * (ROWS / 2) * streams;

    // Tile, pair of rows and stream. A block takes items that follow one another: the tiles of a group, whose power it
    // can add up by itself, of one pair of rows after the other, so that all blocks have their share of pair 0, which
    // takes longer.
    struct Item {
        int tile, pair, stream;
    };
    const int begin = int(int64_t(items) * blockIdx.x / gridDim.x),
              end = int(int64_t(items) * (blockIdx.x + 1) / gridDim.x);
    const int begin_group = begin / (TILES * (ROWS / 2));
    Item item = {begin_group % slab * TILES + begin % TILES, begin / TILES % (ROWS / 2), begin_group / slab};
    auto image_row = [&](int pair) { return pair ? ROWS - pair : ROWS / 2; };
    uint32_t parity = 0;
    auto prefetch = [&](const Item& item, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
        if (tid > 0) return;  // one thread starts the copy engine
#endif
        const float2* from = y + (int64_t(item.stream) * tiles + item.tile) * (CHANNELS * TILE);
        auto row = [&](int k) { return from + (k % RADIX * MIDDLE + k / RADIX) * (POINTS * TILE); };
        const float4* of = spectra + (int64_t(item.stream * groups + first_group) * TILES + item.tile) * (TILE * 2);
        fill<3>({z, z + POINTS * TILE, described + parity * SPECTRA_BYTES},
                {row(item.pair), row(image_row(item.pair)), of}, {Z_BYTES / 2, Z_BYTES / 2, SPECTRA_BYTES}, arrival);
    };
    fill_init(arrival);
    for (int i = tid; i < 4 * POINTS; i += THREADS) sums[i] = 0;
    __syncthreads();
    if (begin < end) prefetch(item, parity);

#pragma unroll 1
    for (int number = begin; number < end; ++number) {
        const int pair = item.pair, stream = item.stream;
        const int k1[2] = {pair, image_row(pair)};
        const int first =
            before + first_group * GROUP + item.tile * TILE;  // of this tile's spectra, among those wanted
        const uint64_t first_index = (uint64_t(first_high) << 32 | first_low) + uint64_t(int64_t(first));
        const float4* spectrum_of = reinterpret_cast<const float4*>(described + parity * SPECTRA_BYTES);
        const float2* gain = gains + stream * CHANNELS;
        fill_wait(arrival, parity);
        parity ^= 1;
        Item next = item;
        if (++next.tile % TILES == 0) {
            next.tile -= TILES;
            if (++next.pair == ROWS / 2) {
                next.pair = 0;
                next.tile += TILES;
                if (next.tile == tiles) {
                    next.tile = 0;
                    ++next.stream;
                }
            }
        }

        if constexpr (FIRST > 1) {
            constexpr int W = FIRST <= 16 ? 2 : 1;
#pragma unroll 1
            for (int task = tid; task < 2 * LAST * (TILE / W); task += THREADS) {
                const int s = task % (TILE / W) * W, a = task / (TILE / W) % LAST, row = task / (TILE / W) / LAST;
                float2* at = z + (row * POINTS + a) * TILE + s;
                float2 v[W][FIRST];
#pragma unroll
                for (int b = 0; b < FIRST; ++b) read_point(v, b, at + b * (LAST * TILE));
#pragma unroll
                for (int w = 0; w < W; ++w) dft(v[w]);
#pragma unroll
                for (int b = 0; b < FIRST; ++b) write_point(v, b, at + b * (LAST * TILE));
            }
            __syncthreads();
        }

        // Two butterflies (row, p) of outputs p + P·j. The second's output LAST-1-j is the image of the first's output
        // j.
        const int s = tid % LANES * WIDE, index = tid / LANES;
        int row[2] = {0, 1}, p[2] = {index, P - 1 - index};
        bool edges = false;
        if (pair == 0) {
            if (index < P / 2) {
                row[0] = 1;
            } else {
                row[1] = 0;
                p[0] = index - P / 2;
                edges = p[0] == 0;
                p[1] = edges ? P / 2 : P - p[0];
                if (P == 1) row[1] = 1, p[1] = 0;
            }
        }
        if (index >= P) p[0] = p[1] = 0;  // nothing to do
        float2 v[2][WIDE][LAST];
#pragma unroll
        for (int side = 0; side < 2; ++side)
#pragma unroll
            for (int a = 0; a < LAST; ++a)
                read_point(v[side], a, z + ((row[side] * POINTS + p[side] * LAST) + a) * TILE + s);
        __syncthreads();
        if (number + 1 < end) prefetch(next, parity);
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            float2 of_inputs[LAST / 2];
            if constexpr (FIRST > 1) read_table(of_inputs, turns + p[side] * (LAST / 2));
#pragma unroll
            for (int w = 0; w < WIDE; ++w) {
                if constexpr (FIRST > 1)
                    dft_of_turned<LAST, LAST>(v[side][w], of_inputs);
                else
                    dft(v[side][w]);
            }
        }

        int over = 0;
        if (index < P && edges) {
#pragma unroll
            for (int side = 0; side < 2; ++side)
#pragma unroll
                for (int j = 0; j < LAST; ++j) write_point(v[side], j, edge + (side * LAST + j) * TILE + s);
        } else if (index < P) {
            // Channels of output 0, and where these are in `staged`.
            const int base[2] = {(row[0] ? k1[1] : k1[0]) + ROWS * p[0], (row[1] ? k1[1] : k1[0]) + ROWS * p[1]};
            uint8_t* staged_at[2] = {staged + (row[0] * POINTS + p[0]) * (2 * TILE) + s,
                                     staged + (row[1] * POINTS + p[1]) * (2 * TILE) + s};
            const int entry[2] = {2 * ((row[0] ? k1[1] : k1[0]) * (POINTS / 2) + p[0]),
                                  2 * ((row[1] ? k1[1] : k1[0]) * (POINTS / 2) + p[1])};
#pragma unroll
            for (int i = 0; i < Q; ++i) {
                // Channels base[0] + i·STRIDE + t·n/4, t = 0 to 3, and images base[1] + (Q - 1 - i)·STRIDE + (3 -
                // t)·n/4.
                uint4 noise[2][WIDE];
                Turns centre[WIDE];
                Spectrum spectrum[WIDE];
                forget();
#pragma unroll
                for (int w = 0; w < WIDE; ++w) {
                    spectrum[w] = read_spectrum(spectrum_of, s + w);
                    const uint64_t at = first_index + uint32_t(s + w);
                    if constexpr (DITHER) {
                        noise[0][w] = philox4x32(base[0] + i * STRIDE, uint32_t(at), uint32_t(at >> 32),
                                                 first_input + stream, key0, key1);
                        noise[1][w] = philox4x32(base[1] + (Q - 1 - i) * STRIDE, uint32_t(at), uint32_t(at >> 32),
                                                 first_input + stream, key0, key1);
                    }
                    centre[w] = turns_at(spectrum[w], base[0] + i * STRIDE - CHANNELS / 8);
                }
                float2 value[4][2][WIDE];
                float largest = 0;
#pragma unroll
                for (int order = 0; order < 4; ++order) {
                    const int t = order == 0   ? 1
                                  : order == 1 ? 2
                                  : order == 2 ? 0
                                               : 3;  // two that share half of their turns
                    const int j = i + t * Q;
                    float2 gain0[2], gain1[2], mirrored[2];
                    const int up = (2 * i + order / 2) * (2 * P), down = (2 * (Q - 1 - i) + order / 2) * (2 * P);
                    read_table(gain0, gain + entry[0] + up);
                    read_table(gain1, gain + entry[1] + down);
                    if constexpr (!COMPLEX) read_table(mirrored, mirror + entry[0] + up);
#pragma unroll
                    for (int w = 0; w < WIDE; ++w) {
                        float2 a = v[0][w][j], b = v[1][w][LAST - 1 - j];
                        if constexpr (!COMPLEX) separate(a, b, mirrored[order % 2]);
                        const Turns turn =
                            turned(centre[w], order < 2 ? spectrum[w].eighth : spectrum[w].three_eighths, t > 1);
                        float2 dither0 = make_float2(0, 0), dither1 = make_float2(0, 0);
                        if constexpr (DITHER) {
                            const uint4 up = noise[0][w], down = noise[1][w];
                            dither0 = dither_of(t == 0 ? up.x : t == 1 ? up.y : t == 2 ? up.z : up.w);
                            dither1 = dither_of(t == 0 ? down.w : t == 1 ? down.z : t == 2 ? down.y : down.x);
                        }
                        a = amplified(gain0[order % 2], a * turn.channel, dither0);
                        b = amplified(gain1[1 - order % 2], b * turn.image, dither1);
                        largest = fmaxf(largest, fmaxf(fmaxf(fabsf(a.x), fabsf(a.y)), fmaxf(fabsf(b.x), fabsf(b.y))));
                        value[t][0][w] = a;
                        value[t][1][w] = b;
                    }
                }
                if constexpr (OUTPUT == TO_FLOATS) {
#pragma unroll
                    for (int t = 0; t < 4; ++t)
#pragma unroll
                        for (int w = 0; w < WIDE; ++w) {
                            if (first + s + w < 0 || first + s + w >= count) continue;
                            float2* to =
                                static_cast<float2*>(out) + (int64_t(stream) * count + first + s + w) * CHANNELS;
                            const float2 zero = make_float2(0, 0);
                            to[base[0] + (i + t * Q) * STRIDE] = spectrum[w].valid != 0 ? value[t][0][w] : zero;
                            to[base[1] + (LAST - 1 - i - t * Q) * STRIDE] =
                                spectrum[w].valid != 0 ? value[t][1][w] : zero;
                        }
                }
                if (largest >= LIMIT + 0.5f) {  // seldom
#pragma unroll
                    for (int t = 0; t < 4; ++t)
#pragma unroll
                        for (int side = 0; side < 2; ++side)
#pragma unroll
                            for (int w = 0; w < WIDE; ++w) {
                                float2& x = value[t][side][w];
                                count_at_least(over, fmaxf(fabsf(x.x), fabsf(x.y)), LIMIT + 0.5f);
                                x = make_float2(clamped(x.x), clamped(x.y));
                            }
                }
#pragma unroll
                for (int t = 0; t < 4; ++t)
#pragma unroll
                    for (int side = 0; side < 2; ++side) {
                        const int j = i + t * Q;
                        uint8_t* at = staged_at[side] + (side ? LAST - 1 - j : j) * (P * 2 * TILE);
                        const float2 x = value[t][side][0], y = value[t][side][WIDE - 1];
                        if constexpr (WIDE == 2) {
                            *reinterpret_cast<uint16_t*>(at) = uint16_t(int8_pair(x.x, y.x));
                            *reinterpret_cast<uint16_t*>(at + TILE) = uint16_t(int8_pair(x.y, y.y));
                        } else {
                            const uint32_t both = int8_pair(x.x, x.y);
                            at[0] = uint8_t(both);
                            at[TILE] = uint8_t(both >> 8);
                        }
                    }
            }
        }
        __syncthreads();

        if (pair == 0) {  // channels j·STRIDE, and (j + 1/2)·STRIDE
#pragma unroll 1
            for (int task = tid; task < 2 * Q * TILE; task += THREADS) {
                const int s = task % TILE, i = task / TILE % Q, half = task / TILE / Q;
                const int row = P == 1 ? half : 0, p = P == 1 ? 0 : half * (P / 2);  // of `staged`
                const int base = half * (STRIDE / 2) + i * STRIDE;
                const int entry = row * (ROWS / 2) * POINTS + i * (4 * P) + 2 * p;
                const Spectrum spectrum = read_spectrum(spectrum_of, s);
                const Turns centre = turns_at(spectrum, base - CHANNELS / 8);
                uint4 noise = make_uint4(0, 0, 0, 0);
                if constexpr (DITHER) {
                    const uint64_t at = first_index + uint32_t(s);
                    noise = philox4x32(base, uint32_t(at), uint32_t(at >> 32), first_input + stream, key0, key1);
                }
#pragma unroll
                for (int t = 0; t < 4; ++t) {
                    const int j = i + t * Q, outer = t == 0 || t == 3, at = entry + outer * (2 * P) + (t > 1);
                    float2 a = edge[(half * LAST + j) * TILE + s],
                           b = edge[(half * LAST + (half ? LAST - 1 - j : (LAST - j) % LAST)) * TILE + s];
                    if constexpr (!COMPLEX) separate(a, b, __ldg(mirror + at));
                    const float2 turn = turned(centre, outer ? spectrum.three_eighths : spectrum.eighth, t > 1).channel;
                    float2 dither = make_float2(0, 0);
                    if constexpr (DITHER)
                        dither = dither_of(t == 0 ? noise.x : t == 1 ? noise.y : t == 2 ? noise.z : noise.w);
                    a = amplified(__ldg(gain + at), a * turn, dither);
                    if constexpr (OUTPUT == TO_FLOATS)
                        if (first + s >= 0 && first + s < count)
                            static_cast<float2*>(
                                out)[(int64_t(stream) * count + first + s) * CHANNELS + base + t * (CHANNELS / 4)] =
                                spectrum.valid != 0 ? a : make_float2(0, 0);
                    count_at_least(over, fmaxf(fabsf(a.x), fabsf(a.y)), LIMIT + 0.5f);
                    const uint32_t both = int8_pair(clamped(a.x), clamped(a.y));
                    uint8_t* to = staged + (row * POINTS + p + P * j) * (2 * TILE) + s;
                    to[0] = uint8_t(both);
                    to[TILE] = uint8_t(both >> 8);
                }
            }
            __syncthreads();
        }
        if (__any_sync(~0u, over)) {
            over = __reduce_add_sync(~0u, over);
            if (tid % 32 == 0) atomicAdd(counters + stream * 2, static_cast<unsigned long long>(over));
        }

        // Two threads a channel: the real parts and the imaginary parts of its spectra.
        const int part = tid % 2, below = tid / 2;  // of the channels at a time
        const bool inside = first < count && first + TILE > 0;
        const bool last_of_channels = next.pair != pair || next.stream != stream || number + 1 == end;
        const int within = stream % pols * 128 + first % 64 / 16 * 32 + part * 16;  // bytes of a channel of an antenna
        uint8_t* block = static_cast<uint8_t*>(out) + first / 64 * block_bytes + stream / pols * antenna_bytes + within;
        uint8_t* own_block = static_cast<uint8_t*>(own) + first / 64 * own_block_bytes +
                             stream / pols * own_antenna_bytes - own_first * channel_bytes + within;
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const int channel = (row ? k1[1] : k1[0]) + ROWS * below;
            const uint8_t* from = staged + (row * POINTS * 2 + tid) * TILE;
            uint32_t* sum_of = sums + row * POINTS * 2 + tid;
            uint8_t* to = block + channel * channel_bytes;
            constexpr int TIMES = POINTS / SHARE;
#pragma unroll(TIMES <= 4 ? TIMES : 2)
            for (int time = 0; time < TIMES; ++time) {
                uint32_t sum = 0;
                if (below < SHARE) {
                    const uint4 values = *reinterpret_cast<const uint4*>(from + time * (2 * SHARE * TILE));
                    sum = squares(values, sum_of[time * (2 * SHARE)]);
                    sum_of[time * (2 * SHARE)] = last_of_channels ? 0 : sum;
                    if constexpr (OUTPUT == TO_BLOCKS && OWN) {
                        const int c = channel + time * (ROWS * SHARE);
                        uint8_t* place = c >= own_first && c < own_end ? own_block : block;
                        if (inside) *reinterpret_cast<uint4*>(place + c * channel_bytes) = values;
                    } else if (OUTPUT == TO_BLOCKS && inside) {
                        *reinterpret_cast<uint4*>(to + time * (ROWS * SHARE) * channel_bytes) = values;
                    }
                    if constexpr (OUTPUT == TO_HEAPS) {
                        // [stream / pols][heap][channel][spectrum][pol][2] or, with 4 bits, a byte for both parts.
                        const uint8_t *re = from + time * (2 * SHARE * TILE) - part * TILE, *im = re + TILE;
                        const int antenna = stream / pols, pol = stream % pols;
                        for (int k = part; k < TILE; k += 2) {
                            const int t = first + k;
                            if (t < 0 || t >= count) continue;
                            const int64_t value = (((int64_t(antenna) * (count / heap) + t / heap) * CHANNELS +
                                                    channel + time * (ROWS * SHARE)) *
                                                       heap +
                                                   t % heap) *
                                                      pols +
                                                  pol;
                            if constexpr (OUTPUT_BITS == 8)
                                static_cast<uint16_t*>(out)[value] = uint16_t(re[k] | im[k] << 8);
                            else
                                static_cast<uint8_t*>(out)[value] = uint8_t(re[k] << 4 | (im[k] & 15));
                        }
                    }
                }
                if (last_of_channels) {
                    sum += __shfl_xor_sync(~0u, sum, 1);
                    if (below < SHARE && part == 0)
                        atomicAdd(output_power + stream * CHANNELS + channel + time * (ROWS * SHARE),
                                  static_cast<unsigned long long>(sum));
                }
            }
        }
        if constexpr (FIRST == 1) __syncthreads();
        item = next;
    }
}
