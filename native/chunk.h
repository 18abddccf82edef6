// The order of a K-block's row, for all native code; ryle.chunk says the same for Python.
#pragma once

namespace ryle {

constexpr int kBlock = 64;             // spectra in a K-block
constexpr int kRowBytes = 2 * kBlock;  // bytes of one input and channel in a K-block
constexpr int kRowGroup = 16;          // spectra whose parts lie together: 16 real parts, then 16 imaginary parts

// Where the real (part 0) or imaginary part (1) of a block's spectrum lies in its row. Static because files built for
// different instruction sets include it.
static constexpr int row_place(int spectrum, int part) { return spectrum + (spectrum & -kRowGroup) + part * kRowGroup; }

}  // namespace ryle
