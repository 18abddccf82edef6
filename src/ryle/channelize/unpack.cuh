// From packed samples of BITS bits to halves for the matrix units, two rows at a time, and to integers.
#pragma once
#include "ryle/gpu/device.cuh"

namespace ryle {

DEVICE constexpr uint32_t both(uint32_t half) { return half << 16 | half; }

// The value of BITS bits at bit J·BITS + O of two rows of bytes, as two halves.
template <int J, int O, int SIZE>
DEVICE uint32_t extract(const uint32_t (&even)[SIZE], const uint32_t (&odd)[SIZE]) {
    constexpr int K = (J * BITS + O) / 32,
                  B = (J * BITS + O) / 8 % 4;  // it begins in byte B of word K, and ends in the next
    uint32_t window;                           // two bytes of each row
    if constexpr (B == 3) {
        const uint32_t a = __byte_perm(even[K], even[K + 1], 0x0034), b = __byte_perm(odd[K], odd[K + 1], 0x0034);
        window = __byte_perm(a, b, 0x5410);
    } else {
        window = __byte_perm(even[K], odd[K], (B + 1) | B << 4 | (B + 5) << 8 | (B + 4) << 12);
    }
    const uint32_t value = window >> (16 - (J * BITS + O) % 8 - BITS);
    if constexpr (BITS == 1) return ((value << 15) & 0x80008000u) ^ both(0x3c00);  // 0 is +1, 1 is -1
    constexpr uint32_t SIGN = 1u << (BITS - 1), MASK = (1u << BITS) - 1;
    if constexpr (BITS <= 10)  // 1024 + v in half precision is 0x6400 + v
        return half2_add((value & both(MASK)) ^ both(SIGN | 0x6400), half2_negative(both(0x6400 | SIGN)));
    // 12 bits: 4 (1024 + v >> 2) - 4 (1024 + 512) and v & 3 apart
    const uint32_t high =
        half2_add(((value >> 2) & both(MASK >> 2)) ^ both(SIGN >> 2 | 0x6400), half2_negative(both(0x6600)));
    const uint32_t low = half2_add((value & both(3)) | both(0x6400), half2_negative(both(0x6400)));
    return half2_fma(high, both(0x4400), low);
}

template <int COUNT, int STRIDE, int O, int J = 0, int SIZE>
DEVICE void unpack_from(uint32_t* to, const uint32_t (&even)[SIZE], const uint32_t (&odd)[SIZE]) {
    if constexpr (J < COUNT) {
        to[J * STRIDE] = extract<J, O>(even, odd);
        unpack_from<COUNT, STRIDE, O, J + 1>(to, even, odd);
    }
}
// Unpack COUNT values, of which the first begins at bit `offset` of the first byte, to places STRIDE words apart.
template <int COUNT, int STRIDE, int O = 0, int SIZE>
DEVICE void unpack_run(uint32_t* to, const uint32_t (&even)[SIZE], const uint32_t (&odd)[SIZE], uint32_t offset) {
    constexpr int NEXT = O + (BITS % 2 ? 1 : BITS % 4 ? 2 : BITS % 8 ? 4 : 8);
    if constexpr (NEXT >= 8) {
        unpack_from<COUNT, STRIDE, O>(to, even, odd);
    } else {
        if (offset == O)
            unpack_from<COUNT, STRIDE, O>(to, even, odd);
        else
            unpack_run<COUNT, STRIDE, NEXT>(to, even, odd, offset);
    }
}

// Value j of a run of 12, 16 or 32-bit samples that begins at bit `offset` of the first byte, as an integer if it is
// one.
template <int SIZE>
DEVICE auto sample_of(const uint32_t (&bytes)[SIZE], int j, int offset) {
    const int bit = j * BITS % 32 + offset, k = j * BITS / 32;
    const bool next = BITS == 12 && j * BITS % 32 == 28 && bit >= 32;
    const uint32_t high = __byte_perm(next ? bytes[k + 1] : bytes[k], 0, 0x0123);
    const uint32_t low = __byte_perm(next ? bytes[k + 2 < SIZE ? k + 2 : k] : bytes[k + 1], 0, 0x0123);
    const uint32_t top = __funnelshift_l(low, high, bit % 32);
    if constexpr (BITS == 32)
        return __uint_as_float(top);
    else
        return int64_t(int(top) >> (32 - BITS));
}

}  // namespace ryle
