// Visibilities of an integration, in the order of a file: sums become means, and channels the inner axis.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ryle::products {

// How the numbers of sums are to be read.
enum class Kind { kInt64, kInt64Swapped, kFloat64 };

struct Sums {
    const std::int64_t* data;     // [channel][product][re, im], whatever the kind
    std::ptrdiff_t stride;        // numbers from one channel to the next
    const std::uint32_t* counts;  // [group][product], of spectra
    std::ptrdiff_t products;
    std::ptrdiff_t run;  // channels of a group
    Kind kind;
};

// The rows wanted: each has some products, and a sign, 1 or -1, for their imaginary parts.
struct Wanted {
    const std::int64_t* product;  // [row][polarization]
    const std::int64_t* sign;     // [row]
    std::ptrdiff_t rows;
    std::ptrdiff_t polarizations;
};

// Writes out[row][j][polarization][re, im] for the `channels` channels first, first + step, …; rows are `pitch` floats
// apart. A value is float(double(sum) · s) with s = 1.0 / count, or 0.0 for a count of 0, and s · sign for imaginary
// parts.
void normalize(const Sums& sums, const Wanted& wanted, std::ptrdiff_t first, std::ptrdiff_t step,
               std::ptrdiff_t channels, float* out, std::ptrdiff_t pitch);

}  // namespace ryle::products
