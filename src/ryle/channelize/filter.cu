// First half of the channelizer: fetch and unpack samples, filter them (FIR) on the matrix units, first radix of the
// Fourier transform, turns between the radices.
//
// A step of 2n values is a row of the matrix x[block][column]; spectrum s is the transform of
// y[column] = Σ_k w[k][column] x[s + k][column]. For one column, 128 spectra are the product of a Hankel matrix of
// samples (16 rows: groups of 8 spectra) with a banded Toeplitz matrix of weights (8 columns: the spectra of a row).
// Samples of up to 12 bits are exact in half precision, a weight is the sum of two halves (22 bits), products are
// summed in single precision. The matrix units leave the same four spectra of every column in one thread, so that it
// can go on to transform over RADIX columns that are n/RADIX complex points apart, and spectra lie in lanes, so that
// what it stores is contiguous.
//
// Wider samples (DIRECT) are filtered in single precision without the matrix units, by the same threads to the same
// places.
//
// A block keeps a strip of STRIP complex points (times RADIX) and its weights, and marches over groups of 128 spectra:
// samples of the next group are fetched while this one is filtered.
#include "butterflies.cuh"
#include "passes.cuh"
#include "ryle/gpu/device.cuh"
#include "unpack.cuh"

using namespace ryle;

#ifndef POINTERS
#define POINTERS 0  // whether samples lie where a table of packet payloads points to, not in one buffer
#define PACKET_BYTES 1
#endif
constexpr int GROUP = 128;
constexpr int COLUMNS = 2 * CHANNELS;     // values of a step
constexpr int POINTS = CHANNELS / RADIX;  // complex points after the first radix
constexpr int STRIPS = POINTS / STRIP;
constexpr int RUN = 2 * STRIP;              // values of a strip that follow one another
constexpr int KUNITS = (TAPS + 7 + 7) / 8;  // eighths of the matrices' inner dimension: 8 spectra read TAPS + 7 blocks
constexpr int UNITS = (16 + KUNITS) / 2 * 2;  // groups of 8 blocks that are unpacked, made even
constexpr int BLOCKS = GROUP + TAPS - 1;      // blocks that are read
constexpr int PAIRS = UNITS * 4;              // pairs of blocks
constexpr int ENTRIES = 8 * KUNITS + 6;       // pairs of weights of a column
constexpr bool DIRECT = BITS == 16 || BITS == 32;
constexpr int WARPS = THREADS / 32;
constexpr int ROW_BYTES = COLUMNS * BITS / 8,
              LEG_BYTES = 2 * POINTS * BITS / 8;  // of a block; between columns of a transform

// A fetched run of RUN values begins anywhere within its first FETCH bytes, and is read in words, AT_ONCE values and
// one word at a time. So that eight rows lie in all banks, they are an odd number of pieces of FETCH bytes long, or
// swizzled.
constexpr int FETCH = 16;
constexpr int AT_ONCE = RUN < 16 ? RUN : 16;
constexpr int CHUNKS = (FETCH - 1 + (7 + RUN * BITS + 7) / 8 + FETCH - 1) / FETCH;
constexpr int WORDS = (AT_ONCE * BITS + 31) / 32;
constexpr int READ = (4 * ((FETCH * 8 - 1 + (RUN - AT_ONCE) * BITS) / 32 + WORDS + 1) + FETCH - 1) / FETCH;
constexpr int LONG = CHUNKS > READ ? CHUNKS : READ;
constexpr bool SWIZZLED = LONG == 2 || LONG == 4 || LONG == 8;
constexpr int RAW = (SWIZZLED ? LONG : LONG | 1) * FETCH;
constexpr int RAW_BYTES = RADIX * 2 * PAIRS * RAW;
static_assert(ENGINE_LEGS == 0 || RAW == CHUNKS * FETCH, "rows of a box follow one another");
DEVICE constexpr uint32_t swizzle(uint32_t pair) {
    return SWIZZLED ? pair / (8 / LONG) % LONG : 0;
}  // of a piece's number, by xor
// Of a column, pair p lies beside pair p + 32, since a thread has rows g and g + 8; some pairs are there twice.
constexpr int BESIDE = PAIRS - 32;
constexpr int X_PAIRS = DIRECT ? PAIRS : 2 * BESIDE;
constexpr int X_WORDS = RADIX * RUN * X_PAIRS * (DIRECT ? 2 : 1);
constexpr int W_WORDS = KEPT_LEGS * RUN * (DIRECT ? TAPS : ENTRIES * 2);  // of the first legs
constexpr int TURNS_WORDS = STRIP * RADIX * 2;
constexpr int ACCOUNT_BYTES = 3 * 32 + 2 * GROUP + 32;  // a multiple of 128
static_assert(RAW_BYTES + 4 * X_WORDS + ACCOUNT_BYTES + 4 * (W_WORDS + TURNS_WORDS) == SHARED,
              "the host's plan and the kernel differ");
static_assert(RUN % 8 == 0 && POINTS % STRIP == 0);

template <bool CHOICE, class A, class B>
struct Conditional {
    using type = A;
};
template <class A, class B>
struct Conditional<false, A, B> {
    using type = B;
};
using Power = typename Conditional<BITS == 32, double, unsigned long long>::type;

// Sum over a warp, then one atomic addition.
DEVICE void add_power(Power sum, Power* to) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0 && sum != 0) atomicAdd(to, sum);
}

KERNEL(THREADS, 1)
filter(const void* __restrict__ samples,        // uint8 [stream][stride]; or const uint8* [stream][packets]
       const void* __restrict__ map,            // of samples: [stream][RADIX legs][2 rows][pairs of rows][bytes]
       const uint32_t* __restrict__ weights,    // [RADIX][2 POINTS][ENTRIES][2] pairs of halves: high, low;
                                                // DIRECT: float [RADIX][2 POINTS][TAPS]
       const float2* __restrict__ radix_turns,  // [POINTS][RADIX] W_n^(point·k1)
       const uint8_t* __restrict__ segment,     // [stream·groups][128] segment of each spectrum
       const Pass* __restrict__ passes,         // [1 + count]
       const uint8_t* __restrict__ conjugated,  // [stream], for complex samples
       float2* __restrict__ y,                  // [stream·slab·128/TILE][RADIX][POINTS][TILE]
       Power* __restrict__ counters,            // [stream][2]: second, sum of squares of samples
       int64_t stride, int64_t bytes) {         // of a stream: distance (in packets with POINTERS) and size
    SHARED_BYTES(shared);
    const int tid = threadIdx.x;
    uint8_t* raw = shared;                                       // [2: even, odd block][RADIX][PAIRS][RAW]
    uint32_t* x = reinterpret_cast<uint32_t*>(raw + RAW_BYTES);  // [RADIX][RUN][BESIDE][2] pairs of halves
    Pass* ahead = reinterpret_cast<Pass*>(x + X_WORDS);          // [3] the pass under way and the next two, by turns
    uint8_t* segments = reinterpret_cast<uint8_t*>(ahead + 3);   // [2][128] segments of their spectra
    uint32_t* kept =
        reinterpret_cast<uint32_t*>(segments + 2 * GROUP + 32);  // [RADIX][RUN][ENTRIES][2], as in `weights`
    float2* turns = reinterpret_cast<float2*>(kept + W_WORDS);   // [STRIP][RADIX]
    constexpr int ENTRY_WORDS = DIRECT ? TAPS : 2 * ENTRIES;
    const uint32_t* other_weights = weights;  // of the strip; those of leg r, 2 POINTS columns further on
    // Weights of leg r from `column` of the strip on: of the first KEPT_LEGS in shared memory, of the others in the
    // caches.
    auto weights_of = [&](int r, int column) {
        return r < KEPT_LEGS ? kept + (r * RUN + column) * ENTRY_WORDS
                             : other_weights + (r * (2 * POINTS) + column) * ENTRY_WORDS;
    };

    // Neighbouring blocks work on neighbouring strips of the same groups at the same time, so that what they fetch from
    // the same lines is read from memory once.
    const int count = passes[0].count, blocks = gridDim.x, block = blockIdx.x;
    const int lanes = min(STRIPS, blocks), parts = blocks / lanes, part = block / lanes;
    const int begin = int(int64_t(count) * part / parts), end = int(int64_t(count) * (part + 1) / parts);
    uint64_t* arrival = reinterpret_cast<uint64_t*>(segments + 2 * GROUP);
    int* bounds = reinterpret_cast<int*>(arrival + 2);  // first and last pass, strips at a time: kept out of registers
    if (tid == 0) {
        bounds[0] = begin;
        bounds[1] = end;
        bounds[2] = lanes;
    }
    if (ENGINE_LEGS && tid == 0) {
        map_acquire(map);
        boxes_init(arrival);
    }
    bool flying = false;  // whether the copy engine is at work
    uint32_t parity = 0;
    // A thread fetches a piece of FETCH bytes of every ROWS'th row.
    constexpr int SLOTS = CHUNKS <= 2    ? 2
                          : CHUNKS <= 4  ? 4
                          : CHUNKS <= 8  ? 8
                          : CHUNKS <= 16 ? 16
                                         : 32,
                  ROWS = THREADS / SLOTS;
    static_assert(CHUNKS <= SLOTS && ROWS % 2 == 0 && (!SWIZZLED || ROWS / 2 % 8 == 0),
                  "a thread's rows must all be even or all odd, and have the same swizzle");
    // The usual case is spread over the work on the group before: legs begin at the same place within FETCH bytes, and
    // all is in one buffer. Null if this piece is not needed.
    const uint8_t* coming = nullptr;
    uint8_t* landing = nullptr;
    auto fetch_leg = [&](int r, bool now) {
        if (r >= ENGINE_LEGS) copy_async_if<FETCH>(now && coming, landing + r * (PAIRS * RAW), coming + r * LEG_BYTES);
    };
    // Begin to fetch what a pass needs: in the usual case only the rows that fetch_leg leaves.
    auto fetch = [&](const Pass& c, int strip, uint8_t* segment_to) {
        if (tid < GROUP / 16)
            copy_async<16>(segment_to + 16 * tid, segment + int64_t(c.group) * GROUP + 16 * tid, true);
        const int64_t bit = (c.start + strip * RUN) * BITS;
        const uint32_t thread = tid, slot = thread % SLOTS, top = thread / SLOTS;
        coming = nullptr;
        landing = raw + (top & 1) * (RAW_BYTES / 2) + top / 2 * RAW + (slot ^ swizzle(top / 2)) * FETCH;
        if constexpr (!POINTERS && LEG_BYTES % FETCH == 0) {
            const int64_t at = (bit >> 3) & ~int64_t(FETCH - 1);
            const bool wanted = slot * FETCH * 8 < int(bit & (FETCH * 8 - 1)) + RUN * BITS;
            const uint8_t* from =
                static_cast<const uint8_t*>(samples) + c.stream * stride + at + slot * FETCH + top * ROW_BYTES;
            if (at >= 0 && at + CHUNKS * FETCH + int64_t(2 * PAIRS) * ROW_BYTES <= bytes) {
                if constexpr (ENGINE_LEGS > 0) {
                    flying = true;
                    if (tid == 0) {
                        const int row = int(uint64_t(at) / ROW_BYTES), byte = int(at - int64_t(row) * ROW_BYTES);
                        fetch_boxes(
                            {raw, raw + RAW_BYTES / 2}, map,
                            {{byte, row / 2, row % 2, 0, c.stream}, {byte, (row + 1) / 2, (row + 1) % 2, 0, c.stream}},
                            ENGINE_LEGS * PAIRS * RAW, arrival);
                    }
                }
                if (top < BLOCKS && wanted) coming = from;
#pragma unroll 1
                for (uint32_t row = top + ROWS; row < BLOCKS; row += ROWS)
#pragma unroll
                    for (int r = ENGINE_LEGS; r < RADIX; ++r)
                        copy_async_if<FETCH>(wanted, landing + r * (PAIRS * RAW) + (row - top) / 2 * RAW,
                                             from + r * LEG_BYTES + (row - top) * ROW_BYTES);
                return;
            }
            if (at >= 0) {  // the end of the samples: rows of which all legs are there, for no window needs others
                const int64_t room = stride - at - slot * FETCH - (RADIX - 1) * LEG_BYTES - FETCH;
                const uint32_t end = room < 0 ? 0 : min(int64_t(BLOCKS), room / ROW_BYTES + 1);
                for (uint32_t row = top; row < end; row += ROWS)
#pragma unroll
                    for (int r = 0; r < RADIX; ++r)
                        copy_async_if<FETCH>(wanted, landing + r * (PAIRS * RAW) + (row - top) / 2 * RAW,
                                             from + r * LEG_BYTES + (row - top) * ROW_BYTES);
                return;
            }
        }
        uint8_t* to = landing;
#pragma unroll 1
        for (uint32_t row = top; row < BLOCKS; row += ROWS, to += ROWS / 2 * RAW) {
            const int64_t first = bit + int64_t(row) * COLUMNS * BITS;
            if constexpr (POINTERS && LEG_BYTES % FETCH == 0 && LEG_BYTES <= PACKET_BYTES) {
                // Legs lie in packets that follow one another; all begin at the same place within FETCH bytes.
                if (slot * FETCH * 8 >= int(bit & (FETCH * 8 - 1)) + RUN * BITS) return;
                const int64_t at = ((first >> 3) & ~int64_t(FETCH - 1)) + slot * FETCH;
                if (at >= 0) {
                    const uint8_t* const* table = static_cast<const uint8_t* const*>(samples) + c.stream * stride;
                    const uint32_t packets = uint32_t(bytes / PACKET_BYTES);
                    uint32_t packet = at < bytes ? uint32_t(at) / PACKET_BYTES : packets,
                             place = uint32_t(at) - packet * PACKET_BYTES;
                    const uint8_t* payload = packet < packets ? table[packet] : nullptr;
#pragma unroll
                    for (int r = 0; r < RADIX; ++r) {
                        copy_async<FETCH>(to + r * (PAIRS * RAW), payload ? payload + place : nullptr,
                                          payload != nullptr);
                        place += LEG_BYTES;
                        if (place >= PACKET_BYTES) {
                            place -= PACKET_BYTES;
                            payload = ++packet < packets ? table[packet] : nullptr;
                        }
                    }
                    continue;
                }
            }
#pragma unroll
            for (int r = 0; r < RADIX; ++r) {
                const int64_t begin = first + r * 2 * POINTS * BITS;
                const int64_t at = ((begin >> 3) & ~int64_t(FETCH - 1)) + slot * FETCH;
                if (at * 8 >= begin + RUN * BITS) continue;
                bool wanted = at >= 0 && at < bytes;
                const uint8_t* from = static_cast<const uint8_t*>(samples);
                if constexpr (POINTERS) {
                    const uint32_t packet = wanted ? uint32_t(at) / PACKET_BYTES : 0;
                    from = static_cast<const uint8_t* const*>(samples)[c.stream * stride + packet];
                    wanted = wanted && from != nullptr;
                    if (wanted) from += uint32_t(at) - packet * PACKET_BYTES;
                } else if (wanted) {
                    from += c.stream * stride + at;
                }
                copy_async<FETCH>(to + r * (PAIRS * RAW), from, wanted);
            }
        }
    };

    auto unpack = [&](const Pass& c, int strip, const uint8_t* segment_of) {
        const int64_t start = c.start + strip * RUN;  // modulo 2^32 will do
        Power squares = 0;
#pragma unroll 1
        for (uint32_t i = tid; i < RADIX * (RUN / AT_ONCE) * 2 * BESIDE; i += THREADS) {
            // Eight pairs and the eight 32 further on go to all banks. Runs outermost: all threads of a warp then begin
            // at the same word.
            const uint32_t second = i / 8 % 2, beside = i / 16 % (BESIDE / 8) * 8 + i % 8, pair = beside + 32 * second;
            const uint32_t rest = i / (2 * BESIDE), r = rest % RADIX, run = rest / RADIX;
            const uint32_t offset = (uint32_t(start) + r * 2 * POINTS) * BITS % (FETCH * 8) + run * AT_ONCE * BITS;
            const uint8_t *even = raw + (r * PAIRS + pair) * RAW, *odd = even + RAW_BYTES / 2;
            uint32_t a[WORDS + 1], b[WORDS + 1];  // bytes as they lie, from that in which the run begins
            const uint32_t selector = 0x3210 + 0x1111 * (offset / 8 % 4);
            if constexpr (WORDS < 8) {
                // Sixteen bytes at a time, as they lie.
                auto read = [&](auto first) {
                    constexpr int W = decltype(first)::value;
                    uint32_t line[2][(W + WORDS) / 4 * 4 + 4];
#pragma unroll
                    for (int k = 0; k <= (W + WORDS) / 4; ++k) {
                        const uint32_t piece = (offset / 128 + k) ^ swizzle(pair);
                        *reinterpret_cast<uint4*>(line[0] + 4 * k) = reinterpret_cast<const uint4*>(even)[piece];
                        *reinterpret_cast<uint4*>(line[1] + 4 * k) = reinterpret_cast<const uint4*>(odd)[piece];
                    }
#pragma unroll
                    for (int k = 0; k <= WORDS; ++k) {  // of the last, one byte is wanted
                        a[k] = __byte_perm(line[0][W + k], k < WORDS ? line[0][W + k + 1] : 0, selector);
                        b[k] = __byte_perm(line[1][W + k], k < WORDS ? line[1][W + k + 1] : 0, selector);
                    }
                };
                switch (offset / 32 % 4) {
                    case 0:
                        read(Constant<0>());
                        break;
                    case 1:
                        read(Constant<1>());
                        break;
                    case 2:
                        read(Constant<2>());
                        break;
                    default:
                        read(Constant<3>());
                        break;
                }
            } else {
                auto word = [&](const uint8_t* row, int k) {
                    return reinterpret_cast<const uint32_t*>(row)[(offset / 32 + k) ^ swizzle(pair) * 4];
                };
#pragma unroll
                for (int k = 0; k <= WORDS; ++k) {
                    a[k] = __byte_perm(word(even, k), k < WORDS ? word(even, k + 1) : 0, selector);
                    b[k] = __byte_perm(word(odd, k), k < WORDS ? word(odd, k + 1) : 0, selector);
                }
            }
            const uint32_t column = r * RUN + run * AT_ONCE;
            if constexpr (DIRECT) {
#pragma unroll
                for (int j = 0; j < AT_ONCE; ++j)
                    *reinterpret_cast<float2*>(x + ((column + j) * PAIRS + pair) * 2) =
                        make_float2(float(sample_of(a, j, offset % 8)), float(sample_of(b, j, offset % 8)));
            } else {
                unpack_run<AT_ONCE, X_PAIRS>(x + (column * BESIDE + beside) * 2 + second, a, b, offset % 8);
            }
            if constexpr (BITS > 10) {
                const bool inside = beside < 32;  // those that are there twice count once
                const uint8_t* mine = segment_of + 2 * pair;
                const bool even_counts = inside && mine[0] == c.segment, odd_counts = inside && mine[1] == c.segment;
#pragma unroll
                for (int j = 0; j < AT_ONCE; ++j) {
                    const Power v0 = even_counts ? Power(sample_of(a, j, offset % 8)) : 0,
                                v1 = odd_counts ? Power(sample_of(b, j, offset % 8)) : 0;
                    squares += v0 * v0 + v1 * v1;  // modulo 2^64 also of negative numbers
                }
            }
        }
        if constexpr (BITS > 10) add_power(squares, counters + c.stream * 2 + 1);
    };

    auto load_weights = [&](int strip) {
        const uint32_t* from = weights + int64_t(strip) * (RUN * ENTRY_WORDS);
        int thread = tid;
        anchor(thread);  // or else addresses would be kept through all passes
        other_weights = from;
        if constexpr (KEPT_LEGS > 0) {
            constexpr int OF_LEG = RUN * ENTRY_WORDS;
            for (int i = thread; i < KEPT_LEGS * OF_LEG / 4; i += THREADS) {
                const int r = i / (OF_LEG / 4), k = i % (OF_LEG / 4);
                reinterpret_cast<uint4*>(kept)[i] =
                    reinterpret_cast<const uint4*>(from + int64_t(r) * (2 * POINTS * ENTRY_WORDS))[k];
            }
        }
        for (int i = thread; i < TURNS_WORDS / 2; i += THREADS) turns[i] = radix_turns[strip * (TURNS_WORDS / 2) + i];
    };

    // What this thread's spectra 8 g + 2 q, + 1, + 64, + 65 have of the segment: all (WHOLE), or what `wanted` says.
    auto filter_and_store = [&](auto whole, const Pass& c, int strip, const bool (&wanted)[4]) {
        constexpr bool WHOLE = decltype(whole)::value;
        const uint32_t masks[2] = {(wanted[0] ? 0xffffu : 0) | (wanted[1] ? 0xffff0000u : 0),
                                   (wanted[2] ? 0xffffu : 0) | (wanted[3] ? 0xffff0000u : 0)};
        uint32_t squares = 0;
        const int warp = tid / 32, lane = tid % 32, g = lane / 4, q = lane % 4;
        // Spectrum s of the group goes to tile s / TILE, place s % TILE.
        const int s = 8 * g + 2 * q;
        float2* to =
            y + ((int64_t(c.slot) * (GROUP / TILE) + s / TILE) * CHANNELS + strip * STRIP + warp) * TILE + s % TILE;
#pragma unroll 1
        for (int point = warp; point < STRIP; point += WARPS, to += WARPS * TILE) {
            float part[RADIX][2][4];
            float sums[2][4];
            const uint2* mine =
                reinterpret_cast<const uint2*>(x) + 2 * point * BESIDE + 4 * g + q;  // of pairs of this thread's rows
#pragma unroll
            for (int r = 0; r < RADIX; ++r) {
                if (r % 2 == 0) {  // two at a time: each time costs instructions
                    fetch_leg(r, point == warp);
                    fetch_leg(r + 1, point == warp);
                }
#pragma unroll
                for (int p = 0; p < 2; ++p) {
                    float (&d)[4] = part[r][p];
                    if constexpr (DIRECT) {
                        const float* weight = reinterpret_cast<const float*>(weights_of(r, 2 * point + p));
                        const float* here =
                            reinterpret_cast<const float*>(x) + (r * RUN + 2 * point + p) * (2 * PAIRS) + 8 * g + 2 * q;
#pragma unroll
                        for (int e = 0; e < 4; ++e) d[e] = 0;
#pragma unroll
                        for (int k = 0; k < TAPS; ++k)
#pragma unroll
                            for (int e = 0; e < 4; ++e) d[e] = fmaf(weight[k], here[k + e % 2 + e / 2 * 64], d[e]);
                    } else {
                        uint2 v[KUNITS];  // pairs of blocks 8 (g + h) + 2 q and of those 64 further on
#pragma unroll
                        for (int h = 0; h < KUNITS; ++h) v[h] = mine[(r * RUN + p) * BESIDE + 4 * h];
                        const uint2* mine_weights =
                            reinterpret_cast<const uint2*>(weights_of(r, 2 * point)) + 2 * q - g + 7;
                        uint2 b[KUNITS];
#pragma unroll
                        for (int h = 0; h < KUNITS; ++h) b[h] = mine_weights[p * ENTRIES + 8 * h];
                        // The small halves of the weights first. Matrices 8 deep, because those 16 deep need weights
                        // and samples in successive registers, and moving them there costs more than it saves.
#pragma unroll
                        for (int level = 1; level >= 0; --level)
#pragma unroll
                            for (int h = 0; h < KUNITS; ++h) {
                                const uint32_t weight = level ? b[h].y : b[h].x;
                                if (level == 1 && h == 0)
                                    mma_16x8x8_f16_first(d, v[h].x, v[h].y, weight);
                                else
                                    mma_16x8x8_f16(d, v[h].x, v[h].y, weight);
                            }
                        if constexpr (BITS <= 10) {
                            // A row of samples times its own transpose: the diagonal is the sum of 8 squares. Eight
                            // columns of them stay below 2^24, where single precision is exact.
                            const uint32_t b0 = WHOLE ? v[0].x : v[0].x & masks[0],
                                           b1 = WHOLE ? v[0].y : v[0].y & masks[1];
                            const int place = (2 * r + p) % 8;
                            if (place == 0) {
                                mma_16x8x8_f16_first(sums[0], v[0].x, v[0].y, b0);
                                mma_16x8x8_f16_first(sums[1], v[0].x, v[0].y, b1);
                            } else {
                                mma_16x8x8_f16(sums[0], v[0].x, v[0].y, b0);
                                mma_16x8x8_f16(sums[1], v[0].x, v[0].y, b1);
                            }
                            if (place == 7)
                                squares += uint32_t(g & 1 ? sums[0][1] : sums[0][0]) +
                                           uint32_t(g & 1 ? sums[1][3] : sums[1][2]);
                        }
                    }
                }
            }
            const bool flip = COMPLEX && conjugated[c.stream];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                float2 z[RADIX];
#pragma unroll
                for (int r = 0; r < RADIX; ++r)
                    z[r] = make_float2(part[r][0][e], flip ? -part[r][1][e] : part[r][1][e]);
                dft(z);
#pragma unroll
                for (int r = 0; r < RADIX; ++r) {
                    if (r > 0) z[r] = z[r] * turns[point * RADIX + r];
                    part[r][0][e] = z[r].x;
                    part[r][1][e] = z[r].y;
                }
            }
#pragma unroll
            for (int r = 0; r < RADIX; ++r)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const float *re = part[r][0] + 2 * half, *im = part[r][1] + 2 * half;
                    float2* at = to + half * (64 * CHANNELS) + r * (POINTS * TILE);
                    if constexpr (WHOLE) {
                        *reinterpret_cast<float4*>(at) = make_float4(re[0], im[0], re[1], im[1]);
                    } else {
                        if (wanted[2 * half]) at[0] = make_float2(re[0], im[0]);
                        if (wanted[2 * half + 1]) at[1] = make_float2(re[1], im[1]);
                    }
                }
        }
        if constexpr (BITS <= 10) {
            static_assert(BITS > 10 ||
                          (STRIP + WARPS - 1) / WARPS * 2 * RADIX * 128.0 * (1ll << (2 * BITS - 2)) < 4294967296.0);
            const uint32_t sum = __reduce_add_sync(~0u, q == g / 2 ? squares : 0);  // where the diagonal lies
            if (lane == 0) atomicAdd(counters + c.stream * 2 + 1, Power(sum));
        }
    };
    auto work_on = [&](const Pass& c, int strip, const uint8_t* segment_of) {
        const int lane = tid % 32;
        const uint8_t* mine = segment_of + lane / 4 * 8 + lane % 4 * 2;
        const uint32_t low = *reinterpret_cast<const uint16_t*>(mine),
                       high = *reinterpret_cast<const uint16_t*>(mine + 64);
        const uint32_t which = uint32_t(c.segment);
        const bool wanted[4] = {(low & 255) == which, low >> 8 == which, (high & 255) == which, high >> 8 == which};
        if (__all_sync(~0u, wanted[0] && wanted[1] && wanted[2] && wanted[3]))
            filter_and_store(Constant<true>(), c, strip, wanted);
        else
            filter_and_store(Constant<false>(), c, strip, wanted);
    };

    __syncthreads();
#pragma unroll 1
    for (int strip = int(blockIdx.x) % bounds[2]; strip < STRIPS; strip += bounds[2]) {
        __syncthreads();  // nobody reads the weights of the strip before
        load_weights(strip);
        const int passes_here = bounds[1] - bounds[0];
        if (tid < 2 && tid < passes_here) ahead[tid] = passes[1 + bounds[0] + tid];
        __syncthreads();
        coming = nullptr;
        if (passes_here > 0) fetch(ahead[0], strip, segments);
#pragma unroll
        for (int r = 0; r < RADIX; ++r) fetch_leg(r, true);
        copy_async_commit();
#pragma unroll 1
        for (int k = 0; k < bounds[1] - bounds[0]; ++k) {
            copy_async_wait<0>();
            if (flying) {
                boxes_wait(arrival, parity);
                parity ^= 1;
                flying = false;
            }
            __syncthreads();  // samples are here, and the next pass is known; nobody reads x any more
            unpack(ahead[k % 3], strip, segments + k % 2 * GROUP);
            __syncthreads();  // x is complete; nobody reads raw any more
            coming = nullptr;
            const int first = bounds[0], last = bounds[1];
            if (first + k + 1 < last) fetch(ahead[(k + 1) % 3], strip, segments + (k + 1) % 2 * GROUP);
            if (tid < 2 && first + k + 2 < last)
                copy_async<16>(reinterpret_cast<uint8_t*>(ahead + (k + 2) % 3) + 16 * tid,
                               reinterpret_cast<const uint8_t*>(passes + 1 + first + k + 2) + 16 * tid, true);
            work_on(ahead[k % 3], strip, segments + k % 2 * GROUP);
            copy_async_commit();
        }
    }
}
