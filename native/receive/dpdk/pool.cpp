#include "pool.h"

#include <rte_errno.h>
#include <rte_memory.h>

#include <algorithm>
#include <atomic>

#include "eal.h"

namespace ryle::dpdk {
namespace {

constexpr std::size_t kLine = 64;

std::size_t up(std::size_t value, std::size_t step) { return (value + step - 1) / step * step; }

std::size_t spacing(unsigned room, bool headroom) { return up(room + (headroom ? RTE_PKTMBUF_HEADROOM : 0), kLine); }

std::size_t shift(unsigned payload_at, bool headroom) {
    const std::size_t at = payload_at + (headroom ? RTE_PKTMBUF_HEADROOM : 0);
    return payload_at ? up(at, kLine) - at : 0;
}

}  // namespace

std::size_t memory_needed(unsigned buffers, unsigned room, unsigned payload_at, bool headroom, std::size_t page) {
    return up(buffers * spacing(room, headroom) + shift(payload_at, headroom), std::max<std::size_t>(page, 1));
}

Pool::Pool(unsigned buffers, unsigned room, unsigned cache, const Memory& memory, unsigned payload_at, bool headroom)
    : memory_(memory), headroom_(headroom) {
    static std::atomic<unsigned> number{0};
    const std::string name = "ryle" + std::to_string(number++);
    const std::size_t data = room + (headroom ? RTE_PKTMBUF_HEADROOM : 0);
    if (!started()) throw Error("start DPDK before making pools");
    if (data > UINT16_MAX) throw Error("a buffer holds at most 65407 bytes");
    cache = std::min({cache, static_cast<unsigned>(RTE_MEMPOOL_CACHE_MAX_SIZE), buffers * 2 / 3});
    if (!memory.address) {
        stride_ = static_cast<unsigned>(data);
        pool_ =
            rte_pktmbuf_pool_create(name.c_str(), buffers, cache, 0, static_cast<std::uint16_t>(data), SOCKET_ID_ANY);
        if (!pool_)
            fail("no pool of " + std::to_string(buffers) + " buffers of " + std::to_string(data) + " bytes", rte_errno);
        return;
    }
    stride_ = static_cast<unsigned>(spacing(room, headroom));
    if (memory.bytes < memory_needed(buffers, room, payload_at, headroom, 1))
        throw Error("the memory given is too small for " + std::to_string(buffers) + " buffers");
    if (memory.page) {
        const std::size_t bytes = memory.bytes / memory.page * memory.page;
        if (rte_extmem_register(reinterpret_cast<void*>(memory.address), bytes, nullptr, 0, memory.page))
            fail("the pool's memory could not be registered; address and size must be multiples of its page",
                 rte_errno);
        registered_ = true;
    }
    const std::size_t begin = shift(payload_at, headroom);
    rte_pktmbuf_extmem area{};
    area.buf_ptr = reinterpret_cast<void*>(memory.address + begin);
    area.buf_iova = memory.address + begin;
    area.buf_len = memory.bytes - begin;
    area.elt_size = static_cast<std::uint16_t>(stride_);
    pool_ = rte_pktmbuf_pool_create_extbuf(name.c_str(), buffers, cache, 0, static_cast<std::uint16_t>(data),
                                           SOCKET_ID_ANY, &area, 1);
    if (!pool_) {
        const int code = rte_errno;
        if (registered_)
            rte_extmem_unregister(reinterpret_cast<void*>(memory.address), memory.bytes / memory.page * memory.page);
        fail("no pool of " + std::to_string(buffers) + " buffers in the memory given", code);
    }
}

Pool::~Pool() {
    if (!started()) return;
    rte_mempool_free(pool_);
    if (registered_)
        rte_extmem_unregister(reinterpret_cast<void*>(memory_.address), memory_.bytes / memory_.page * memory_.page);
}

}  // namespace ryle::dpdk
