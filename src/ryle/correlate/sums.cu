// What happens to sums on the GPU after the multiplication, and the counts of what contributed to them.
#include "ryle/correlate/kblocks.cuh"

using namespace ryle;

// Add, for every product, in how many spectra of `blocks` K-blocks both inputs are valid, by words
// valid [group][all_blocks][input]; counts [group][product], blockIdx.y is the group.
KERNEL(256, 1)
count_valid(const uint64_t* valid, uint32_t* counts, int all_blocks, int first_block, int blocks) {
    const int product = blockIdx.x * 256 + threadIdx.x;
    if (product >= PRODUCTS) return;
    const int baseline = product / (POLS * POLS), pols = product % (POLS * POLS);
    int a2 = static_cast<int>((sqrtf(8.0f * baseline + 1.0f) - 1.0f) / 2);
    while (a2 * (a2 + 1) / 2 > baseline)  // the root was rounded
        --a2;
    while ((a2 + 1) * (a2 + 2) / 2 <= baseline) ++a2;
    const int a1 = baseline - a2 * (a2 + 1) / 2;
    const uint64_t* words = valid + (int64_t(blockIdx.y) * all_blocks + first_block) * INPUTS;
    const int i = POLS * a1 + pols % POLS, j = POLS * a2 + pols / POLS;
    uint32_t count = 0;
    for (int block = 0; block < blocks; ++block, words += INPUTS) count += __popcll(words[i] & words[j]);
    counts[int64_t(blockIdx.y) * PRODUCTS + product] += count;
}

// to += from, for sums of 32 bits, which begin anew after this.
KERNEL(256, 1) add_sums(int64_t* to, const int* from, int64_t count) {
    for (int64_t n = int64_t(blockIdx.x) * 256 + threadIdx.x; n < count; n += int64_t(gridDim.x) * 256)
        to[n] += from[n];
}

// to += from, for sums of 64 bits and counts of 32: a long integration takes up a short one.
KERNEL(256, 1)
add_integration(int64_t* to, const int64_t* from, int64_t count, uint32_t* to_counts, const uint32_t* counts,
                int64_t counted) {
    for (int64_t n = int64_t(blockIdx.x) * 256 + threadIdx.x; n < count; n += int64_t(gridDim.x) * 256)
        to[n] += from[n];
    for (int64_t n = int64_t(blockIdx.x) * 256 + threadIdx.x; n < counted; n += int64_t(gridDim.x) * 256)
        to_counts[n] += counts[n];
}
