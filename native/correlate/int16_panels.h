// Panels of int16 for CPUs whose multipliers take 16-bit factors, shared by the portable and the AVX2 kernel.
// Everything has internal linkage: each includer compiles it for its own instruction set.
//
// Three real products make a complex one (Gauss): with x_i = r + j m and x_j = s + j t,
//     k1 = (r + m) s,  k2 = r (s + t),  k3 = m (s - t);   Re x_i conj(x_j) = k1 - k3,  Im x_i conj(x_j) = k1 - k2.
// Factors reach 254 and a sum over a K-block 2·64·127², the same bound as for the parts themselves.
#pragma once

#include <bit>
#include <cstring>

#include "kernel.h"

namespace ryle::correlate {
namespace {

static_assert(std::endian::native == std::endian::little, "validity words are expanded bytewise, LSB first");

constexpr int kTile = 2;  // inputs on a tile's side
constexpr int kForms = 3;
constexpr int kPanel = kForms * kTile * kSpectra;  // int16 of one tile row and block: [form][input of the tile][64]

std::size_t int16_panel_bytes(int inputs, int blocks) {
    return std::size_t{2} * ceil_div(inputs, kTile) * blocks * kPanel * sizeof(std::int16_t);
}

// 0xff in byte s where bit s of the validity word is set.
inline void expand(std::uint64_t valid, std::uint8_t* mask) {
    for (int byte = 0; byte < 8; ++byte) {
        std::uint64_t bits = ((valid >> (8 * byte)) & 0xff) * 0x0101010101010101u & 0x8040201008040201u;
        bits = ((bits + 0x7f7f7f7f7f7f7f7fu) & 0x8080808080808080u) >> 7;
        bits *= 0xff;
        std::memcpy(mask + 8 * byte, &bits, 8);
    }
}

std::uint64_t int16_pack(const Rows& rows, void* panels) {
    const int tiles = ceil_div(rows.inputs, kTile);
    auto* first = static_cast<std::int16_t*>(panels);
    auto* second = first + std::size_t{1} * tiles * rows.blocks * kPanel;
    std::uint64_t clamped = 0;
    for (int block = 0; block < rows.blocks; ++block) {
        InputPlaces data = rows.data_places(), words = rows.valid_places();
        for (int input = 0; input < tiles * kTile; ++input, data.advance(), words.advance()) {
            alignas(64) std::int8_t row[kRowBytes];  // all real parts, then all imaginary parts
            const std::uint64_t valid = input < rows.inputs ? rows.valid[block * rows.valid_stride + words.at()] : 0;
            if (valid == 0) {
                std::memset(row, 0, sizeof row);
            } else {
                const std::int8_t* in = rows.data + block * rows.data_stride + data.at();
                for (int s = 0; s < kSpectra; s += kRowGroup) {
                    std::memcpy(row + s, in + row_place(s, 0), kRowGroup);
                    std::memcpy(row + kSpectra + s, in + row_place(s, 1), kRowGroup);
                }
                if (~valid != 0) {
                    alignas(64) std::uint8_t mask[kSpectra];
                    expand(valid, mask);
                    for (int k = 0; k < kRowBytes; ++k) row[k] = static_cast<std::int8_t>(row[k] & mask[k % kSpectra]);
                }
                std::uint8_t low = 0;  // at most 128 of them
                for (int k = 0; k < kRowBytes; ++k) {
                    low = static_cast<std::uint8_t>(low + (row[k] == -128));
                    row[k] = row[k] < -127 ? std::int8_t{-127} : row[k];
                }
                clamped += low;
            }
            const std::size_t place =
                (std::size_t{1} * (input / kTile) * rows.blocks + block) * kPanel + input % kTile * kSpectra;
            std::int16_t* a = first + place;
            std::int16_t* b = second + place;
            constexpr int next = kTile * kSpectra;
            for (int k = 0; k < kSpectra; ++k) {
                const auto re = static_cast<std::int16_t>(row[k]);
                const auto im = static_cast<std::int16_t>(row[kSpectra + k]);
                a[k] = static_cast<std::int16_t>(re + im);
                a[next + k] = re;
                a[2 * next + k] = im;
                b[k] = re;
                b[next + k] = static_cast<std::int16_t>(re + im);
                b[2 * next + k] = static_cast<std::int16_t>(re - im);
            }
        }
    }
    return clamped;
}

// Calls body(first panel of i, first panel of j, tile) for every tile of the triangle.
template <typename Body>
inline void for_each_int16_tile(const void* panels, int inputs, int blocks, std::int32_t* tiles, Body body) {
    const int columns = ceil_div(inputs, kTile);
    const auto* first = static_cast<const std::int16_t*>(panels);
    const auto* second = first + std::size_t{1} * columns * blocks * kPanel;
    for (int jt = 0; jt < columns; ++jt) {
        const int count = tiles_in_column(jt, inputs, kTile, kTile);
        for (int it = 0; it < count; ++it, tiles += 2 * kTile * kTile) {
            body(first + std::size_t{1} * it * blocks * kPanel, second + std::size_t{1} * jt * blocks * kPanel, tiles);
        }
    }
}

}  // namespace
}  // namespace ryle::correlate
