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

// How samples of -128 become -127, where they are found.
struct Clamping {
    unsigned char* samples;
    uint64_t* clamped;
    int channels, spectra;  // of all
    bool wanted;
    int channel, spectrum;  // of the K-block at hand
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
    // Whether this thread may have -128: it may also have -127 and, in the byte before, 0. For the least time, as every
    // sample is looked at.
    DEVICE bool suspect() const {
        uint32_t found[4] = {};
#pragma unroll
        for (int n = 0; n < 4 * GROUPS; ++n) found[n / 4] |= words[n / 4][n % 4] & ~(words[n / 4][n % 4] - 0x01010101u);
        return (found[0] | found[1] | found[2] | found[3]) & 0x80808080u;
    }
    // Mend this thread's -128 and count them; with KEEP write what they become back to the samples, of inputs from
    // `input` on.
    template <bool KEEP>
    DEVICE void mend(const Clamping& clamping, int input) {
        anchor(input);
        int count = 0;
#pragma unroll
        for (int n = 0; n < 4 * GROUPS; ++n) {
            uint32_t& word = words[n / 4][n % 4];
            const uint32_t low = word & ~((word & 0x7F7F7F7Fu) + 0x7F7F7F7Fu) & 0x80808080u;
            if (!low) continue;
            count += __popc(low);
            word |= low >> 7;
            if constexpr (KEEP) keep(word, n, clamping, input);
        }
        if (count)
            atomicAdd(reinterpret_cast<unsigned long long*>(clamping.clamped), static_cast<unsigned long long>(count));
    }
    // Write them to rows from `to` on.
    DEVICE void write(unsigned char* to) const {
        const int lane = threadIdx.x % 32;
        // Of HEAPS the first 8 rows written are the even inputs of pairs 0, 4, 1, 5, ..., the others the odd ones.
        const int row = HEAPS ? 2 * own_pair(lane % 8) + lane / 8 % 2 : lane % 16;
        const int own = chunk_offset(row, lane / 16);
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
            uint32_t a[4];
            separate(a, words[group]);
            store_matrices(to + (own ^ group << 5), a);
        }
    }

  private:
    // Write word `n` back to the samples.
    DEVICE static void keep(uint32_t word, int n, const Clamping& clamping, int input) {
        const int lane = threadIdx.x % 32, own = lane / 4, q = lane % 4;
        int spectrum = clamping.spectrum + 16 * (n / 4) + (HEAPS ? 4 * q + n % 4 : 2 * q + 8 * (n % 2));
        anchor(spectrum);  // or addresses of all words would be computed, and held, before
        if constexpr (HEAPS) {
            const int64_t row = int64_t(input / 2 + own_pair(own)) * clamping.channels + clamping.channel;
            reinterpret_cast<uint32_t*>(clamping.samples)[row * clamping.spectra + spectrum] = word;
        } else {
            const int64_t row = int64_t(spectrum) * clamping.channels + clamping.channel;
            uint16_t* at = reinterpret_cast<uint16_t*>(clamping.samples) + row * INPUTS + input + 8 * (n / 2 % 2) + own;
            at[0] = static_cast<uint16_t>(word);
            at[int64_t(clamping.channels) * INPUTS] = static_cast<uint16_t>(word >> 16);
        }
    }
};

}  // namespace ryle
