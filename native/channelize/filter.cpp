#include "filter.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

#include "wire/packed.h"

namespace ryle {
namespace {

constexpr int64_t kRows = 16;  // the transform's rows come in multiples of this, the widest vector it uses

int64_t round_up(int64_t number, int64_t unit) { return (number + unit - 1) / unit * unit; }

// Calls `use(data, first value in it, place from `low` on, count)` for what each piece has of [low, high).
template <typename Use>
void stretches(const std::vector<Piece>& pieces, int64_t low, int64_t high, Use use) {
    int64_t begin = 0;
    for (const Piece& piece : pieces) {
        const int64_t end = begin + piece.values;
        const int64_t first = std::max(low, begin), last = std::min(high, end);
        if (first < last) use(piece.data, size_t(first - begin), first - low, size_t(last - first));
        begin = end;
    }
}

// Memory of a thread, of which the first window begins on a cache line.
float* samples_of_thread(size_t count) {
    struct Free {
        void operator()(float* memory) const { std::free(memory); }
    };
    thread_local std::unique_ptr<float, Free> memory;
    thread_local size_t room = 0;
    if (room < count) {
        const size_t bytes = size_t(round_up(int64_t(count * sizeof(float)), 64));
        memory.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
        room = memory ? count : 0;
        if (!memory) throw std::bad_alloc();
    }
    return memory.get();
}

}  // namespace

int64_t Stream::values() const {
    int64_t sum = 0;
    for (const Piece& piece : pieces) sum += piece.values;
    return sum;
}

void Stream::unpack(int64_t low, int64_t high, float* out) const {
    stretches(pieces, low, high, [&](const uint8_t* data, size_t first, int64_t at, size_t count) {
        unpack_range(data, bits, first, count, kernels, out + at);
    });
}

void Stream::squares(int64_t low, int64_t high, uint64_t& exact, double& sum) const {
    stretches(pieces, low, high, [&](const uint8_t* data, size_t first, int64_t, size_t count) {
        if (bits == 32)
            sum += sum_squares_float_range(data, first, count);
        else
            exact += sum_squares_range(data, bits, first, count, kernels);
    });
}

Filter::Filter(int parts, int taps, int64_t step, std::vector<float> weights, int64_t group,
               const ChannelizeKernels& kernels)
    : parts_(parts), taps_(taps), step_(step), weights_(std::move(weights)), group_(group), kernels_(kernels) {
    if (taps < 1 || taps > 256) throw std::invalid_argument("taps must be 1 to 256");
    if (parts < 1 || parts > 2 || step < 2 || group < kRows || group % kRows)
        throw std::invalid_argument("a filter of no such form");
    if (int64_t(weights_.size()) != (step + kColumns - 1) / kColumns * taps * kColumns)
        throw std::invalid_argument("weights of the wrong length");
}

// Negative offsets make rows of zeros.
void Filter::fir(const float* samples, const int64_t* offsets, int64_t rows, float* out, ptrdiff_t stride) const {
    for (int64_t row = 0; row < rows;) {
        const int64_t start = offsets[row];
        if (start < 0) {
            std::memset(out + row * stride, 0, step_ * sizeof(float));
            row++;
            continue;
        }
        int64_t end = row + 1;
        while (end < rows && offsets[end] == start + (end - row) * step_) end++;
        kernels_.fir({samples + start, weights_.data(), out + row * stride, stride, int(end - row), taps_, int(step_)});
        row = end;
    }
}

void Filter::apply(const Stream& stream, const Windows& windows, bool conjugated, float* frames, ptrdiff_t stride,
                   const Transform& transform) const {
    const int64_t rows = round_up(windows.rows, kRows), all = stream.values();
    int64_t low = all, high = -1;  // of all windows
    for (int64_t row = 0; row < windows.rows; row++) {
        if (!windows.valid[row]) continue;
        const int64_t start = windows.starts[row];
        if (start < 0 || start + window() > all) throw std::invalid_argument("a window leaves the samples");
        low = std::min(low, start), high = std::max(high, start + window());
    }
    if (high < 0) return;
    float* const samples = samples_of_thread(size_t(high - low));
    thread_local std::vector<int64_t> offsets;
    offsets.assign(size_t(rows), -1);
    for (int64_t row = 0; row < windows.rows; row++)
        if (windows.valid[row]) offsets[row] = windows.starts[row] - low;
    int64_t unpacked = 0;
    for (int64_t first = 0; first < rows; first += group_) {
        const int64_t count = std::min(group_, rows - first);
        // Unpacked just before the filter reads: the samples are then still in cache.
        int64_t end = *std::max_element(offsets.begin() + first, offsets.begin() + first + count);
        if (end >= 0 && (end += window()) > unpacked) {
            stream.unpack(low + unpacked, low + end, samples + unpacked);
            if (conjugated)
                for (int64_t i = unpacked + 1; i < end; i += 2) samples[i] = -samples[i];
            unpacked = end;
        }
        float* const out = frames + first * stride;
        fir(samples, offsets.data() + first, count, out, stride);
        transform(first, count);
        if (parts_ == 1)
            for (int64_t row = 0; row < count; row++) out[row * stride - 1] = std::exchange(out[row * stride], 0.0f);
    }
}

}  // namespace ryle
