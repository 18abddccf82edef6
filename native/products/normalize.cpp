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
constexpr std::ptrdiff_t kFloats = 4096;  // of a tile, about: half of a first-level cache

template <Kind kind>
double number(std::int64_t value) {
    if constexpr (kind == Kind::kInt64Swapped) {
        return static_cast<double>(static_cast<std::int64_t>(__builtin_bswap64(static_cast<std::uint64_t>(value))));
    } else if constexpr (kind == Kind::kFloat64) {
        return std::bit_cast<double>(value);
    } else {
        return static_cast<double>(value);
    }
}

template <Kind kind>
void normalize_as(const Sums& sums, const Wanted& wanted, std::ptrdiff_t first, std::ptrdiff_t step,
                  std::ptrdiff_t channels, float* out, std::ptrdiff_t pitch) {
    const std::ptrdiff_t p = wanted.polarizations, line = kChannels * p * 2;
    const std::ptrdiff_t rows = std::clamp<std::ptrdiff_t>(kFloats / line, 1, wanted.rows);
    std::vector<float> tile(rows * line);
    std::vector<double> re(rows * p), im(rows * p);
    for (std::ptrdiff_t row = 0; row < wanted.rows; row += rows) {
        const std::ptrdiff_t here = std::min(rows, wanted.rows - row);
        const std::int64_t* product = wanted.product + row * p;
        std::ptrdiff_t scaled = -1;  // the group that re and im are of
        for (std::ptrdiff_t low = 0; low < channels; low += kChannels) {
            const std::ptrdiff_t many = std::min(kChannels, channels - low);
            for (std::ptrdiff_t j = 0; j < many; ++j) {
                const std::ptrdiff_t channel = first + step * (low + j), group = channel / sums.run;
                if (group != scaled) {
                    const std::uint32_t* counts = sums.counts + group * sums.products;
                    for (std::ptrdiff_t n = 0; n < here * p; ++n) {
                        const std::uint32_t count = counts[product[n]];
                        re[n] = count == 0 ? 0.0 : 1.0 / count;
                        im[n] = re[n] * static_cast<double>(wanted.sign[row + n / p]);
                    }
                    scaled = group;
                }
                const std::int64_t* from = sums.data + channel * sums.stride;
                for (std::ptrdiff_t r = 0; r < here; ++r) {
                    float* to = tile.data() + r * line + j * p * 2;
                    for (std::ptrdiff_t n = r * p; n < (r + 1) * p; ++n, to += 2) {
                        to[0] = static_cast<float>(number<kind>(from[2 * product[n]]) * re[n]);
                        to[1] = static_cast<float>(number<kind>(from[2 * product[n] + 1]) * im[n]);
                    }
                }
            }
            for (std::ptrdiff_t r = 0; r < here; ++r) {
                std::memcpy(out + (row + r) * pitch + low * p * 2, tile.data() + r * line,
                            many * p * 2 * sizeof(float));
            }
        }
    }
}

}  // namespace

void normalize(const Sums& sums, const Wanted& wanted, std::ptrdiff_t first, std::ptrdiff_t step,
               std::ptrdiff_t channels, float* out, std::ptrdiff_t pitch) {
    switch (sums.kind) {
        case Kind::kInt64:
            return normalize_as<Kind::kInt64>(sums, wanted, first, step, channels, out, pitch);
        case Kind::kInt64Swapped:
            return normalize_as<Kind::kInt64Swapped>(sums, wanted, first, step, channels, out, pitch);
        case Kind::kFloat64:
            return normalize_as<Kind::kFloat64>(sums, wanted, first, step, channels, out, pitch);
    }
}

}  // namespace ryle::products
