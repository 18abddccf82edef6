// Samples in the orders of others, 8 bits each of re, im, on their way through Hopper's kernel.
//
// A word is two neighbouring inputs of a spectrum, a box 64 inputs of a K-block, swizzled; the few inputs that a first
// run has beyond 128 have a box of their own. Rows are put together in registers by those who multiply, columns are
// transposed to what a K-block's rows are by warps beside them. A matrix step's words may have any four of a group's 16
// spectra, the same ones for rows and columns, and the lanes of a warp any inputs, as long as what is read at once lies
// in different banks:
//
//  - TIME_MAJOR, [spectrum][channel][input]: a box has 128 bytes a spectrum (32 or 64, not swizzled, of the few
//    inputs). Lane q of four takes spectra 2q, 2q + 1, 2q + 8 and 2q + 9, one word each;
//  - HEAPS, [antenna][channel][spectrum][polarization]: a box has 128 bytes an antenna, the first 32 spectra of all,
//    then the others. Lane q takes spectra 4q to 4q + 3, 16 bytes, and antennas are dealt out to lanes 0, 4, 1, 5, ...
#pragma once
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

// Which pair of 8 lane 4j + q has.
DEVICE int own_pair(int j) { return HEAPS ? j / 2 + j % 2 * 4 : j; }

// Where lane 4j + q finds its pair of 16 inputs, the octet's, in a box of so many inputs.
template <int COUNT>
DEVICE int sample_offset(int octet, int j, int q) {
    if constexpr (HEAPS) return (8 * octet + own_pair(j)) * ROW + (q ^ own_pair(j)) * 16;
    if constexpr (COUNT < BOX_INPUTS) return 2 * q * 2 * COUNT + octet * 32 + j * 4;
    return 2 * q * ROW + ((2 * octet + j / 4) ^ 2 * q) * 16 + j % 4 * 4;
}
// Where its word `i` of four of a group is, from there on, and of which spectrum.
template <int COUNT>
DEVICE int word_offset(int at, int group, int i) {
    if constexpr (HEAPS) return (at ^ group % 2 << 6) + group / 2 * (COUNT / 2 * ROW) + 4 * i;
    if constexpr (COUNT < BOX_INPUTS) return at + (16 * group + 8 * (i / 2) + i % 2) * 2 * COUNT;
    return (i % 2 ? at ^ 16 : at) + (16 * group + 8 * (i / 2) + i % 2) * ROW;
}
DEVICE int word_spectrum(int q, int group, int i) {
    return 16 * group + (HEAPS ? 4 * q + i : 2 * q + 8 * (i / 2) + i % 2);
}
// Its four words of a group.
template <int COUNT>
DEVICE void load_words(uint32_t* words, const unsigned char* stages, int at, int group) {
    if constexpr (HEAPS) {
        const uint4 four = *reinterpret_cast<const uint4*>(stages + word_offset<COUNT>(at, group, 0));
        words[0] = four.x, words[1] = four.y, words[2] = four.z, words[3] = four.w;
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            words[i] = *reinterpret_cast<const uint32_t*>(stages + word_offset<COUNT>(at, group, i));
    }
}

// Of four spectra of inputs e, o (bytes re_e, im_e, re_o, im_o): those of one input, its real parts in the first two
// bytes.
DEVICE void pick_even(uint32_t (&two)[2], const uint32_t* words) {
    two[0] = __byte_perm(words[0], words[1], 0x5140);
    two[1] = __byte_perm(words[2], words[3], 0x5140);
}
DEVICE void pick_odd(uint32_t (&two)[2], const uint32_t* words) {
    two[0] = __byte_perm(words[0], words[1], 0x7362);
    two[1] = __byte_perm(words[2], words[3], 0x7362);
}
constexpr uint32_t REAL = 0x5410, IMAGINARY = 0x7632;

// What a matrix step wants of a warp's 16 rows: row j of its first eight is input 2 · own_pair(j), row j of the others
// the next.
template <int COUNT>
DEVICE void load_samples(uint32_t (&a)[4], const unsigned char* stages, int at, int group) {
    uint32_t words[4], even[2], odd[2];
    load_words<COUNT>(words, stages, at, group);
    pick_even(even, words);
    pick_odd(odd, words);
    a[0] = __byte_perm(even[0], even[1], REAL);
    a[1] = __byte_perm(odd[0], odd[1], REAL);
    a[2] = __byte_perm(even[0], even[1], IMAGINARY);
    a[3] = __byte_perm(odd[0], odd[1], IMAGINARY);
}

// How samples of -128 become -127, where they are found.
struct Clamping {
    unsigned char* samples;
    uint64_t* clamped;
    int channels, spectra;  // of all
    bool wanted;
    int channel, spectrum;  // of the K-block at hand
};

// Mend 16 inputs from `input` on: count their -128, and write what they become to shared memory and, with MEND, back to
// the samples. Rare, so that it should rather take few registers than little time.
template <int COUNT, bool MEND>
DEVICE void mend(unsigned char* stages, int at, const Clamping& clamping, int input) {
    constexpr uint32_t HIGH = 0x80808080u;
    anchor(input);
    const int j = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    int count = 0;
#pragma unroll 1
    for (int n = 0; n < 16; ++n) {
        uint32_t* word = reinterpret_cast<uint32_t*>(stages + word_offset<COUNT>(at, n / 4, n % 4));
        const uint32_t x = *word ^ HIGH, low = ~(((x & ~HIGH) + ~HIGH) | x | ~HIGH);
        if (!low) continue;
        count += __popc(low);
        *word |= low >> 7;
        if constexpr (MEND) {
            const int64_t spectrum = clamping.spectrum + word_spectrum(q, n / 4, n % 4);
            const int pair = input / 2 + own_pair(j);
            const int64_t place =
                HEAPS ? (int64_t(pair) * clamping.channels + clamping.channel) * clamping.spectra + spectrum
                      : (spectrum * clamping.channels + clamping.channel) * (INPUTS / 2) + pair;
            reinterpret_cast<uint32_t*>(clamping.samples)[place] = *word;
        }
    }
    if (count)
        atomicAdd(reinterpret_cast<unsigned long long*>(clamping.clamped), static_cast<unsigned long long>(count));
}

// Transpose 16 inputs from `input` on, called by a warp: from where `at` is in the stages to rows of K-blocks at `to`.
template <int COUNT, bool MEND>
DEVICE void transpose(unsigned char* stages, int at, unsigned char* to, const Clamping& clamping, int input) {
    constexpr uint32_t HIGH = 0x80808080u;
    const int j = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    uint32_t words[16];
    const auto read = [&] {
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) load_words<COUNT>(words + 4 * group, stages, at, group);
    };
    read();
    if (clamping.wanted) {
        uint32_t found = 0;
#pragma unroll
        for (int n = 0; n < 16; ++n) found |= words[n] & ~((words[n] & ~HIGH) + ~HIGH);
        if (found & HIGH) {
            mend<COUNT, MEND>(stages, at, clamping, input);
            read();
        }
    }
    // Half the lanes write imaginary parts when the others write real ones, for the banks' sake.
    const int pair = own_pair(j);
    const uint32_t one = pair < 4 ? REAL : IMAGINARY, other = pair < 4 ? IMAGINARY : REAL;
    const int own = 2 * pair * ROW + ((2 * pair & 7) ^ (pair < 4 ? 0 : 1)) * 16 + 4 * q;
#pragma unroll
    for (int group = 0; group < GROUPS; ++group) {
        uint32_t even[2], odd[2];
        pick_even(even, words + 4 * group);
        pick_odd(odd, words + 4 * group);
        unsigned char* here = to + (own ^ group << 5);
        unsigned char* there = to + (own ^ group << 5 ^ 16);
        *reinterpret_cast<uint32_t*>(here) = __byte_perm(even[0], even[1], one);
        *reinterpret_cast<uint32_t*>(there) = __byte_perm(even[0], even[1], other);
        *reinterpret_cast<uint32_t*>(here + ROW) = __byte_perm(odd[0], odd[1], other);
        *reinterpret_cast<uint32_t*>(there + ROW) = __byte_perm(odd[0], odd[1], one);
    }
}

}  // namespace ryle
