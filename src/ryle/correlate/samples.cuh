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

// What a matrix step wants of two rows: four real parts of either, then their imaginary parts; with MEND -127 for -128.
template <bool MEND>
DEVICE void separate(uint32_t (&a)[4], const uint32_t (&words)[4]) {
    const auto gather = [](uint32_t& first, uint32_t& second, const uint32_t (&from)[4], bool high) {
        if constexpr (HEAPS) {
            const int pairs = high ? 0x7351 : 0x6240;
            const uint32_t two[2] = {__byte_perm(from[0], from[1], pairs), __byte_perm(from[2], from[3], pairs)};
            first = __byte_perm(two[0], two[1], 0x5410);
            second = __byte_perm(two[0], two[1], 0x7632);
        } else {
            const int bytes = high ? 0x7531 : 0x6420;
            first = __byte_perm(from[0], from[1], bytes);
            second = __byte_perm(from[2], from[3], bytes);
        }
    };
    if constexpr (MEND) {
        constexpr uint32_t LEAST = 0x81008100;  // -127 in the high byte of either half, whatever is in the low one
        uint32_t re[4], im[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            re[i] = greater_halves(words[i] << 8, LEAST);
            im[i] = greater_halves(words[i], LEAST);
        }
        gather(a[0], a[1], re, true);
        gather(a[2], a[3], im, true);
    } else {
        gather(a[0], a[1], words, false);
        gather(a[2], a[3], words, true);
    }
}

// Whether -128 is among samples: then the least half of their words, or of the words shifted by a byte, begins with it.
// Every sample is looked at, so each word takes but two operations, in units of their own.
struct Least {
    uint32_t halves[2] = {};
    DEVICE void take(const uint32_t (&words)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) halves[i % 2] = least_halves(halves[i % 2], words[i], words[i] << 8);
    }
    DEVICE bool lowest() const {
        const uint32_t all = least_halves(halves[0], halves[1], 0);
        return (all & 0xFF00) == 0x8000 || all >> 24 == 0x80;
    }
};
// Make -127 of each -128; how many there were.
DEVICE int mend(uint32_t (&words)[4]) {
    int count = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const uint32_t found = words[i] & ~((words[i] & 0x7F7F7F7Fu) + 0x7F7F7F7Fu) & 0x80808080u;
        count += __popc(found);
        words[i] += found >> 7;
    }
    return count;
}
// Where a lane writes its row of a sixteen of a K-block, group 0; the rows of group g are at this ^ g << 5.
DEVICE int row_offset() {
    const int lane = threadIdx.x % 32;
    // Of HEAPS the first 8 rows written are the even inputs of pairs 0, 4, 1, 5, ..., the others the odd ones.
    const int row = HEAPS ? 2 * own_pair(lane % 8) + lane / 8 % 2 : lane % 16;
    return chunk_offset(row, lane / 16);
}

}  // namespace ryle
