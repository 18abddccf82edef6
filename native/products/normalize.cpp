#include "normalize.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace ryle::products {
namespace {

// A tile is gathered in the cache and copied out in runs of whole lines: rows of a file are often a power of two apart,
// and written one by one they would evict each other.
constexpr std::ptrdiff_t kChannels = 16;  // of a tile
constexpr std::ptrdiff_t kValues = 2048;  // of a tile, about: half of a first-level cache
constexpr std::ptrdiff_t kAhead = 2;      // channels that are fetched before they are wanted

// Conversion of 64-bit integers needs AVX-512 to be done eight at a time; nothing here may be contracted or reordered.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define RYLE_CLONES __attribute__((target_clones("arch=skylake-avx512", "avx2", "default")))
#else
#define RYLE_CLONES
#endif

RYLE_CLONES void from_int64(const std::int64_t* from, const double* scale, float* to, std::ptrdiff_t n) {
    for (std::ptrdiff_t i = 0; i < n; ++i) to[i] = static_cast<float>(static_cast<double>(from[i]) * scale[i]);
}

RYLE_CLONES void from_swapped(const std::int64_t* from, const double* scale, float* to, std::ptrdiff_t n) {
    for (std::ptrdiff_t i = 0; i < n; ++i) {
        const auto value = static_cast<std::int64_t>(__builtin_bswap64(static_cast<std::uint64_t>(from[i])));
        to[i] = static_cast<float>(static_cast<double>(value) * scale[i]);
    }
}

RYLE_CLONES void from_float64(const std::int64_t* from, const double* scale, float* to, std::ptrdiff_t n) {
    for (std::ptrdiff_t i = 0; i < n; ++i) to[i] = static_cast<float>(std::bit_cast<double>(from[i]) * scale[i]);
}

using Convert = void (*)(const std::int64_t*, const double*, float*, std::ptrdiff_t);

Convert convert_of(Kind kind) {
    return kind == Kind::kInt64 ? from_int64 : kind == Kind::kInt64Swapped ? from_swapped : from_float64;
}

}  // namespace

void normalize(const Sums& sums, const Wanted& wanted, std::ptrdiff_t first, std::ptrdiff_t step,
               std::ptrdiff_t channels, float* out, std::ptrdiff_t pitch) {
    const Convert convert = convert_of(sums.kind);
    const std::ptrdiff_t p = wanted.polarizations, line = kChannels * p;
    const std::ptrdiff_t rows = std::clamp<std::ptrdiff_t>(kValues / line, 1, wanted.rows);
    std::vector<float> tile(2 * rows * line), converted;
    std::vector<double> scale;
    std::vector<std::ptrdiff_t> place(rows * p);
    for (std::ptrdiff_t row = 0; row < wanted.rows; row += rows) {
        const std::ptrdiff_t here = std::min(rows, wanted.rows - row);
        // Rows of an observation are neighbouring products, each once: a whole run of them is converted as it lies.
        const std::int64_t* product = wanted.product + row * p;
        const auto [low_product, high_product] = std::minmax_element(product, product + here * p);
        const std::ptrdiff_t begin = *low_product, run = *high_product - begin + 1;
        for (std::ptrdiff_t n = 0; n < here * p; ++n) place[n] = product[n] - begin;
        converted.resize(2 * run);
        scale.resize(2 * run);
        std::ptrdiff_t scaled = -1;  // the group that scale is of
        for (std::ptrdiff_t low = 0; low < channels; low += kChannels) {
            const std::ptrdiff_t many = std::min(kChannels, channels - low);
            for (std::ptrdiff_t j = 0; j < many; ++j) {
                const std::ptrdiff_t channel = first + step * (low + j), group = channel / sums.run;
                if (group != scaled) {
                    const std::uint32_t* counts = sums.counts + group * sums.products + begin;
                    for (std::ptrdiff_t n = 0; n < run; ++n) {
                        scale[2 * n] = scale[2 * n + 1] = counts[n] == 0 ? 0.0 : 1.0 / counts[n];
                    }
                    scaled = group;
                }
                const std::int64_t* from = sums.data + channel * sums.stride + 2 * begin;
                // The next ones are in other pages, where no hardware looks ahead.
                const std::ptrdiff_t ahead = std::min(channels - 1 - (low + j), kAhead) * step * sums.stride;
                for (std::ptrdiff_t n = 0; n < 2 * run; n += 8) __builtin_prefetch(from + ahead + n);
                convert(from, scale.data(), converted.data(), 2 * run);
                for (std::ptrdiff_t r = 0; r < here; ++r) {
                    const float sign = wanted.sign[row + r] < 0 ? -1.0F : 1.0F;
                    float* to = tile.data() + 2 * (r * line + j * p);
                    for (std::ptrdiff_t q = 0; q < p; ++q) {
                        const float* value = converted.data() + 2 * place[r * p + q];
                        to[2 * q] = value[0];
                        to[2 * q + 1] = value[1] * sign;
                    }
                }
            }
            for (std::ptrdiff_t r = 0; r < here; ++r) {
                std::memcpy(out + ((row + r) * pitch + low * p * 2), tile.data() + 2 * r * line,
                            many * p * sizeof(float) * 2);
            }
        }
    }
}

}  // namespace ryle::products
