// Faults on a packet's way: one set of rules for packets that are made here (send_maker.h) and for those that others
// made, such as a simulated array's. Which packet suffers what follows from the seed, its stream and its number in it
// alone, whoever sends it.
#pragma once
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "counts.h"
#include "wire/packets.h"

namespace ryle {

// Injected faults. A packet suffers at most one.
struct Faults {
    double loss = 0, duplicate = 0, reorder = 0, corrupt = 0, truncate = 0, foreign = 0;  // shares of the packets
    std::uint32_t distance = 1;  // packets of its stream after which a duplicate or a packet out of order follows: 1 to
    std::uint64_t seed = 0;
    bool any() const { return loss + duplicate + reorder + corrupt + truncate + foreign > 0; }
};

// Throws std::invalid_argument if the shares cannot be.
void check(const Faults& faults);

struct Choice {
    Fate fate = kSent;        // kCorruptedInvalid stands for a turned bit, whatever that makes of the packet
    bool foreign = false;     // a packet of nobody's follows
    std::uint64_t later = 0;  // packets of its stream later, of what is sent twice or out of order
    std::uint64_t draw = 0;   // chooses the bit, or the bytes that are left
};
Choice choose(const Faults& faults, std::uint32_t stream, std::uint64_t packet);

// Datagrams one behind the other, and what each is marked with.
struct Datagrams {
    std::vector<std::uint8_t> bytes{};
    std::vector<std::uint32_t> lengths{}, tags{};
};

// Does to datagrams of a format what the rules say. A packet is damaged so that every reader sees it: a bit of the
// header, or of what stands before its items, is turned that makes it no packet of the format; where there is none, it
// is cut short.
class Injector {
  public:
    // Throws std::invalid_argument; `foreign` packets are not made here.
    Injector(const Faults& faults, std::uint32_t streams, PacketLayout layout);
    Injector(const Injector&) = delete;
    Injector& operator=(const Injector&) = delete;
    // The next packet of a stream passes: append what leaves now.
    void pass(std::uint32_t stream, std::uint32_t tag, Packet packet, Datagrams& out);
    // Append everything that is held back.
    void flush(Datagrams& out);
    const std::vector<StreamCounts>& counts() const { return counts_; }

  private:
    struct Held {
        std::uint64_t release, packet;  // number of packets of its stream, after which it goes; its own
        std::uint32_t tag;
        std::vector<std::uint8_t> bytes;
        bool operator>(const Held& o) const { return release != o.release ? release > o.release : packet > o.packet; }
    };
    void emit(std::uint32_t stream, std::uint32_t tag, Packet packet, Datagrams& out);
    void release(std::uint32_t stream, std::uint64_t passed, Datagrams& out);
    bool damage(std::vector<std::uint8_t>& packet, std::uint64_t draw);

    Faults faults_;
    PacketLayout layout_;
    std::vector<StreamCounts> counts_;
    std::vector<std::uint64_t> passed_;
    std::vector<std::priority_queue<Held, std::vector<Held>, std::greater<>>> held_;
    std::vector<std::uint64_t> values_;
};

}  // namespace ryle
