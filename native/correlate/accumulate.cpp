#include "accumulate.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <thread>

namespace ryle::correlate {
namespace {

// Panels of this size stay in a core's second-level cache next to what streams through it.
constexpr std::size_t kPanelBudget = 256 * 1024;

}  // namespace

const std::vector<const Kernel*>& kernels() {
#if defined(__x86_64__)
    static const std::vector<const Kernel*> all{&kAmx, &kVnni, &kAvx2, &kPortable};
#else
    static const std::vector<const Kernel*> all{&kPortable};
#endif
    return all;
}

Accumulator::Buffer Accumulator::allocate(std::size_t bytes) {
    return Buffer(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{64})));
}

Accumulator::Accumulator(const Kernel& kernel, int inputs, std::vector<std::int32_t> product, int products, int threads)
    : kernel_(kernel),
      inputs_(inputs),
      products_(products),
      product_(std::move(product)),
      work_(static_cast<std::size_t>(threads)) {
    for (int jt = 0; jt < ceil_div(inputs, kernel.tile_j); ++jt) {
        tiles_ += tiles_in_column(jt, inputs, kernel.tile_i, kernel.tile_j);
    }
    tile_values_ = std::size_t{2} * tiles_ * kernel.tile_i * kernel.tile_j;
    for (auto& work : work_) {
        work.tiles = allocate(tile_values_ * sizeof(std::int32_t));
        work.pairs.resize(product_.size());
    }
}

void Accumulator::flush(const std::int32_t* tile, std::int64_t* visibilities) const {
    const int tile_i = kernel_.tile_i;
    const int tile_j = kernel_.tile_j;
    for (int jt = 0; jt < ceil_div(inputs_, tile_j); ++jt) {
        const int last_j = std::min((jt + 1) * tile_j, inputs_);
        const int count = tiles_in_column(jt, inputs_, tile_i, tile_j);
        for (int it = 0; it < count; ++it, tile += 2 * tile_i * tile_j) {
            const int first_i = it * tile_i;
            for (int j = jt * tile_j; j < last_j; ++j) {
                const std::int32_t* re = tile + (j - jt * tile_j) * tile_i;
                const std::int32_t* im = re + tile_i * tile_j;
                const std::int32_t* product = product_.data() + static_cast<std::ptrdiff_t>(j) * (j + 1) / 2 + first_i;
                const int columns = std::min(tile_i, j + 1 - first_i);
                for (int i = 0; i < columns; ++i) {
                    std::int64_t* sum = visibilities + 2 * static_cast<std::ptrdiff_t>(product[i]);
                    sum[0] += re[i];
                    sum[1] += im[i];
                }
            }
        }
    }
}

std::uint64_t Accumulator::add_channel(const Run& run, int channel, int step, Workspace& work,
                                       std::int64_t* visibilities) const {
    auto* tiles = reinterpret_cast<std::int32_t*>(work.tiles.get());
    const std::int8_t* data = run.data + channel * run.channel_stride;
    const std::uint64_t* valid =
        run.valid + static_cast<std::ptrdiff_t>(channel) * run.groups / run.channels * run.valid_group_stride;
    std::uint64_t clamped = 0;
    int summed = 0;  // blocks in the tiles
    for (int first = 0; first < run.blocks;) {
        if (summed == 0) std::memset(tiles, 0, tile_values_ * sizeof(std::int32_t));
        const int blocks = std::min({step, run.blocks - first, kRunBlocks - summed});
        const Rows rows{data + first * run.block_stride,
                        run.block_stride,
                        run.inputs,
                        valid + first * run.valid_block_stride,
                        run.valid_block_stride,
                        run.valid_inputs,
                        run.pols,
                        inputs_,
                        blocks};
        clamped += kernel_.pack(rows, work.panels.get());
        first += blocks;
        // Next come this channel's following blocks, or the next channel's first.
        Rows next = rows;
        next.blocks = std::min(step, run.blocks - first);
        next.data = data + first * run.block_stride;
        if (next.blocks == 0 && channel + 1 < run.channels) {
            next.blocks = std::min(step, run.blocks);
            next.data = data + run.channel_stride;
        }
        Prefetch prefetch(next, tiles_);
        kernel_.multiply(work.panels.get(), inputs_, blocks, tiles, prefetch);
        summed += blocks;
        assert(summed <= kRunBlocks);
        if (summed == kRunBlocks || first == run.blocks) {
            flush(tiles, visibilities + static_cast<std::ptrdiff_t>(channel) * products_ * 2);
            summed = 0;
        }
    }
    return clamped;
}

void Accumulator::add_counts(const Run& run, int group, Workspace& work, std::uint32_t* counts) const {
    const std::uint64_t* valid = run.valid + group * run.valid_group_stride;
    counts += static_cast<std::ptrdiff_t>(group) * products_;
    bool complete = true;
    for (int block = 0; block < run.blocks; ++block) {
        const std::uint64_t* row = valid + block * run.valid_block_stride;
        InputPlaces places(run.valid_inputs, run.pols);
        for (int input = 0; input < inputs_; ++input, places.advance()) {
            const std::uint64_t word = row[places.at()];
            work.words[static_cast<std::size_t>(input) * run.blocks + block] = word;
            complete &= ~word == 0;
        }
    }
    if (complete) {
        for (const std::int32_t product : product_)
            counts[product] += static_cast<std::uint32_t>(run.blocks) * kSpectra;
        return;
    }
    std::fill(work.pairs.begin(), work.pairs.end(), 0u);
    kernel_.count(work.words.data(), inputs_, run.blocks, work.pairs.data());
    for (std::size_t pair = 0; pair < product_.size(); ++pair) counts[product_[pair]] += work.pairs[pair];
}

std::uint64_t Accumulator::add(const Run& run, std::int64_t* visibilities, std::uint32_t* counts) {
    if (run.blocks == 0) return 0;
    const std::lock_guard lock(mutex_);
    const int fit = static_cast<int>(std::min<std::size_t>(kPanelBudget / kernel_.panel_bytes(inputs_, 1), kRunBlocks));
    const int step = std::clamp(fit, 1, run.blocks);
    const std::size_t need = kernel_.panel_bytes(inputs_, step);
    const int threads = std::min(static_cast<int>(work_.size()), run.channels);
    for (int t = 0; t < threads; ++t) {  // everything that can throw happens before threads start
        Workspace& work = work_[static_cast<std::size_t>(t)];
        if (work.panels_size < need) {
            work.panels = allocate(need);
            work.panels_size = need;
        }
        work.words.resize(static_cast<std::size_t>(inputs_) * run.blocks);
    }
    std::vector<std::uint64_t> clamped(static_cast<std::size_t>(threads), 0);
    const auto part = [&](int t) {
        Workspace& work = work_[static_cast<std::size_t>(t)];
        const auto from = [&](int total, int n) { return static_cast<int>(std::int64_t{total} * n / threads); };
        std::uint64_t low = 0;
        for (int c = from(run.channels, t); c < from(run.channels, t + 1); ++c) {
            low += add_channel(run, c, step, work, visibilities);
        }
        for (int g = from(run.groups, t); g < from(run.groups, t + 1); ++g) add_counts(run, g, work, counts);
        clamped[static_cast<std::size_t>(t)] = low;
    };
    {
        std::vector<std::jthread> others;
        for (int t = 1; t < threads; ++t) others.emplace_back(part, t);
        part(0);
    }
    std::uint64_t total = 0;
    for (const auto low : clamped) total += low;
    return total;
}

}  // namespace ryle::correlate
