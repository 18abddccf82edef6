// What fuzz targets share: decisions drawn from the input, and claims.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace ryle {

// Decisions, drawn from the input; zeros when it is used up.
class Draw {
  public:
    Draw(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
    std::uint64_t bits(int bytes) {
        std::uint64_t word = 0;
        while (bytes-- > 0) word = word << 8 | (at_ < size_ ? data_[at_++] : 0);
        return word;
    }
    std::uint64_t upto(std::uint64_t most) { return bits(most < 256 ? 1 : most < 65536 ? 2 : 8) % (most + 1); }
    bool one_in(unsigned n) { return upto(n - 1) == 0; }
    bool empty() const { return at_ >= size_; }

  private:
    const std::uint8_t* data_;
    std::size_t size_, at_ = 0;
};

inline void demand(bool right, const char* what) {
    if (right) return;
    std::fprintf(stderr, "does not hold: %s\n", what);
    std::abort();
}

// Any header with items and any packets through the parser; says how many were valid.
std::uint64_t inspect_items(Draw& draw);

}  // namespace ryle
