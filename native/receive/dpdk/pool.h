// Packet buffers: DPDK's own memory, or memory of the caller's (page-locked, a GPU's) as external buffers.
#pragma once
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace ryle::dpdk {

// Memory that packets are received into. It must outlive the pool.
struct Memory {
    std::uintptr_t address = 0;
    std::size_t bytes = 0;
    std::size_t page = 0;  // register with DPDK in pages of this size, for devices' DMA; 0: not
};

class Pool {
  public:
    // `buffers` of `room` bytes each (headroom of 128 bytes not counted), of which each thread caches up to `cache`
    // (at most 512; 1.5 times that at times). With `payload_at` > 0 buffers in the caller's memory are shifted so that
    // byte `payload_at` of a frame lies on a multiple of 64; with `headroom` false (payloads split from their headers)
    // buffers are as large as `room`, and frames are to begin at their first byte.
    Pool(unsigned buffers, unsigned room, unsigned cache, const Memory& memory, unsigned payload_at, bool headroom);
    ~Pool();
    Pool(const Pool&) = delete;

    rte_mempool* get() const { return pool_; }
    unsigned buffers() const { return pool_->size; }
    unsigned room() const { return rte_pktmbuf_data_room_size(pool_); }
    unsigned stride() const { return stride_; }
    bool headroom() const { return headroom_; }
    const Memory& memory() const { return memory_; }
    // Slow: visits the cache of every thread.
    unsigned available() const { return rte_mempool_avail_count(pool_); }

  private:
    rte_mempool* pool_ = nullptr;
    Memory memory_;
    unsigned stride_ = 0;
    bool headroom_ = true, registered_ = false;
};

// Bytes of the caller's memory that such a pool needs; a multiple of `page`.
std::size_t memory_needed(unsigned buffers, unsigned room, unsigned payload_at, bool headroom, std::size_t page);

}  // namespace ryle::dpdk
