// Philox4x32-7, as ryle/channelize/dither.py defines it.
#pragma once
#include "ryle/gpu/device.cuh"

namespace ryle {

// Of each round, the low word of the key lowest.
struct RoundKeys {
    uint64_t of[7];

    // From the first, by additions that are done anew where they are wanted: as parameters, all seven would make
    // transform.cu spill.
    static DEVICE RoundKeys following(uint64_t first) {
        RoundKeys keys;
#pragma unroll
        for (uint32_t r = 0; r < 7; ++r)
            keys.of[r] = uint64_t(uint32_t(first >> 32) + r * 0xBB67AE85u) << 32 | (uint32_t(first) + r * 0x9E3779B9u);
        return keys;
    }
};

DEVICE uint4 philox4x32(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, const RoundKeys& keys) {
#pragma unroll
    for (int round = 0; round < 7; ++round) {
        const uint64_t key = keys.of[round];
        const uint2 a = product_words(0xD2511F53u, c0), b = product_words(0xCD9E8D57u, c2);
        c0 = b.y ^ c1 ^ uint32_t(key);
        c1 = b.x;
        c2 = a.y ^ c3 ^ uint32_t(key >> 32);
        c3 = a.x;
    }
    return make_uint4(c0, c1, c2, c3);
}

// Dither of the real (high half of a word) and imaginary part (low half): (r + 1/2) / 65536 - 1/2, exactly.
DEVICE float2 dither_of(uint32_t word) {
    constexpr float SCALE = 1.0f / 65536, HALF = 0.5f / 65536;
    const float2 halves = floats_from_u16_pair(word);
    return make_float2(fmaf(halves.x, SCALE, HALF - 0.5f), fmaf(halves.y, SCALE, HALF - 0.5f));
}

}  // namespace ryle
