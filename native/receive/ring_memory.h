// The one allocation that holds a ring of chunks: huge pages if there are any, every page touched before use.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ryle {

class RingMemory {
  public:
    // `given`: memory to use instead of allocating, which must outlive this. Throws std::bad_alloc.
    explicit RingMemory(std::size_t bytes, std::uint8_t* given = nullptr);
    ~RingMemory();
    RingMemory(const RingMemory&) = delete;
    RingMemory& operator=(const RingMemory&) = delete;

    std::uint8_t* data() const { return data_; }
    std::size_t bytes() const { return bytes_; }
    // Bytes of a page: 2 MiB or more if these are huge pages that were set aside; else the ordinary page.
    std::size_t page_bytes() const { return page_bytes_; }

  private:
    std::uint8_t* data_ = nullptr;
    std::size_t bytes_ = 0, mapped_ = 0, page_bytes_ = 0;
};

}  // namespace ryle
