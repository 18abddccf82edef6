// What whole.cu does from the last pass of the Fourier transform on: a warp has two rows of channels of a tile, one
// each half of it; what it has read of z it takes for tables, and for what it has finished.
#pragma once
#include "butterflies.cuh"
#include "quantize.cuh"
#include "store.cuh"
#include "whole_rows.cuh"

namespace ryle::whole {

// The two rows of a warp in the last pass.
DEVICE int row_of(int warp, int which) { return which == 0 ? warp : warp ? 32 - warp : 16; }

// Spectrum s of row `row` of a class's rows of z.
DEVICE float2* point(unsigned char* z, int of_class, int row, int s) {
    return reinterpret_cast<float2*>(z + (of_class * LEGS + row) * Z_ROW + ((s / 2 ^ (row & 7)) << 4) + s % 2 * 8);
}

// Tables of a row of the last pass: in z, in what the warp has read of it.
constexpr int GAINS_AT = 8, IMAGES_AT = 9, MIRROR_AT = 10, MORE_AT = 11;  // classes
DEVICE float2* table(unsigned char* z, int of_class, int row) {
    return reinterpret_cast<float2*>(z + (of_class * LEGS + row) * Z_ROW);
}

// Begin to fetch them: by half warps the gains and mirror turns of the first half of row k1's channels, the gains of
// their images, which begin at `images`; and of row 0 the third quarter of the first two.
DEVICE void fetch_tables(unsigned char* z, int k1, int s, const float2* gains, const float2* images,
                         const float2* mirror) {
    constexpr int EACH = Z_ROW / 16;  // pieces of 16 bytes
    const int piece = s % EACH * 2;   // of MORE_AT: 0 and 2 of gains, then 4 and 6 of mirror turns
    copy_async_if<16>(true, table(z, s < EACH ? GAINS_AT : IMAGES_AT, k1) + piece,
                      (s < EACH ? gains + k1 * POINTS : images) + piece);
    if (s < EACH)
        copy_async_if<16>(true, table(z, MIRROR_AT, k1) + piece, mirror + k1 * POINTS + piece);
    else if (k1 == 0 && s < EACH + 4)
        copy_async_if<16>(true, table(z, MORE_AT, 0) + piece, (s % 4 < 2 ? gains : mirror - 4) + POINTS / 2 + piece);
}

// Finish outputs G + 8t of row 0, t = 0 to 3, of which each is the image of another: half a warp those of G = 0, the
// other half, to which they are given, those of G = 4.
DEVICE void finish_own_images(const float2 (&v)[LAST], int side, uint8_t* z, int s, Tile tile, const DitherKeys& keys,
                              float2* floats, int count, int& over) {
    static_assert(LAST == 32);
    float2 own[4];
#pragma unroll
    for (int t = 0; t < 4; ++t) {
        const float2 given = make_float2(__shfl_sync(~0u, v[4 + t * Q].x, s), __shfl_sync(~0u, v[4 + t * Q].y, s));
        own[t] = side ? given : v[t * Q];
    }
    auto pair = [&](int t, float2& a, float2& b) {
        a = own[t];
        b = side ? own[3 - t] : own[(4 - t) % 4];
    };
    auto place = [&](int t) { return z + s + (side ? staged_place(4 + t * Q) : staged_place(t * Q)); };
    tile.gains = table(z, side ? MORE_AT : GAINS_AT, 0);
    const float2* mirror = side ? table(z, MORE_AT, 0) + 4 : table(z, MIRROR_AT, 0);
    finish_four(side * (4 * STRIDE), 0, s, pair, place, tile, mirror, keys, floats, count, over);
}

// Store what a warp has finished, which is staged in its rows of z, and add its power to `sums`
// [4][THREADS]: a thread has the real or the imaginary parts of four channels.
DEVICE void store(const Tile& tile, const Destination& to, int warp, const uint8_t* z, uint32_t* sums) {
    const uint32_t thread = thread_anew(), lane = thread % 32, part = lane % 2;
    const bool inside = tile.first < to.count && tile.first + TILE > 0;
    const int within = tile.stream % to.pols * 128 + tile.first % 64 / 16 * 32 + part * 16;
    const int64_t block = tile.first / 64 * to.block_bytes + tile.stream / to.pols * to.antenna_bytes + within;
    const int64_t own_block = tile.first / 64 * to.own_block_bytes + tile.stream / to.pols * to.own_antenna_bytes -
                              to.own_first * to.channel_bytes + within;
#pragma unroll
    for (int q = 0; q < 4; ++q) {
        const int k2 = q % 2 * 16 + lane / 2, k1 = row_of(warp, q / 2), channel = k1 + ROWS * k2;
        const uint4 values = *reinterpret_cast<const uint4*>(z + k1 * Z_ROW + staged_place(k2) + part * 16);
        uint32_t& sum = sums[q * THREADS + thread];
        sum = squares(values, sum);
        if constexpr (OUTPUT == TO_BLOCKS) {
            const bool own = OWN && channel >= to.own_first && channel < to.own_end;
            uint8_t* at = static_cast<uint8_t*>(own ? to.own : to.out) + (own ? own_block : block);
            if (inside) *reinterpret_cast<uint4*>(at + channel * to.channel_bytes) = values;
        }
    }
    if constexpr (OUTPUT == TO_HEAPS) {
        const int antenna = tile.stream / to.pols, pol = tile.stream % to.pols;
#pragma unroll 1
        for (int task = lane; task < 2 * POINTS * TILE; task += 32) {
            const int i = task % TILE, k2 = task / TILE % POINTS, row = task / TILE / POINTS, t = tile.first + i;
            if (t < 0 || t >= to.count) continue;
            const int64_t heap = int64_t(antenna) * (to.count / to.heap) + t / to.heap;
            const int64_t channel = row_of(warp, row) + ROWS * k2;
            const int64_t value = ((heap * CHANNELS + channel) * to.heap + t % to.heap) * to.pols + pol;
            const uint8_t *re = z + row_of(warp, row) * Z_ROW + staged_place(k2) + i, *im = re + TILE;
            if constexpr (OUTPUT_BITS == 8)
                static_cast<uint16_t*>(to.out)[value] = uint16_t(*re | *im << 8);
            else
                static_cast<uint8_t*>(to.out)[value] = uint8_t(*re << 4 | (*im & 15));
        }
    }
}

// The last pass of a tile of which the first is complete in z, and all that becomes of its channels, up to quantized
// values in z. Gives how many were clamped. `turns` are shared [LEGS: k1][16]; before each of the four rounds of the
// channels, `meanwhile` is called.
template <class Meanwhile>
DEVICE int last_pass(unsigned char* z, const float2* turns, Tile tile, const float2* mirror, const DitherKeys& keys,
                     float2* floats, int count, const Meanwhile& meanwhile) {
    const uint32_t thread = thread_anew(), warp = thread / 32, s = thread % 16, side = thread / 16 % 2;
    const int k1 = warp ? (side ? 32 - warp : warp) : side * 16, other = warp ? 32 - k1 : k1;
    const bool special = warp == 0 && side == 0;
    float2 v[2][1][LAST];  // of this row, and of the other: images
#pragma unroll
    for (int i = 0; i < CLASSES; ++i) v[0][0][i] = *point(z, i, k1, s);
    __syncwarp();  // what the warp has read can be written to
    fetch_tables(z, k1, s, tile.gains, tile.gains + (special ? 4 : other * POINTS) + POINTS / 2, mirror);
    copy_async_commit();
    float2 of_points[16];
#pragma unroll
    for (int i = 0; i < 16; i += 2) {
        const float4 two = *reinterpret_cast<const float4*>(turns + k1 * 16 + i);
        of_points[i] = make_float2(two.x, two.y);
        of_points[i + 1] = make_float2(two.z, two.w);
    }
    dft_of_turned<LAST, LAST>(v[0][0], of_points);
    copy_async_wait<0>();
    __syncwarp();  // tables are there

    int over = 0;
    tile.pair = k1;
    tile.image = other;
    tile.gains = reinterpret_cast<const float2*>(z);
    tile.staged = nullptr;
    if (warp == 0) finish_own_images(v[0][0], side, z, s, tile, keys, floats, count, over);
#pragma unroll
    for (int j = 0; j < LAST; ++j) {
        if (j % 8 < 4) continue;
        const float2 mine = v[0][0][j];
        const int apart = warp > 0 ? 16 : 0;
        v[1][0][j] = make_float2(__shfl_xor_sync(~0u, mine.x, apart), __shfl_xor_sync(~0u, mine.y, apart));
    }
    if (special) {  // output j is the image of output 32 - j, not of 31 - j
#pragma unroll
        for (int j = 0; j < LAST; ++j)
            if (j % 8 >= 4 && j % 8 < 7) v[1][0][j] = v[0][0][j + 1];
    }
    auto entry = [&](int of_class) { return (of_class * LEGS + k1) * (Z_ROW / 8); };  // as tables follow z
    const Butterfly both[2] = {
        {k1, z + k1 * Z_ROW + s, entry(GAINS_AT)},
        {special ? STRIDE : other, z + other * Z_ROW + s + (special ? 2 * TILE : 0), entry(IMAGES_AT) - POINTS / 2}};
    finish_butterflies<Q / 2>(v, both, s, tile, tile.gains + (MIRROR_AT - GAINS_AT) * (LEGS * Z_ROW / 8), keys, floats,
                              count, over, special, meanwhile);
    return over;
}

}  // namespace ryle::whole
