#include "ring_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>

namespace ryle {

RingMemory::RingMemory(std::size_t bytes, std::uint8_t* given) : bytes_(bytes) {
    constexpr std::size_t huge = std::size_t{2} << 20;
    page_bytes_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    if (given != nullptr) {
        data_ = given;
    } else {
        mapped_ = (bytes + huge - 1) / huge * huge;
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
        void* at = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, flags | MAP_HUGETLB | MAP_POPULATE, -1, 0);
        if (at != MAP_FAILED) {
            page_bytes_ = huge;
        } else {
            at = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, flags, -1, 0);
            if (at == MAP_FAILED) throw std::bad_alloc();
            madvise(at, mapped_, MADV_HUGEPAGE);  // transparent huge pages where the kernel grants them
        }
        data_ = static_cast<std::uint8_t*>(at);
    }
    std::memset(data_, 0, bytes_);  // a page that is first touched while packets arrive costs packets
}

RingMemory::~RingMemory() {
    if (mapped_ != 0) munmap(data_, mapped_);
}

}  // namespace ryle
