// Samples in the orders of others, 8 bits each of re, im, on their way through Hopper's kernel.
//
// A word is two neighbouring inputs of a spectrum, a box 64 inputs of a K-block, swizzled. Rows are put together in
// registers by those who multiply, columns become what a K-block's rows are by warps beside them, in the place of their
// box. A matrix step's words may have any four of a group's 16 spectra, the same ones for rows and columns:
//
//  - TIME_MAJOR, [spectrum][channel][input]: a box has 128 bytes a spectrum. Loaded as matrices of 8 spectra by 8
//    inputs, transposed on the way, lane q of four gets spectra 2q, 2q + 1, 2q + 8 and 2q + 9 of an input;
//  - HEAPS, [antenna][channel][spectrum][polarization]: a box has 128 bytes an antenna, the first 32 spectra of all,
//    then the others. Lane q takes spectra 4q to 4q + 3, 16 bytes, and antennas are dealt out to lanes 0, 4, 1, 5, ...
#pragma once
#include "ryle/correlate/hopper.cuh"
#include "ryle/correlate/kblocks.cuh"

#ifndef TIME_MAJOR
#define TIME_MAJOR 0
#endif
#ifndef HEAPS
#define HEAPS 0
#endif

namespace ryle {

constexpr bool SAMPLES = TIME_MAJOR || HEAPS;
static_assert(!TIME_MAJOR || !HEAPS);
static_assert(!HEAPS || POLS == 2);

constexpr int BOX_INPUTS = 64, BOX = BOX_INPUTS * ROW;  // bytes

// Which pair of 8 lane 4j + q has, of HEAPS.
DEVICE int own_pair(int j) { return j / 2 + j % 2 * 4; }

// Where this lane reads a sixteen of inputs from, in a box, and from there on a group of it.
DEVICE int sample_offset(int sixteen) {
    const int lane = threadIdx.x % 32;
    if constexpr (HEAPS) {
        const int pair = own_pair(lane / 4);
        return (8 * sixteen + pair) * ROW + (lane % 4 ^ pair) * 16;
    }
    const int spectrum = lane % 16, chunk = 2 * sixteen + lane / 16;
    return spectrum * ROW + (chunk ^ spectrum % 8) * 16;
}
DEVICE int group_offset(int at, int group) {
    if constexpr (HEAPS) return (at ^ group % 2 << 6) + group / 2 * (BOX / 2);
    return at + 16 * group * ROW;
}

// The words of a group as they lie: of HEAPS four spectra of a pair, else two spectra each of an input, four of one and
// four of the input 8 after.
DEVICE void load_words(uint32_t (&words)[4], const unsigned char* from) {
    if constexpr (HEAPS) {
        const uint4 four = *reinterpret_cast<const uint4*>(from);
        words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
    } else {
        load_matrices_transposed(words, from);
    }
}

// What a matrix step wants of two rows: four real parts of either, then their imaginary parts.
DEVICE void separate(uint32_t (&a)[4], const uint32_t (&words)[4]) {
    if constexpr (HEAPS) {
        const uint32_t even[2] = {__byte_perm(words[0], words[1], 0x5140), __byte_perm(words[2], words[3], 0x5140)};
        const uint32_t odd[2] = {__byte_perm(words[0], words[1], 0x7362), __byte_perm(words[2], words[3], 0x7362)};
        a[0] = __byte_perm(even[0], even[1], 0x5410);
        a[1] = __byte_perm(odd[0], odd[1], 0x5410);
        a[2] = __byte_perm(even[0], even[1], 0x7632);
        a[3] = __byte_perm(odd[0], odd[1], 0x7632);
    } else {
        a[0] = __byte_perm(words[0], words[1], 0x6420);
        a[1] = __byte_perm(words[2], words[3], 0x6420);
        a[2] = __byte_perm(words[0], words[1], 0x7531);
        a[3] = __byte_perm(words[2], words[3], 0x7531);
    }
}

// The bytes that are -128 of a word, by their highest bits, and the word with -127 in their place.
DEVICE uint32_t lowest(uint32_t word) { return word & ~((word & 0x7F7F7F7Fu) + 0x7F7F7F7Fu) & 0x80808080u; }
DEVICE uint32_t mended(uint32_t word) { return word | lowest(word) >> 7; }

// Where samples of -128 are counted, and become -127.
struct Clamping {
    unsigned char* samples;
    uint64_t* clamped;
    int channels, spectra;  // of all
    bool wanted;

    // Count those of a sixteen of a box of a channel, whose inputs begin with `input` and spectra with `spectrum`, and
    // mend them where they came from; a warp does.
    DEVICE void mend(const unsigned char* box, int sixteen, int channel, int input, int spectrum) const {
#pragma unroll 1
        for (int i = threadIdx.x % 32; i < 16 * ROW / 16; i += 32) {
            const int row = HEAPS ? i / 64 * 32 + 8 * sixteen + i / 8 % 8 : i / 2;
            const int chunk = HEAPS ? i % 8 : 2 * sixteen + i % 2;
            const uint4 bytes = *reinterpret_cast<const uint4*>(box + row * ROW + (chunk ^ row % 8) * 16);
            const int count =
                __popc(lowest(bytes.x)) + __popc(lowest(bytes.y)) + __popc(lowest(bytes.z)) + __popc(lowest(bytes.w));
            if (!count) continue;
            int64_t to;  // in inputs of a spectrum
            if constexpr (HEAPS)
                to = 2 * ((int64_t(input / 2 + row % 32) * channels + channel) * spectra + spectrum + row / 32 * 32 +
                          chunk * 4);
            else
                to = (int64_t(spectrum + row) * channels + channel) * INPUTS + input + chunk * 8;
            *reinterpret_cast<uint4*>(samples + 2 * to) =
                make_uint4(mended(bytes.x), mended(bytes.y), mended(bytes.z), mended(bytes.w));
            atomicAdd(reinterpret_cast<unsigned long long*>(clamped), static_cast<unsigned long long>(count));
        }
    }
};

// 16 inputs of a K-block in a warp's registers, on their way from a box to rows of K-blocks.
struct Sixteen {
    uint32_t words[GROUPS][4];

    // Read one of a box.
    DEVICE void read(const unsigned char* box, int sixteen) {
        const int at = sample_offset(sixteen);
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) load_words(words[group], box + group_offset(at, group));
    }
    // Whether this thread has -128: then the least half of a word, or of a word shifted by a byte, begins with it.
    // Every sample is looked at, so each word takes but two operations, in units of their own.
    DEVICE bool suspect() const {
        uint32_t least[2] = {};
#pragma unroll
        for (int n = 0; n < 4 * GROUPS; ++n)
            least[n % 2] = least_halves(least[n % 2], words[n / 4][n % 4], words[n / 4][n % 4] << 8);
        const uint32_t all = least_halves(least[0], least[1], 0);
        return (all & 0xFF00) == 0x8000 || all >> 24 == 0x80;
    }
    // Mend what was read.
    DEVICE void mend() {
#pragma unroll
        for (int n = 0; n < 4 * GROUPS; ++n) words[n / 4][n % 4] = mended(words[n / 4][n % 4]);
    }
    // Write them to rows from `to` on.
    DEVICE void write(unsigned char* to) const {
        const int lane = threadIdx.x % 32;
        // Of HEAPS the first 8 rows written are the even inputs of pairs 0, 4, 1, 5, ..., the others the odd ones.
        const int row = HEAPS ? 2 * own_pair(lane % 8) + lane / 8 % 2 : lane % 16;
        int own = chunk_offset(row, lane / 16);
        anchor(own);  // or one for each group would be held
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
            uint32_t a[4];
            separate(a, words[group]);
            store_matrices(to + (own ^ group << 5), a);
        }
    }
};

}  // namespace ryle
