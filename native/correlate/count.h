// Contribution counts. Internal linkage: each includer compiles it for its own instruction set (popcnt or not).
#pragma once

#include <bit>

#include "kernel.h"

namespace ryle::correlate {
namespace {

inline void count_pairs(const std::uint64_t* words, int inputs, int blocks, std::uint32_t* counts) {
    for (int j = 0; j < inputs; ++j) {
        const std::uint64_t* b = words + std::ptrdiff_t{j} * blocks;
        for (int i = 0; i <= j; ++i) {
            const std::uint64_t* a = words + std::ptrdiff_t{i} * blocks;
            std::uint32_t sum = 0;
            for (int block = 0; block < blocks; ++block) sum += std::popcount(a[block] & b[block]);
            *counts++ += sum;
        }
    }
}

}  // namespace
}  // namespace ryle::correlate
