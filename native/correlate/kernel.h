// What a form of the X-engine's inner loop offers to the driver in accumulate.cpp.
//
// A kernel turns K-blocks of one channel (rows of 64 complex int8 values, chunk.h) into sums over time of
// x_i conj(x_j) for the triangle i <= j, tile by tile. It does so in two steps: pack() zeroes what is missing, clamps
// -128 and arranges `blocks` blocks as the multiplier wants to read them ("panels"); multiply() adds their products to
// int32 tiles. The driver adds the tiles to int64 visibilities before they can overflow.
#pragma once

#include <cstddef>
#include <cstdint>

#include "chunk.h"

namespace ryle::correlate {

constexpr int kSpectra = kBlock;

// One K-block adds at most 2·64·127² in magnitude to the real or imaginary part of a product, so this many fit in
// int32. Intermediate sums may wrap (all arithmetic is modulo 2³²): only what a tile holds between calls must fit.
constexpr std::int64_t kBlockBound = std::int64_t{2} * kSpectra * 127 * 127;
constexpr int kRunBlocks = static_cast<int>(INT32_MAX / kBlockBound);
static_assert(kRunBlocks * kBlockBound <= INT32_MAX);

// Where an input's row or word lies: input = antenna · pols + pol. Of inputs side by side, every one is an antenna.
struct InputStrides {
    std::ptrdiff_t antenna, pol;
};

// Places of inputs 0, 1, 2, ... one after the other, without divisions.
class InputPlaces {
  public:
    InputPlaces(InputStrides strides, int pols)
        : pol_(strides.pol), next_(strides.antenna - (pols - 1) * strides.pol), pols_(pols) {}
    std::ptrdiff_t at() const { return at_; }
    inline __attribute__((always_inline)) void advance() {
        const bool last = ++of_pol_ == pols_;
        at_ += last ? next_ : pol_;
        of_pol_ = last ? 0 : of_pol_;
    }

  private:
    std::ptrdiff_t pol_, next_, at_ = 0;
    int pols_, of_pol_ = 0;
};

// K-blocks of one channel, and which of their spectra are valid.
struct Rows {
    const std::int8_t* data;  // [block][antenna][pol][128]; strides in bytes
    std::ptrdiff_t data_stride;
    InputStrides data_inputs;
    const std::uint64_t* valid;  // [block][antenna][pol]; strides in words
    std::ptrdiff_t valid_stride;
    InputStrides valid_inputs;
    int pols;
    int inputs;
    int blocks;

    InputPlaces data_places() const { return {data_inputs, pols}; }
    InputPlaces valid_places() const { return {valid_inputs, pols}; }
};

// Rows that will be packed next, fetched towards the second-level cache while the multiplier works on the present ones:
// reading spectra from memory takes about half as long as multiplying them with VNNI.
class Prefetch {
  public:
    Prefetch(const Rows& next, int tiles)
        : data_(next.data),
          stride_(next.data_stride),
          start_(next.data_places()),
          places_(start_),
          inputs_(next.inputs),
          blocks_(next.blocks),
          share_(tiles > 0 ? (inputs_ * blocks_ + tiles - 1) / tiles : 0) {}

    // A tile's share.
    inline __attribute__((always_inline)) void fetch() {
        for (int n = 0; n < share_ && block_ < blocks_; ++n) {
            const std::int8_t* row = data_ + block_ * stride_ + places_.at();
            __builtin_prefetch(row, 0, 2);
            __builtin_prefetch(row + kRowBytes / 2, 0, 2);
            places_.advance();
            if (++input_ == inputs_) {
                places_ = start_;
                input_ = 0;
                ++block_;
            }
        }
    }

  private:
    const std::int8_t* data_;
    std::ptrdiff_t stride_;
    InputPlaces start_, places_;
    int inputs_;
    int blocks_;
    int share_;  // rows
    int input_ = 0;
    int block_ = 0;
};

struct Kernel {
    const char* name;
    int tile_i;  // a tile is int32 [re, im][tile_j][tile_i]; tiles are ordered by j, then i
    int tile_j;
    const char* (*unavailable)();  // why this CPU cannot run it, or nullptr (features.cpp)
    std::size_t (*panel_bytes)(int inputs, int blocks);
    std::uint64_t (*pack)(const Rows& rows, void* panels);  // returns the number of valid -128 values replaced by -127
    void (*multiply)(const void* panels, int inputs, int blocks, std::int32_t* tiles, Prefetch& next);
    // Adds popcount(v_i & v_j) over the blocks to counts[j(j+1)/2 + i]; words is [input][block].
    void (*count)(const std::uint64_t* words, int inputs, int blocks, std::uint32_t* counts);
};

// These two are static because files built for other instruction sets include them.
// Tiles that touch the triangle i <= j: how many in column jt of tiles.
static constexpr int tiles_in_column(int jt, int inputs, int tile_i, int tile_j) {
    int last = (jt + 1) * tile_j;
    if (last > inputs) last = inputs;
    return (last + tile_i - 1) / tile_i;
}

static constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

const char* without_avx2();
const char* without_vnni();
const char* without_amx();

extern const Kernel kPortable;
#if defined(__x86_64__)
extern const Kernel kAvx2;
extern const Kernel kVnni;
extern const Kernel kAmx;
void count_avx2(const std::uint64_t* words, int inputs, int blocks, std::uint32_t* counts);
#endif

}  // namespace ryle::correlate
