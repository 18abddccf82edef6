// How MeerKAT's heaps are written: whole sectors, out of what lies by parts and spectra in shared memory.
#pragma once
#include "ryle/gpu/device.cuh"

namespace ryle {

// From N words, a byte of each for the same four spectra, to the N words in which a spectrum's bytes lie side by side.
template <int N>
DEVICE void interleave(uint32_t (&words)[N]) {
    static_assert(N == 1 || N == 2 || N == 4);
    constexpr uint32_t LOW = 0x5140, HIGH = 0x7362;  // bytes 0 and 1, or 2 and 3, of two words in turns
    if constexpr (N == 2) {
        const uint32_t a = words[0], b = words[1];
        words[0] = __byte_perm(a, b, LOW);
        words[1] = __byte_perm(a, b, HIGH);
    } else if constexpr (N == 4) {
        const uint32_t a[2] = {__byte_perm(words[0], words[1], LOW), __byte_perm(words[0], words[1], HIGH)},
                       b[2] = {__byte_perm(words[2], words[3], LOW), __byte_perm(words[2], words[3], HIGH)};
#pragma unroll
        for (int i = 0; i < 4; ++i) words[i] = __byte_perm(a[i / 2], b[i / 2], i % 2 ? 0x7632 : 0x5410);
    }
}

// Bytes of a spectrum in a channel of a heap, of INPUTS polarizations.
template <int INPUTS, int WIDTH>
constexpr int HEAP_VALUE = INPUTS * WIDTH / 4;

// Piece `piece` of 16 bytes of a heap's channel: [spectrum][input][re, im], with 4 bits a byte for both parts, the real
// one in its upper half. `staged` are a channel's 2 [re, im][16] bytes of the first input, those of the next are
// `distance` bytes on.
template <int INPUTS, int WIDTH>
DEVICE uint4 heap_piece(const uint8_t* staged, int distance, int piece) {
    constexpr int N = HEAP_VALUE<INPUTS, WIDTH>, SPECTRA = 16 / N;
    uint32_t values[4];
#pragma unroll
    for (int s = 0; s < SPECTRA; s += 4) {
        uint32_t words[N];
#pragma unroll
        for (int input = 0; input < INPUTS; ++input) {
            const uint8_t* at = staged + input * distance + piece * SPECTRA + s;
            const uint32_t re = *reinterpret_cast<const uint32_t*>(at),
                           im = *reinterpret_cast<const uint32_t*>(at + 16);
            if constexpr (WIDTH == 8) {
                words[2 * input] = re;
                words[2 * input + 1] = im;
            } else {
                words[input] = (re << 4 & 0xF0F0F0F0) | (im & 0x0F0F0F0F);
            }
        }
        interleave(words);
#pragma unroll
        for (int i = 0; i < N; ++i) values[s / 4 * N + i] = words[i];
    }
    return make_uint4(values[0], values[1], values[2], values[3]);
}

}  // namespace ryle
