// Stretches of packed streams of samples: of 1-10, 12 or 16 bits, or floats of 32, big-endian.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "samples.h"

namespace ryle {

// Of an instruction set, or the fastest that there is; throws if this machine has no such one.
const SampleKernels& sample_kernels(const std::string& isa);

// Those that this machine has, the fastest first.
std::vector<std::string> sample_instruction_sets();

// Samples [first, first + count) of a packed stream.
void unpack_range(const uint8_t* data, int bits, size_t first, size_t count, const SampleKernels& isa, float* out);

// The sum of their squares, exactly; `bits` is at most 16.
uint64_t sum_squares_range(const uint8_t* data, int bits, size_t first, size_t count, const SampleKernels& isa);

// The sum of their squares, of floats.
double sum_squares_float_range(const uint8_t* data, size_t first, size_t count);

// Adds to `counts` how often each of the levels -reach to reach occurs among the values, in units of `level`, a power
// of two, and rounded half to even; the outermost stand for all beyond them. What is no number is not counted.
void count_levels(const uint8_t* data, int bits, size_t first, size_t count, const SampleKernels& isa, float level,
                  int reach, int64_t* counts);

}  // namespace ryle
