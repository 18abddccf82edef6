// Time-major samples, [spectrum][channel][input] of re, im, on their way through Hopper's kernel.
//
// They are fetched in boxes of 64 spectra and 64 inputs, 128 bytes a spectrum, swizzled; the few inputs that a first
// run has beyond 128 have a box of their own, as they lie. A word holds two neighbouring inputs. Rows are put together
// in registers by those who multiply, columns are transposed to what a K-block's rows are by warps beside them.
//
// The four spectra of a word of a matrix step may be any, the same for rows and columns. Lane q of four takes 2q, 2q +
// 1, 2q + 8 and 2q + 9 of a group's 16: then the words that a warp reads at once lie in different banks.
#pragma once
#include "ryle/correlate/kblocks.cuh"

namespace ryle {

constexpr int BOX_INPUTS = 64, BOX = BOX_INPUTS * ROW;  // bytes

// Where lane 4j + q finds inputs 16 · octet + 2j and their neighbours: PITCH bytes a spectrum, or 0 in a swizzled box.
template <int PITCH>
DEVICE int sample_offset(int octet, int j, int q) {
    if constexpr (PITCH > 0) return 2 * q * PITCH + octet * 32 + j * 4;
    return 2 * q * ROW + ((2 * octet + j / 4) ^ 2 * q) * 16 + j % 4 * 4;
}
// Where its word `i` of four of a group is, from there on.
template <int PITCH>
DEVICE int word_offset(int at, int group, int i) {
    if constexpr (PITCH > 0) return at + (16 * group + 8 * (i / 2) + i % 2) * PITCH;
    return (i % 2 ? at ^ 16 : at) + (16 * group + 8 * (i / 2) + i % 2) * ROW;
}
DEVICE int word_spectrum(int q, int group, int i) { return 16 * group + 2 * q + 8 * (i / 2) + i % 2; }

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

// What a matrix step wants of a warp's 16 rows: row g of its first eight is input 2g, row g of the others 2g + 1.
template <int PITCH>
DEVICE void load_samples(uint32_t (&a)[4], const unsigned char* stages, int at, int group) {
    uint32_t words[4], even[2], odd[2];
#pragma unroll
    for (int i = 0; i < 4; ++i)
        words[i] = *reinterpret_cast<const uint32_t*>(stages + word_offset<PITCH>(at, group, i));
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
    int channels;
    bool wanted;
    int channel, spectrum;  // of the K-block at hand
};

// Mend 16 inputs from `input` on: count their -128, and write what they become to shared memory and, with MEND, back to
// the samples. Rare, so that it should rather take few registers than little time.
template <int PITCH, bool MEND>
DEVICE void mend(unsigned char* stages, int at, const Clamping& clamping, int input) {
    constexpr uint32_t HIGH = 0x80808080u;
    anchor(input);
    const int j = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    int count = 0;
#pragma unroll 1
    for (int n = 0; n < 16; ++n) {
        uint32_t* word = reinterpret_cast<uint32_t*>(stages + word_offset<PITCH>(at, n / 4, n % 4));
        const uint32_t x = *word ^ HIGH, low = ~(((x & ~HIGH) + ~HIGH) | x | ~HIGH);
        if (!low) continue;
        count += __popc(low);
        *word |= low >> 7;
        if constexpr (MEND) {
            const int64_t sample =
                (int64_t(clamping.spectrum + word_spectrum(q, n / 4, n % 4)) * clamping.channels + clamping.channel) *
                    INPUTS +
                input + 2 * j;
            reinterpret_cast<uint32_t*>(clamping.samples)[sample / 2] = *word;
        }
    }
    if (count)
        atomicAdd(reinterpret_cast<unsigned long long*>(clamping.clamped), static_cast<unsigned long long>(count));
}

// Transpose 16 inputs from `input` on, called by a warp: from where `at` is in the stages to rows of K-blocks at `to`.
template <int PITCH, bool MEND>
DEVICE void transpose(unsigned char* stages, int at, unsigned char* to, const Clamping& clamping, int input) {
    constexpr uint32_t HIGH = 0x80808080u;
    const int j = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    uint32_t words[16];
    const auto read = [&] {
#pragma unroll
        for (int n = 0; n < 16; ++n)
            words[n] = *reinterpret_cast<const uint32_t*>(stages + word_offset<PITCH>(at, n / 4, n % 4));
    };
    read();
    if (clamping.wanted) {
        uint32_t found = 0;
#pragma unroll
        for (int n = 0; n < 16; ++n) found |= words[n] & ~((words[n] & ~HIGH) + ~HIGH);
        if (found & HIGH) {
            mend<PITCH, MEND>(stages, at, clamping, input);
            read();
        }
    }
    // Half the lanes write imaginary parts when the others write real ones, for the banks' sake.
    const uint32_t one = j < 4 ? REAL : IMAGINARY, other = j < 4 ? IMAGINARY : REAL;
    const int own = 2 * j * ROW + ((2 * j & 7) ^ (j < 4 ? 0 : 1)) * 16 + 4 * q;
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
