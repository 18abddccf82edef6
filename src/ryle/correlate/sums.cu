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

// to += added, for sums of 32 bits, which begin anew after this.
KERNEL(256, 1) add_sums(int64_t* to, const int* added, int64_t count) {
    for (int64_t n = int64_t(blockIdx.x) * 256 + threadIdx.x; n < count; n += int64_t(gridDim.x) * 256)
        to[n] += added[n];
}

// to += added, for sums of 64 bits and counts of 32: a long integration takes up a short one.
KERNEL(256, 1)
add_integration(int64_t* to, const int64_t* added, int64_t count, uint32_t* to_counts, const uint32_t* added_counts,
                int64_t counted) {
    for (int64_t n = int64_t(blockIdx.x) * 256 + threadIdx.x; n < count; n += int64_t(gridDim.x) * 256)
        to[n] += added[n];
    for (int64_t n = int64_t(blockIdx.x) * 256 + threadIdx.x; n < counted; n += int64_t(gridDim.x) * 256)
        to_counts[n] += added_counts[n];
}

// Sums as MeerKAT's heaps hold them, [channel][product][re, im]: no more than ±(2^31 - 1), and (-2^31, 1) where nothing
// contributed by counts [group][product].
KERNEL(256, 1)
saturate(const longlong2* sums, const uint32_t* counts, int2* to, int channels, int group_channels) {
    constexpr int64_t MOST = 0x7FFFFFFF;
    const auto bounded = [](int64_t x) { return static_cast<int>(x > MOST ? MOST : x < -MOST ? -MOST : x); };
    const int product = blockIdx.x * 256 + threadIdx.x;
    if (product >= PRODUCTS) return;
    for (int channel = blockIdx.y; channel < channels; channel += gridDim.y) {
        const longlong2 sum = sums[int64_t(channel) * PRODUCTS + product];
        const bool any = counts[int64_t(channel / group_channels) * PRODUCTS + product] > 0;
        to[int64_t(channel) * PRODUCTS + product] =
            any ? make_int2(bounded(sum.x), bounded(sum.y)) : make_int2(-MOST - 1, 1);
    }
}

// Sums divided by how many spectra contributed, rounded once from float64 to float32; zero where none did.
KERNEL(256, 1)
normalize(const longlong2* sums, const uint32_t* counts, float2* to, int channels, int group_channels) {
    const int product = blockIdx.x * 256 + threadIdx.x;
    if (product >= PRODUCTS) return;
    for (int channel = blockIdx.y; channel < channels; channel += gridDim.y) {
        const longlong2 sum = sums[int64_t(channel) * PRODUCTS + product];
        const uint32_t count = counts[int64_t(channel / group_channels) * PRODUCTS + product];
        const double scale = count ? 1.0 / count : 0.0;
        to[int64_t(channel) * PRODUCTS + product] =
            make_float2(static_cast<float>(sum.x * scale), static_cast<float>(sum.y * scale));
    }
}
