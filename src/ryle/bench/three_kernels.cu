// The F-engine as three kernels of which a library gives the middle one: the form that the fused one is compared with.
//
// `fir` unpacks and filters; the library then transforms pairs of real values as complex ones, in place; `post` makes
// the spectrum of the real samples of that, turns, scales, dithers, quantizes and transposes it. Defined at compile
// time: CHANNELS n (a power of two, at least 64), TAPS, BITS (2 to 16), COLUMNS of a thread of `fir`, INTERLEAVED (0 or
// 1: the order inside a row of a K-block), BLOCKS_FIRST (0 or 1: whether neighbouring thread blocks of `post` work on
// successive K-blocks of the same channels or on successive channels of the same K-block) and SPLIT (1 or 4: with 4 the
// library transforms every fourth pair at a time, four transforms of a quarter of the length, and `post` does the rest
// of the transform; libraries need fewer passes over memory for short transforms).
#include "ryle/gpu/device.cuh"

namespace {

constexpr int STEP = 2 * CHANNELS;  // samples from one spectrum to the next

template <int SIZE>
struct alignas(4 * SIZE) Floats {
    float v[SIZE];
};
struct alignas(8) Complex {
    float re, im;
};
DEVICE Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
DEVICE Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
DEVICE Complex operator*(Complex a, Complex b) {
    return {fmaf(a.re, b.re, -(a.im * b.im)), fmaf(a.re, b.im, a.im * b.re)};
}
DEVICE Complex turned_back(Complex a) { return {a.im, -a.re}; }  // by a quarter: times -i
// Turn of a spectrum: channel k by base · e^{i·slope·k}.
struct alignas(16) Turn {
    Complex base;
    float slope, unused;
};

DEVICE constexpr int smaller(int a, int b) { return a < b ? a : b; }

// ---- fir ----

constexpr int FIR_THREADS = smaller(128, STEP / COLUMNS);
constexpr int AHEAD = TAPS % 4 == 0 ? 4 : TAPS % 2 == 0 ? 2 : 1;  // frames that are fetched before they are needed
constexpr int FINEST = BITS & -BITS;                              // samples begin at multiples of this many bits
constexpr int WORDS = (32 - FINEST + COLUMNS * BITS + 31) / 32;   // that a thread's samples of one frame may touch
constexpr int FIR_REGISTERS = 2 * COLUMNS * TAPS + AHEAD * WORDS + 30;
constexpr int FIR_BLOCKS = smaller(12, 65536 / FIR_THREADS / ((FIR_REGISTERS + 7) / 8 * 8));

struct Raw {
    uint32_t words[WORDS];
};

DEVICE Raw fetch(const uint32_t* at) {
    Raw raw;
#pragma unroll
    for (int i = 0; i < WORDS; i++) raw.words[i] = at[i];
    return raw;
}

// The samples, big-endian two's complement, that begin `shift` bits after the first word does.
DEVICE void unpack(const Raw& raw, int shift, float (&samples)[COLUMNS]) {
    uint32_t swapped[WORDS + 1], aligned[WORDS + 1];
#pragma unroll
    for (int i = 0; i < WORDS; i++) swapped[i] = __byte_perm(raw.words[i], 0, 0x0123);
    swapped[WORDS] = 0;
#pragma unroll
    for (int i = 0; i < WORDS; i++) aligned[i] = __funnelshift_l(swapped[i + 1], swapped[i], shift);
    aligned[WORDS] = 0;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const int word = c * BITS / 32, bit = c * BITS % 32;
        const uint32_t top = __funnelshift_l(aligned[word + 1], aligned[word], bit);
        samples[c] = static_cast<float>(static_cast<int>(top) >> (32 - BITS));
    }
}

}  // namespace

// A thread filters COLUMNS neighbouring columns of `per_thread` successive spectra, its window of TAPS frames in
// registers.
//
// samples: packed, a row of `stream_bytes` (a multiple of 4) for each stream, readable for 16 bytes after the last
// sample used; starts[stream]: sample at which the stream's spectrum 0 begins; weights[TAPS][STEP];
// out[stream][spectrum][STEP] (with SPLIT every fourth pair in each quarter of a row) of the streams from
// `first_stream` (grid z) and the `spectra` spectra from `first_spectrum` (grid y).
KERNEL(FIR_THREADS, FIR_BLOCKS)
fir(const uint8_t* __restrict__ samples, int64_t stream_bytes, const int64_t* __restrict__ starts,
    const float* __restrict__ weights, float* __restrict__ out, int first_stream, int first_spectrum, int spectra,
    int per_thread) {
    const int column = (blockIdx.x * FIR_THREADS + threadIdx.x) * COLUMNS;
    const int first = blockIdx.y * per_thread;
    const int count = min(per_thread, spectra - first);
    const int stream = first_stream + blockIdx.z;
    const int64_t bit = (starts[stream] + static_cast<int64_t>(first_spectrum + first) * STEP + column) * BITS;
    const uint32_t* at = reinterpret_cast<const uint32_t*>(samples + stream * stream_bytes) + (bit >> 5);
    const int shift = static_cast<int>(bit & 31);
    constexpr int FRAME = STEP / 32 * BITS;  // words
    using Row = Floats<COLUMNS>;
    static_assert(SPLIT == 1 || COLUMNS == 2);
    const int place = SPLIT == 1 ? column : (column / 2 % 4 * (CHANNELS / 4) + column / 8) * 2;
    Row* row = reinterpret_cast<Row*>(out + (static_cast<int64_t>(blockIdx.z) * spectra + first) * STEP + place);

    float w[TAPS][COLUMNS], window[TAPS][COLUMNS];
#pragma unroll
    for (int j = 0; j < TAPS; j++)
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) w[j][c] = weights[j * STEP + column + c];
#pragma unroll
    for (int j = 0; j < TAPS - 1; j++, at += FRAME) unpack(fetch(at), shift, window[j]);
    Raw ahead[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; i++, at += FRAME)
        if (i < count) ahead[i] = fetch(at);
    for (int m = 0;; m += TAPS) {
#pragma unroll
        for (int i = 0; i < TAPS; i++) {
            if (m + i >= count) return;
            unpack(ahead[i % AHEAD], shift, window[(i + TAPS - 1) % TAPS]);
            if (m + i + AHEAD < count) ahead[i % AHEAD] = fetch(at);
            at += FRAME;
            Row sum;
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) sum.v[c] = window[i][c] * w[0][c];
#pragma unroll
            for (int j = 1; j < TAPS; j++)
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) sum.v[c] = fmaf(window[(i + j) % TAPS][c], w[j][c], sum.v[c]);
            *row = sum;
            row += STEP / COLUMNS;
        }
    }
}

// ---- post ----

namespace {

constexpr int BLOCK = 64;              // spectra of a K-block
constexpr int QUARTER = CHANNELS / 4;  // one dither counter serves channels this far apart
constexpr int LANES = smaller(32, QUARTER / 2);
constexpr int POST_THREADS = smaller(256, BLOCK / 4 * LANES);
constexpr int GROUPS = POST_THREADS / LANES;
constexpr int ROW_WORDS = 33;  // of shared memory: a row's 32 words, and one that keeps columns in different banks

// The four values of a transform that are made of one value of each of the four transforms of every fourth input;
// `factor` is e^{-2 pi i k/n}, k the index of the first.
DEVICE void join(Complex (&z)[4], Complex factor) {
    const Complex square = factor * factor;
    const Complex a = z[0], b = z[1] * factor, c = z[2] * square, d = z[3] * (square * factor);
    const Complex even = a + c, odd = a - c, sum = b + d, difference = turned_back(b - d);
    z[0] = even + sum;
    z[1] = odd + difference;
    z[2] = even - sum;
    z[3] = odd - difference;
}

// e^{ix} for |x| up to pi/8, where the first terms left out are below 2e-8.
DEVICE Complex turned(float x) {
    const float z = x * x;
    const float sine = fmaf(fmaf(-1.0f / 5040, z, 1.0f / 120), z, -1.0f / 6);
    const float cosine = fmaf(fmaf(-1.0f / 720, z, 1.0f / 24), z, -0.5f);
    return {fmaf(cosine, z, 1.0f), fmaf(sine, x * z, x)};
}

// Philox4x32 with 7 rounds.
DEVICE void philox(uint32_t (&c)[4], uint32_t key0, uint32_t key1) {
#pragma unroll
    for (int round = 0; round < 7; round++) {
        const uint64_t p0 = 0xD2511F53ull * c[0], p1 = 0xCD9E8D57ull * c[2];
        c[0] = static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ key0;
        c[1] = static_cast<uint32_t>(p1);
        c[2] = static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ key1;
        c[3] = static_cast<uint32_t>(p0);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

// (r + 1/2) / 65536 - 1/2 of the high or low 16 bits, exactly: they become the fraction of a number from 1 to 2.
DEVICE float dither_high(uint32_t word) { return __uint_as_float((word >> 9 & 0x7FFF80u) | 0x3F800040u) - 1.5f; }
DEVICE float dither_low(uint32_t word) { return __uint_as_float((word << 7 & 0x7FFF80u) | 0x3F800040u) - 1.5f; }

// Rounded to even and clamped to ±127.
DEVICE uint32_t quantized(float value) { return static_cast<uint32_t>(ryle::round_to_int8(fmaxf(value, -127.0f))); }

}  // namespace

// A block makes rows of one K-block and one input: of 8 · LANES channels, k, n/4 - k and those n/4, n/2, 3n/4 further
// on. Channels k and n - k come from the same two values of the transform, and each four from one dither counter. A
// thread has eight channels, and all spectra of every GROUPS-th quad. (Of k = 0 the transform pairs differently, and
// n/4 - k is taken by nobody: that thread has n/8 instead.)
//
// spectra[stream][spectrum][CHANNELS]: transforms of pairs of samples (or four of every fourth, one after another), of
// the streams from `first_stream` and of whole K-blocks from `first_block` on; turns[input][blocks · 64];
// gains[input][CHANNELS], halved; out[CHANNELS][blocks][inputs][128]; `first_spectrum` since sync is that of block 0.
KERNEL(POST_THREADS, 512 / POST_THREADS)
post(const void* __restrict__ spectra, const void* __restrict__ turns, const void* __restrict__ gains,
     uint8_t* __restrict__ out, int first_stream, int inputs, int first_block, int blocks, uint64_t first_spectrum,
     uint64_t seed, uint32_t input_offset) {
    SHARED_BYTES(bytes);
    uint32_t* tile = reinterpret_cast<uint32_t*>(bytes);
    const int block = BLOCKS_FIRST ? blockIdx.x : blockIdx.y, chunk_blocks = BLOCKS_FIRST ? gridDim.x : gridDim.y;
    const int tile_start = (BLOCKS_FIRST ? blockIdx.y : blockIdx.x) * LANES;
    const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
    const int input = first_stream + blockIdx.z;
    const int k = tile_start + lane;
    const bool edge = k == 0;
    const int base[2] = {k, edge ? QUARTER / 2 : QUARTER - k};
    const Complex* value = reinterpret_cast<const Complex*>(spectra) +
                           (static_cast<int64_t>(blockIdx.z) * chunk_blocks + block) * BLOCK * CHANNELS;
    const Turn* turn =
        reinterpret_cast<const Turn*>(turns) + (static_cast<int64_t>(input) * blocks + first_block + block) * BLOCK;

    Complex gain[2][4],
        root[2][2];  // root: -i e^{-i pi c/n} of the first two channels; of the others it is -i times that
#pragma unroll
    for (int h = 0; h < 2; h++) {
#pragma unroll
        for (int j = 0; j < 4; j++)
            gain[h][j] =
                reinterpret_cast<const Complex*>(gains)[static_cast<int64_t>(input) * CHANNELS + base[h] + j * QUARTER];
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float sine, cosine;
            sincospif(static_cast<float>(base[h] + j * QUARTER) / CHANNELS, &sine, &cosine);
            root[h][j] = {-sine, -cosine};
        }
    }

    for (int quad = group; quad < BLOCK / 4; quad += GROUPS) {
        uint32_t re[2][4] = {}, im[2][4] = {};
#pragma unroll 2
        for (int s = 0; s < 4; s++) {
            const int spectrum = quad * 4 + s;
            Complex z[2][4];
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    z[h][j] = value[static_cast<int64_t>(spectrum) * CHANNELS + base[h] + j * QUARTER];
            if (SPLIT == 4)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const Complex square = root[h][0] * root[h][0];
                    join(z[h], {-square.re, -square.im});
                }
            const Turn here = turn[spectrum];
            const Complex quarter = turned(here.slope * QUARTER);
            const uint64_t since_sync = first_spectrum + static_cast<uint64_t>(first_block + block) * BLOCK + spectrum;
#pragma unroll
            for (int h = 0; h < 2; h++) {
                uint32_t words[4] = {static_cast<uint32_t>(base[h]), static_cast<uint32_t>(since_sync),
                                     static_cast<uint32_t>(since_sync >> 32), input_offset + input};
                philox(words, static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
                Complex rotation = here.base * turned(here.slope * base[h]);
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const Complex a = z[h][j], other = z[1 - h][3 - j], own = h ? z[1][3 - j] : z[0][(4 - j) % 4];
                    const Complex b = {edge ? own.re : other.re, edge ? own.im : other.im};  // of channel n - c
                    const Complex even = {a.re + b.re, a.im - b.im}, odd = {a.re - b.re, a.im + b.im};
                    const Complex w = root[h][j % 2], turned_odd = (j < 2 ? w : turned_back(w)) * odd;
                    const Complex x = (even + turned_odd) * gain[h][j];
                    const float out_re = fmaf(x.re, rotation.re, fmaf(-x.im, rotation.im, dither_high(words[j])));
                    const float out_im = fmaf(x.re, rotation.im, fmaf(x.im, rotation.re, dither_low(words[j])));
                    re[h][j] = __funnelshift_r(re[h][j], quantized(out_re), 8);  // the four spectra fill a word
                    im[h][j] = __funnelshift_r(im[h][j], quantized(out_im), 8);
                    rotation = rotation * quarter;
                }
            }
        }
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                uint32_t* row = tile + ((h * 4 + j) * LANES + lane) * ROW_WORDS;
                if (INTERLEAVED) {
                    row[quad * 2] = __byte_perm(re[h][j], im[h][j], 0x5140);
                    row[quad * 2 + 1] = __byte_perm(re[h][j], im[h][j], 0x7362);
                } else {
                    row[quad / 4 * 8 + quad % 4] = re[h][j];
                    row[quad / 4 * 8 + 4 + quad % 4] = im[h][j];
                }
            }
    }
    __syncthreads();
    const int word = threadIdx.x % 32;
    for (int row = threadIdx.x / 32; row < 8 * LANES; row += POST_THREADS / 32) {
        const int first = tile_start + row % LANES, slot = row / LANES;
        const int start = slot < 4 ? first : first ? QUARTER - first : QUARTER / 2;
        const int64_t channel = start + slot % 4 * QUARTER;
        const int64_t at = (channel * blocks + first_block + block) * inputs + input;
        reinterpret_cast<uint32_t*>(out)[at * 32 + word] = tile[row * ROW_WORDS + word];
    }
}
