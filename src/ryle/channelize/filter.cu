// First half of the channelizer: fetch and unpack samples, filter them (FIR) on the matrix units, first radix of the Fourier
// transform, turns between the radices.
//
// A step of 2n values is a row of the matrix x[block][column]; spectrum s is the transform of
// y[column] = Σ_k w[k][column] x[s + k][column]. For one column, 128 spectra are the product of a Hankel matrix of samples
// (16 rows: groups of 8 spectra) with a banded Toeplitz matrix of weights (8 columns: the spectra of a group). Samples of up
// to 12 bits are exact in half precision, a weight is the sum of two halves (22 bits), products are summed in single
// precision. The matrix units leave the same four spectra of every column in one thread, so that it can go on to transform
// over RADIX columns that are n/RADIX complex points apart, and spectra lie in lanes, so that what it stores is contiguous.
//
// Wider samples (DIRECT) are filtered in single precision without the matrix units, by the same threads to the same places.
//
// A block keeps a strip of STRIP complex points (times RADIX) and its weights, and marches over groups of 128 spectra: samples
// of the next group are fetched while this one is filtered.
#include "butterflies.cuh"
#include "passes.cuh"
#include "ryle/gpu/device.cuh"

using namespace ryle;

#ifndef POINTERS
#define POINTERS 0 // whether samples lie where a table of packet payloads points to, not in one buffer
#define PACKET_BYTES 1
#endif
constexpr int GROUP = 128;
constexpr int COLUMNS = 2 * CHANNELS;         // values of a step
constexpr int POINTS = CHANNELS / RADIX;      // complex points after the first radix
constexpr int STRIPS = POINTS / STRIP;
constexpr int RUN = 2 * STRIP;                // values of a strip that follow one another
constexpr int KUNITS = (TAPS + 7 + 7) / 8;    // eighths of the matrices' inner dimension: 8 spectra read TAPS + 7 blocks
constexpr int UNITS = (16 + KUNITS) / 2 * 2;  // groups of 8 blocks that are unpacked, made even
constexpr int BLOCKS = GROUP + TAPS - 1;      // blocks that are read
constexpr int PAIRS = UNITS * 4;              // pairs of blocks
constexpr int ENTRIES = 8 * KUNITS + 6;       // pairs of weights of a column
constexpr bool DIRECT = BITS == 16 || BITS == 32;
constexpr int TEAM = THREADS / TEAMS; // threads of a team, which works on passes of its own with the weights of all
constexpr int WARPS = TEAM / 32;

// A fetched run of RUN values begins anywhere within its first FETCH bytes, and is read in words, 16 values and one word at
// a time. Rows an odd multiple of FETCH bytes apart have few bank conflicts.
constexpr int CHUNKS = (FETCH - 1 + (7 + RUN * BITS + 7) / 8 + FETCH - 1) / FETCH;
constexpr int WORDS = (16 * BITS + 31) / 32;
constexpr int READ = (4 * ((FETCH * 8 - 1 + (RUN - 16) * BITS) / 32 + WORDS + 1) + FETCH - 1) / FETCH * FETCH;
constexpr int UNIT = FETCH > 8 ? FETCH : 8;
constexpr int RAW = ((CHUNKS * FETCH > READ ? CHUNKS * FETCH : READ) + UNIT - 1) / UNIT * UNIT | UNIT;
constexpr int RAW_BYTES = RADIX * 2 * PAIRS * RAW;
constexpr int X_WORDS = RADIX * RUN * PAIRS * (DIRECT ? 2 : 1);
constexpr int W_WORDS = RADIX * RUN * (DIRECT ? TAPS : ENTRIES * 2);
constexpr int TURNS_WORDS = STRIP * RADIX * 2;
constexpr int ACCOUNT_WORDS = (3 * 32 + 2 * GROUP) / 4;
constexpr int TEAM_BYTES = RAW_BYTES + 4 * (X_WORDS + ACCOUNT_WORDS);
static_assert(TEAMS * TEAM_BYTES + 4 * ((WEIGHTS_SHARED ? W_WORDS : 0) + TURNS_WORDS) == SHARED, "the host's plan and the kernel differ");
static_assert(RUN % 16 == 0 && POINTS % STRIP == 0);

template <bool CHOICE, class A, class B> struct Conditional { using type = A; };
template <class A, class B> struct Conditional<false, A, B> { using type = B; };
using Power = typename Conditional<BITS == 32, double, unsigned long long>::type;

DEVICE constexpr uint32_t both(uint32_t half) { return half << 16 | half; }

// The value of BITS bits at bit J·BITS of two rows (words swapped so that bit 31 comes first), as two halves.
template <int J, int WORDS> DEVICE uint32_t extract(const uint32_t (&even)[WORDS], const uint32_t (&odd)[WORDS]) {
    constexpr int K = J * BITS / 32, O = J * BITS % 32;
    uint32_t window; // 16 bits of each row that hold the value
    int shift;
    if constexpr (O + BITS > 32) { // in the last byte of a word and the first of the next
        const uint32_t a = __byte_perm(even[K + 1], even[K], 0x0043), b = __byte_perm(odd[K + 1], odd[K], 0x0043);
        window = __byte_perm(a, b, 0x5410);
        shift = 16 - (O - 24) - BITS;
    } else {
        constexpr int B = O / 8 < 2 ? O / 8 : 2; // bytes B and B + 1 from the top
        constexpr int LOW = 2 - B, HIGH = 3 - B;
        window = __byte_perm(even[K], odd[K], LOW | HIGH << 4 | (LOW + 4) << 8 | (HIGH + 4) << 12);
        shift = 16 - (O - 8 * B) - BITS;
    }
    const uint32_t value = window >> shift;
    if constexpr (BITS == 1) return ((value << 15) & 0x80008000u) ^ both(0x3c00); // 0 is +1, 1 is -1
    constexpr uint32_t SIGN = 1u << (BITS - 1), MASK = (1u << BITS) - 1;
    if constexpr (BITS <= 10) // 1024 + v in half precision is 0x6400 + v
        return half2_add((value & both(MASK)) ^ both(SIGN | 0x6400), half2_negative(both(0x6400 | SIGN)));
    // 12 bits: 4 (1024 + v >> 2) - 4 (1024 + 512) and v & 3 apart
    const uint32_t high = half2_add(((value >> 2) & both(MASK >> 2)) ^ both(SIGN >> 2 | 0x6400), half2_negative(both(0x6600)));
    const uint32_t low = half2_add((value & both(3)) | both(0x6400), half2_negative(both(0x6400)));
    return half2_fma(high, both(0x4400), low);
}

template <int J = 0, int SIZE>
DEVICE void unpack_run(uint32_t *to, const uint32_t (&even)[SIZE], const uint32_t (&odd)[SIZE]) {
    if constexpr (J < 16) {
        to[J * PAIRS] = extract<J>(even, odd);
        unpack_run<J + 1>(to, even, odd);
    }
}

// Value j of a run of 12, 16 or 32-bit samples, as an integer if it is one.
template <int SIZE> DEVICE auto sample_of(const uint32_t (&words)[SIZE], int j) {
    if constexpr (BITS == 32) {
        return __uint_as_float(words[j]);
    } else {
        const int k = j * BITS / 32, o = j * BITS % 32;
        const uint32_t top = o + BITS > 32 ? __funnelshift_l(words[k + 1], words[k], o) : words[k] << o;
        return int64_t(int(top) >> (32 - BITS));
    }
}

// Sum over a warp, then one atomic addition.
DEVICE void add_power(Power sum, Power *to) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0 && sum != 0) atomicAdd(to, sum);
}

KERNEL(THREADS, BLOCKS_PER_SM)
filter(const void *__restrict__ samples,              // uint8 [stream][stride]; or const uint8* [stream][packets]
       const uint2 *__restrict__ weights,             // [strip][RADIX][RUN][ENTRIES] pairs of halves: (high, low);
                                                      // DIRECT: float [strip][RADIX][RUN][TAPS]
       const float2 *__restrict__ radix_turns,        // [strip][STRIP][RADIX] W_n^(point·k1)
       const uint8_t *__restrict__ segment,           // [stream·groups][128] segment of each spectrum
       const Pass *__restrict__ passes,               // [1 + count]
       const uint8_t *__restrict__ conjugated,        // [stream], for complex samples
       float2 *__restrict__ y,                        // [stream·slab·128/TILE][RADIX][POINTS][TILE]
       Power *__restrict__ counters,                  // [stream][2]: second, sum of squares of samples
       int64_t stride, int64_t bytes) {               // of a stream: distance (in packets with POINTERS) and size
    SHARED_BYTES(shared);
    const int team = threadIdx.x / TEAM, tid = threadIdx.x % TEAM, warp = tid / 32, lane = tid % 32, g = lane / 4, q = lane % 4;
    uint8_t *raw = shared + team * TEAM_BYTES;                          // [RADIX][2: even, odd block][PAIRS][RAW]
    uint32_t *x = reinterpret_cast<uint32_t *>(raw + RAW_BYTES);        // [RADIX][RUN][PAIRS] pairs of halves
    Pass *ahead = reinterpret_cast<Pass *>(x + X_WORDS);                // [3] the pass under way and the next two, by turns
    uint8_t *segments = reinterpret_cast<uint8_t *>(ahead + 3);         // [2][128] segments of their spectra
    uint32_t *kept = reinterpret_cast<uint32_t *>(shared + TEAMS * TEAM_BYTES); // weights, as in `weights`
    float2 *turns = reinterpret_cast<float2 *>(kept + (WEIGHTS_SHARED ? W_WORDS : 0)); // [STRIP][RADIX]
    const uint2 *strip_weights = weights;
    auto weight_pair = [&](int entry) { return WEIGHTS_SHARED ? reinterpret_cast<const uint2 *>(kept)[entry] : __ldg(strip_weights + entry); };

    // Neighbouring blocks work on neighbouring strips of the same groups at the same time, so that what they fetch from the same
    // lines is read from memory once.
    const int lanes = min(STRIPS, int(gridDim.x)), parts = gridDim.x / lanes, part = blockIdx.x / lanes;
    const int count = passes[0].count;
    const int begin = int(int64_t(count) * part / parts) + team, end = int(int64_t(count) * (part + 1) / parts);
    auto wait_for_team = [&] {
        if constexpr (TEAMS == 1)
            __syncthreads();
        else
            barrier(1 + team, TEAM);
    };

    auto fetch = [&](const Pass &c, int strip, uint8_t *segment_to) {
        if (tid < GROUP / 16) copy_async<16>(segment_to + 16 * tid, segment + int64_t(c.group) * GROUP + 16 * tid, true);
        const int64_t bit = (c.start + strip * RUN) * BITS;
        constexpr int SLOTS = CHUNKS <= 2 ? 2 : CHUNKS <= 4 ? 4 : (CHUNKS + 3) / 4 * 4;
        constexpr int ROW_BYTES = COLUMNS * BITS / 8, LEG_BYTES = 2 * POINTS * BITS / 8;
        const int slot = tid % SLOTS, top = tid / SLOTS;
        uint8_t *to = raw + (top & 1) * (PAIRS * RAW) + top / 2 * RAW + slot * FETCH;
        static_assert(TEAM / SLOTS % 2 == 0, "a thread's rows must all be even or all odd");
        if constexpr (LEG_BYTES % FETCH == 0) {
            // All runs begin at the same place within FETCH bytes.
            const int offset = int(bit & (FETCH * 8 - 1));
            if (slot * FETCH * 8 >= offset + RUN * BITS) return;
            const int64_t at = ((bit >> 3) & ~int64_t(FETCH - 1)) + slot * FETCH;
            const bool inside = at >= 0 && at + int64_t(BLOCKS) * ROW_BYTES <= bytes;
            if (!POINTERS && inside) {
                const uint8_t *from = static_cast<const uint8_t *>(samples) + c.stream * stride + at + top * ROW_BYTES;
#pragma unroll 1
                for (int row = top; row < BLOCKS; row += TEAM / SLOTS) {
#pragma unroll
                    for (int r = 0; r < RADIX; ++r)
                        copy_async<FETCH>(to + r * (2 * PAIRS * RAW), from + r * LEG_BYTES, true);
                    to += TEAM / SLOTS / 2 * RAW;
                    from += TEAM / SLOTS * ROW_BYTES;
                }
                return;
            }
        }
#pragma unroll 1
        for (int row = top; row < BLOCKS; row += TEAM / SLOTS, to += TEAM / SLOTS / 2 * RAW) {
#pragma unroll
            for (int r = 0; r < RADIX; ++r) {
                const int64_t first = bit + (int64_t(row) * COLUMNS + r * 2 * POINTS) * BITS;
                const int64_t at = ((first >> 3) & ~int64_t(FETCH - 1)) + slot * FETCH;
                if (at * 8 >= first + RUN * BITS) continue;
                bool wanted = at >= 0 && at < bytes;
                const uint8_t *from = static_cast<const uint8_t *>(samples);
                if constexpr (POINTERS) {
                    const uint32_t packet = wanted ? uint32_t(at) / PACKET_BYTES : 0;
                    from = static_cast<const uint8_t *const *>(samples)[c.stream * stride + packet];
                    wanted = wanted && from != nullptr;
                    if (wanted) from += uint32_t(at) - packet * PACKET_BYTES;
                } else if (wanted) {
                    from += c.stream * stride + at;
                }
                copy_async<FETCH>(to + r * (2 * PAIRS * RAW), from, wanted);
            }
        }
    };

    auto unpack = [&](const Pass &c, int strip, const uint8_t *segment_of) {
        const int64_t start = c.start + strip * RUN;
        Power squares = 0;
#pragma unroll 1
        for (int i = tid; i < RADIX * (RUN / 16) * PAIRS; i += TEAM) {
            // Runs outermost: all threads of a warp then begin at the same word.
            const int pair = i % PAIRS, rest = i / PAIRS, r = rest % RADIX, run = rest / RADIX;
            const int offset = int((start + r * 2 * POINTS) * BITS & (FETCH * 8 - 1)) + run * 16 * BITS;
            const uint8_t *even = raw + (r * 2 * PAIRS + pair) * RAW, *odd = even + PAIRS * RAW;
            uint32_t a[WORDS + 1], b[WORDS + 1]; // from the word in which the run begins
            if constexpr (FETCH == 16 && WORDS < 8) {
                // Sixteen bytes at a time, as they lie.
                auto read = [&](auto first) {
                    constexpr int W = decltype(first)::value;
                    uint32_t line[2][(W + WORDS) / 4 * 4 + 4];
#pragma unroll
                    for (int k = 0; k <= (W + WORDS) / 4; ++k) {
                        *reinterpret_cast<uint4 *>(line[0] + 4 * k) = reinterpret_cast<const uint4 *>(even + offset / 128 * 16)[k];
                        *reinterpret_cast<uint4 *>(line[1] + 4 * k) = reinterpret_cast<const uint4 *>(odd + offset / 128 * 16)[k];
                    }
#pragma unroll
                    for (int k = 0; k <= WORDS; ++k) {
                        a[k] = __byte_perm(line[0][W + k], 0, 0x0123);
                        b[k] = __byte_perm(line[1][W + k], 0, 0x0123);
                    }
                };
                switch (offset / 32 % 4) {
                case 0: read(Constant<0>()); break;
                case 1: read(Constant<1>()); break;
                case 2: read(Constant<2>()); break;
                default: read(Constant<3>()); break;
                }
            } else {
#pragma unroll
                for (int k = 0; k <= WORDS; ++k) {
                    a[k] = __byte_perm(reinterpret_cast<const uint32_t *>(even)[offset / 32 + k], 0, 0x0123);
                    b[k] = __byte_perm(reinterpret_cast<const uint32_t *>(odd)[offset / 32 + k], 0, 0x0123);
                }
            }
#pragma unroll
            for (int k = 0; k < WORDS; ++k) {
                a[k] = __funnelshift_l(a[k + 1], a[k], offset);
                b[k] = __funnelshift_l(b[k + 1], b[k], offset);
            }
            const int column = r * RUN + run * 16;
            if constexpr (DIRECT) {
#pragma unroll
                for (int j = 0; j < 16; ++j)
                    *reinterpret_cast<float2 *>(x + ((column + j) * PAIRS + pair) * 2) =
                        make_float2(float(sample_of(a, j)), float(sample_of(b, j)));
            } else {
                // Pair 4 u + q lies beside pair 4 (u + 1) + q for even u: a thread reads both at once.
                const int u = pair / 4;
                unpack_run(x + column * PAIRS + ((u / 2 * 4) + pair % 4) * 2 + u % 2, a, b);
            }
            if constexpr (BITS > 10) {
                const bool inside = pair < GROUP / 2;
                const uint8_t *mine = segment_of + 2 * pair;
                const bool first = inside && mine[0] == c.segment, second = inside && mine[1] == c.segment;
#pragma unroll
                for (int j = 0; j < 16; ++j) {
                    const Power v0 = first ? Power(sample_of(a, j)) : 0, v1 = second ? Power(sample_of(b, j)) : 0;
                    squares += v0 * v0 + v1 * v1; // modulo 2^64 also of negative numbers
                }
            }
        }
        if constexpr (BITS > 10) add_power(squares, counters + c.stream * 2 + 1);
    };

    auto load_weights = [&](int strip) {
        const uint2 *from = weights + int64_t(strip) * (W_WORDS / 2);
        if constexpr (WEIGHTS_SHARED)
            for (int i = threadIdx.x; i < W_WORDS / 2; i += THREADS) reinterpret_cast<uint2 *>(kept)[i] = from[i];
        else
            strip_weights = from;
        for (int i = threadIdx.x; i < TURNS_WORDS / 2; i += THREADS) turns[i] = radix_turns[strip * (TURNS_WORDS / 2) + i];
    };

    // What this thread's spectra 16 g + 2 q, + 1, + 8, + 9 have of the segment: all (WHOLE), or what `wanted` says.
    auto filter_and_store = [&](auto whole, const Pass &c, int strip, const bool (&wanted)[4]) {
        constexpr bool WHOLE = decltype(whole)::value;
        const uint32_t masks[2] = {(wanted[0] ? 0xffffu : 0) | (wanted[1] ? 0xffff0000u : 0),
                                   (wanted[2] ? 0xffffu : 0) | (wanted[3] ? 0xffff0000u : 0)};
        uint32_t squares = 0;
        // Spectrum s of the group goes to tile s / TILE, place s % TILE.
        const int64_t tile = int64_t(c.slot) * (GROUP / TILE);
        float2 *to[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int s = 16 * g + 8 * half + 2 * q;
            to[half] = y + ((tile + s / TILE) * CHANNELS + strip * STRIP + warp) * TILE + s % TILE;
        }
#pragma unroll 1
        for (int point = warp; point < STRIP; point += WARPS, to[0] += WARPS * TILE, to[1] += WARPS * TILE) {
            float part[RADIX][2][4];
            float sums[2][4];
#pragma unroll
            for (int r = 0; r < RADIX; ++r)
#pragma unroll
                for (int p = 0; p < 2; ++p) {
                    const int column = r * RUN + 2 * point + p;
                    float(&d)[4] = part[r][p];
                    if constexpr (DIRECT) {
                        const float *weight = (WEIGHTS_SHARED ? reinterpret_cast<const float *>(kept) : reinterpret_cast<const float *>(strip_weights)) + column * TAPS;
                        const float *here = reinterpret_cast<const float *>(x) + column * (2 * PAIRS) + 16 * g + 2 * q;
#pragma unroll
                        for (int e = 0; e < 4; ++e) d[e] = 0;
#pragma unroll
                        for (int k = 0; k < TAPS; ++k)
#pragma unroll
                            for (int e = 0; e < 4; ++e) d[e] = fmaf(weight[k], here[k + e % 2 + e / 2 * 8], d[e]);
                    } else {
                        uint32_t v[(KUNITS + 2) / 2 * 2]; // pairs of blocks 8 (2 g + i) + 2 q
#pragma unroll
                        for (int i = 0; i < KUNITS + 1; i += 2) {
                            const uint2 two = *reinterpret_cast<const uint2 *>(x + column * PAIRS + 2 * lane + 4 * i);
                            v[i] = two.x;
                            v[i + 1] = two.y;
                        }
                        uint2 b[KUNITS];
#pragma unroll
                        for (int h = 0; h < KUNITS; ++h) b[h] = weight_pair(column * ENTRIES + 2 * q - g + 7 + 8 * h);
                        // The small halves of the weights first. Matrices 8 deep, because those 16 deep need weights and samples
                        // in successive registers, and moving them there costs more than it saves.
#pragma unroll
                        for (int level = 1; level >= 0; --level)
#pragma unroll
                            for (int h = 0; h < KUNITS; ++h) {
                                const uint32_t weight = level ? b[h].y : b[h].x;
                                if (level == 1 && h == 0)
                                    mma_16x8x8_f16_first(d, v[h], v[h + 1], weight);
                                else
                                    mma_16x8x8_f16(d, v[h], v[h + 1], weight);
                            }
                        if constexpr (BITS <= 10) {
                            // A row of samples times its own transpose: the diagonal is the sum of 8 squares. Eight columns of
                            // them stay below 2^24, where single precision is exact.
                            const uint32_t b0 = WHOLE ? v[0] : v[0] & masks[0], b1 = WHOLE ? v[1] : v[1] & masks[1];
                            const int place = (2 * r + p) % 8;
                            if (place == 0) {
                                mma_16x8x8_f16_first(sums[0], v[0], v[1], b0);
                                mma_16x8x8_f16_first(sums[1], v[0], v[1], b1);
                            } else {
                                mma_16x8x8_f16(sums[0], v[0], v[1], b0);
                                mma_16x8x8_f16(sums[1], v[0], v[1], b1);
                            }
                            if (place == 7) squares += uint32_t(g & 1 ? sums[0][1] : sums[0][0]) + uint32_t(g & 1 ? sums[1][3] : sums[1][2]);
                        }
                    }
                }
            const bool flip = COMPLEX && conjugated[c.stream];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                float2 z[RADIX];
#pragma unroll
                for (int r = 0; r < RADIX; ++r) z[r] = make_float2(part[r][0][e], flip ? -part[r][1][e] : part[r][1][e]);
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
                    float2 *at = to[half] + r * (POINTS * TILE);
                    if constexpr (WHOLE) {
                        *reinterpret_cast<float4 *>(at) = make_float4(re[0], im[0], re[1], im[1]);
                    } else {
                        if (wanted[2 * half]) at[0] = make_float2(re[0], im[0]);
                        if (wanted[2 * half + 1]) at[1] = make_float2(re[1], im[1]);
                    }
                }
        }
        if constexpr (BITS <= 10) {
            static_assert(BITS > 10 || (STRIP + WARPS - 1) / WARPS * 2 * RADIX * 128.0 * (1ll << (2 * BITS - 2)) < 4294967296.0);
            const uint32_t sum = __reduce_add_sync(~0u, q == g / 2 ? squares : 0); // where the diagonal lies
            if (lane == 0) atomicAdd(counters + c.stream * 2 + 1, Power(sum));
        }
    };
    auto work_on = [&](const Pass &c, int strip, const uint8_t *segment_of) {
        const uint8_t *mine = segment_of + 16 * g + 2 * q;
        const uint32_t low = *reinterpret_cast<const uint16_t *>(mine), high = *reinterpret_cast<const uint16_t *>(mine + 8);
        const uint32_t which = uint32_t(c.segment);
        const bool wanted[4] = {(low & 255) == which, low >> 8 == which, (high & 255) == which, high >> 8 == which};
        if (__all_sync(~0u, wanted[0] && wanted[1] && wanted[2] && wanted[3]))
            filter_and_store(Constant<true>(), c, strip, wanted);
        else
            filter_and_store(Constant<false>(), c, strip, wanted);
    };

#pragma unroll 1
    for (int strip = blockIdx.x % lanes; strip < STRIPS; strip += lanes) {
        __syncthreads(); // nobody reads the weights of the strip before
        load_weights(strip);
        if (tid < 2 && begin + tid * TEAMS < end) ahead[tid] = passes[1 + begin + tid * TEAMS];
        __syncthreads();
        if (begin < end) fetch(ahead[0], strip, segments);
        copy_async_commit();
#pragma unroll 1
        for (int k = begin, here = 0, odd = 0; k < end; k += TEAMS, here = here == 2 ? 0 : here + 1, odd ^= 1) {
            const int next = here == 2 ? 0 : here + 1, third = here == 0 ? 2 : here - 1;
            copy_async_wait<0>();
            wait_for_team(); // samples are here, and the next pass is known; nobody reads x any more
            unpack(ahead[here], strip, segments + odd * GROUP);
            wait_for_team(); // x is complete; nobody reads raw any more
            if (k + TEAMS < end) fetch(ahead[next], strip, segments + (odd ^ 1) * GROUP);
            if (tid < 2 && k + 2 * TEAMS < end)
                copy_async<16>(reinterpret_cast<uint8_t *>(ahead + third) + 16 * tid,
                               reinterpret_cast<const uint8_t *>(passes + 1 + k + 2 * TEAMS) + 16 * tid, true);
            copy_async_commit();
            work_on(ahead[here], strip, segments + odd * GROUP);
        }
    }
}
