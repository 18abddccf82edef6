// The X-engine on CPU: drives a kernel over channels and blocks, keeps int32 sums from overflowing, splits over
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "kernel.h"

namespace ryle::correlate {

// All kernels that this program holds, fastest first.
const std::vector<const Kernel*>& kernels();

// A run of K-blocks of a chunk. Strides are in elements.
struct Run {
    const std::int8_t* data;  // [channel][block][antenna][pol][128]
    std::ptrdiff_t channel_stride, block_stride;
    InputStrides inputs;
    const std::uint64_t* valid;  // [group][block][antenna][pol]
    std::ptrdiff_t valid_group_stride, valid_block_stride;
    InputStrides valid_inputs;
    int channels, groups, blocks, pols;
};

class Accumulator {
  public:
    // `product` gives for the pair j(j+1)/2 + i the place of x_i conj(x_j) among `products`.
    Accumulator(const Kernel& kernel, int inputs, std::vector<std::int32_t> product, int products, int threads);

    // Adds a run to visibilities int64 [channel][product][2] and counts uint32 [group][product].
    // Returns the number of valid -128 values taken as -127.
    std::uint64_t add(const Run& run, std::int64_t* visibilities, std::uint32_t* counts);

    bool fits(std::size_t inputs, std::size_t products) const {
        return inputs == static_cast<std::size_t>(inputs_) && products == static_cast<std::size_t>(products_);
    }

  private:
    struct AlignedDelete {
        void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
    };
    using Buffer = std::unique_ptr<std::byte[], AlignedDelete>;
    struct Workspace {
        Buffer panels;
        std::size_t panels_size = 0;
        Buffer tiles;
        std::vector<std::uint64_t> words;
        std::vector<std::uint32_t> pairs;
    };

    static Buffer allocate(std::size_t bytes);
    std::uint64_t add_channel(const Run& run, int channel, int step, Workspace& work, std::int64_t* visibilities) const;
    void flush(const std::int32_t* tiles, std::int64_t* visibilities) const;
    void add_counts(const Run& run, int group, Workspace& work, std::uint32_t* counts) const;

    const Kernel& kernel_;
    int inputs_;
    int products_;
    std::vector<std::int32_t> product_;
    int tiles_ = 0;
    std::size_t tile_values_ = 0;
    std::vector<Workspace> work_;
    std::mutex mutex_;
};

}  // namespace ryle::correlate
