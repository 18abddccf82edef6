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

// Outputs of row 0 that are each other's images, or their own (0 and 16): the pairs of its round 0, where `own` is set.
// In slot 3 values are as `separate` leaves them, but for a factor of two.
struct OwnImages : Regular {
    bool own;

    explicit DEVICE OwnImages(bool own) : own(own) {}
    DEVICE int output(int side, int t, int regular) const {
        if (!own) return regular;
        return side ? (t == 0 ? 28 : t == 1 ? 24 : t == 2 ? 12 : 16) : (t == 0 ? 4 : t == 1 ? 8 : t == 2 ? 20 : 0);
    }
    DEVICE int base(int base) const { return own ? 0 : base; }
    DEVICE Turns turns(int t, Turns centre, Spectrum spectrum) const {
        const float2 middle = spectrum.phase;  // turn of channel n/2
        if (own && t % 2 == 0) centre = {middle, middle};
        if (own && t == 3) spectrum.three_eighths = conj(spectrum.three_eighths);
        Turns turn = Regular::turns(t, centre, spectrum);
        if (own && t == 3) turn.image = middle;
        return turn;
    }
    DEVICE uint2 dither(int t, const uint4& first, const uint4& fourth) const {  // of outputs 0 and 4
        if (!own) return Regular::dither(t, first, fourth);
        return t == 0   ? make_uint2(fourth.x, fourth.w)
               : t == 1 ? make_uint2(first.y, first.w)
               : t == 2 ? make_uint2(fourth.z, fourth.y)
                        : make_uint2(first.x, first.z);
    }
};

// Begin to fetch them: by half warps the gains and mirror turns of the first half of row k1's channels, the gains of
// their images, which begin at `images`; and of row 0 those of OwnImages: eight of gains, four of mirror turns.
DEVICE void fetch_tables(unsigned char* z, int k1, int s, const float2* gains, const float2* images,
                         const float2* mirror) {
    static_assert(LAST == 32);
    constexpr int EACH = Z_ROW / 16;  // pieces of 16 bytes
    const int piece = s % EACH * 2;
    copy_async_if<16>(true, table(z, s < EACH ? GAINS_AT : IMAGES_AT, k1) + piece,
                      (s < EACH ? gains + k1 * POINTS : images) + piece);
    if (s < EACH) copy_async_if<16>(true, table(z, MIRROR_AT, k1) + piece, mirror + k1 * POINTS + piece);
    if (k1 == 0) {
        // Where the tables have outputs 8, 20, 4, 0, and 12, 24, 16, 28, as finish_round takes them.
        constexpr uint64_t ORDER = 0x1301031002121100;
        const int from = int(ORDER >> s % 8 * 8 & 31);
        float2* to = table(z, MORE_AT, 0) + s;
        copy_async_if<8>(s < 11, to, (s < 8 ? gains : mirror) + from);
        if (s == 11) *to = make_float2(1, 0);
    }
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
        const uint4 values = parts_of(z + k1 * Z_ROW + staged_place(k2), part);
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
            const uint8_t* parts = z + row_of(warp, row) * Z_ROW + staged_place(k2) + 2 * i;
            if constexpr (OUTPUT_BITS == 8)
                static_cast<uint16_t*>(to.out)[value] = *reinterpret_cast<const uint16_t*>(parts);
            else
                static_cast<uint8_t*>(to.out)[value] = uint8_t(parts[0] << 4 | (parts[1] & 15));
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
#pragma unroll
    for (int j = 0; j < LAST; ++j) {
        if (j % 8 < 4) continue;
        const float2 mine = v[0][0][j];
        const int apart = warp > 0 ? 16 : 0;
        v[1][0][j] = make_float2(__shfl_xor_sync(~0u, mine.x, apart), __shfl_xor_sync(~0u, mine.y, apart));
    }
    if (special) {  // output j is the image of output 32 - j, not of 31 - j; then OwnImages
#pragma unroll
        for (int j = 0; j < LAST; ++j)
            if (j % 8 >= 4 && j % 8 < 7) v[1][0][j] = v[0][0][j + 1];
        v[1][0][31] = v[0][0][28], v[1][0][23] = v[0][0][24], v[1][0][15] = v[0][0][12];
        const float2 first = v[0][0][0], middle = v[0][0][16];
        v[0][0][24] = COMPLEX ? first : make_float2(first.x + first.y, 0);
        v[1][0][7] = COMPLEX ? middle : conj(middle);
        v[0][0][0] = v[0][0][4], v[0][0][16] = v[0][0][20];
    }
    auto entry = [&](int of_class) { return (of_class * LEGS + k1) * (Z_ROW / 8); };  // as tables follow z
    const Butterfly both[2] = {{k1, z + k1 * Z_ROW + of_spectrum(s), entry(GAINS_AT)},
                               {special ? STRIDE : other, z + other * Z_ROW + of_spectrum(s) + (special ? 2 * TILE : 0),
                                entry(IMAGES_AT) - POINTS / 2}};
    mirror = tile.gains + (MIRROR_AT - GAINS_AT) * (LEGS * Z_ROW / 8);
    unrolled<Q / 2>([&](auto round) {
        constexpr int i = round.value;
        meanwhile(round);
        if (i == 0 && warp == 0) {
            // Dither is that of outputs 0 and 4; tables of the second ones begin 28 after `entry`.
            const Butterfly own[2] = {{0, z + of_spectrum(s), entry(MORE_AT)},
                                      {(4 - (Q - 1)) * STRIDE, z + of_spectrum(s), entry(MORE_AT) + 4 - (LAST - 4)}};
            const Butterfly first[2] = {special ? own[0] : both[0], special ? own[1] : both[1]};
            finish_round<0>(v, first, s, tile, special ? tile.gains + 8 : mirror, keys, floats, count, over,
                            OwnImages(special));
        } else {
            finish_round<i>(v, both, s, tile, mirror, keys, floats, count, over);
        }
    });
    return over;
}

}  // namespace ryle::whole
