// Philox4x32-7, as ryle/channelize/dither.py defines it.
#pragma once
#include "ryle/gpu/device.cuh"

namespace ryle {

DEVICE uint4 philox4x32(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t key0, uint32_t key1) {
#pragma unroll
    for (int round = 0; round < 7; ++round) {
        const uint64_t a = uint64_t(0xD2511F53u) * c0, b = uint64_t(0xCD9E8D57u) * c2;
        c0 = uint32_t(b >> 32) ^ c1 ^ key0;
        c1 = uint32_t(b);
        c2 = uint32_t(a >> 32) ^ c3 ^ key1;
        c3 = uint32_t(a);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
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
