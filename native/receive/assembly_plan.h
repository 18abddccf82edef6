// What an assembler's chunks look like, and how long they wait for packets: ryle.receive.assembly.Plan says it for
// users.
#pragma once
#include <chrono>
#include <cstdint>
#include <vector>

#include "senders.h"
#include "wire/packets.h"

namespace ryle {

// `count` times from `from` (bytes in the payload) to `to` (bytes in the chunk).
struct Loop {
    std::int64_t count, from, to;
};

// One packet of a heap: `bytes` of samples from byte `offset` of the heap on, at byte `place` of the cell.
struct Part {
    std::int64_t offset, bytes, place;
    bool optional;  // not expected, and missing to nobody
};

constexpr std::size_t kMostNotes = 16;

struct Plan {
    PacketLayout layout;
    std::vector<std::uint32_t> key_fields;
    bool key_port = false;
    std::vector<std::vector<std::uint64_t>> heads;  // values of key_fields (and the port) of each head
    std::vector<std::uint32_t> notes;               // fields that are kept for each cell
    std::int64_t step = 1, origin = 0;              // timestamps are origin + number * step
    std::int64_t packets = 0;                       // of one head in a chunk; heaps, if a cell has several parts
    std::int64_t window = 0, skew = 0, outage = 0;  // timestamp units; skew -1: as much as memory allows
    std::int64_t slots = 0;                         // chunks of memory
    std::int64_t data_bytes = 0;                    // of a chunk
    std::vector<std::int64_t> offsets;              // bytes in a chunk: of each head,
    std::int64_t stride = 0;                        // and from one packet of a head to the next
    std::vector<Part> parts;                        // of a cell, in order of offset
    std::int64_t run_bytes = 0;                     // that stay together in a payload, and the loops over runs
    std::vector<Loop> loops;
    bool any_phase = false;                        // a head's packets come every step, from any time on
    bool pointers = false;                         // keep addresses of payloads instead of copying
    Senders senders;                               // that may send
    bool one_sender = false;                       // of each head: the first that is heard, until it falls silent
    bool waits = false;                            // for memory, instead of dropping what finds none
    std::chrono::nanoseconds linger{0};            // without any packet, after which open chunks close; 0: they wait
    std::chrono::nanoseconds silence{1000000000};  // after which nobody waits for a head; 0: never
    double rate = 0;                               // timestamp units in a second of arrival; 0: unknown
};

// Cells of a chunk, one a head and packet; marks of a chunk, one a cell and part.
std::int64_t cells(const Plan& plan);
std::int64_t marks(const Plan& plan);
// Memory of a chunk: payloads (or their addresses), marks and notes, each from a page on.
std::int64_t body_bytes(const Plan& plan);
std::int64_t slot_bytes(const Plan& plan);
std::int64_t page_aligned(std::int64_t bytes);
// Chunks that are open at once, at most. Throws std::invalid_argument if the plan cannot be carried out.
std::int64_t checked_width(const Plan& plan);

inline std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0); }

// The parts of a cell, found without a search: all but a few lie at multiples of the first one's length.
class Parts {
  public:
    explicit Parts(const std::vector<Part>& parts);
    // Which part begins at `offset` and has so many bytes; -1 if none.
    std::int32_t find(std::uint64_t offset, std::uint64_t bytes) const {
        if (offset < regular_end_) {
            const std::uint64_t index = offset == 0 ? 0 : offset / bytes_;
            return bytes == bytes_ && index * bytes_ == offset ? static_cast<std::int32_t>(index) : -1;
        }
        for (std::size_t i = 0; i < rest_.size(); ++i)
            if (static_cast<std::uint64_t>(rest_[i].offset) == offset)
                return static_cast<std::uint64_t>(rest_[i].bytes) == bytes ? static_cast<std::int32_t>(regular_ + i)
                                                                           : -1;
        return -1;
    }
    Part operator[](std::int64_t index) const {
        if (index >= regular_) return rest_[static_cast<std::size_t>(index - regular_)];
        const std::int64_t bytes = static_cast<std::int64_t>(bytes_);
        return {index * bytes, bytes, place_ + index * place_step_, false};
    }
    bool optional(std::int64_t index) const {
        return index >= regular_ && rest_[static_cast<std::size_t>(index - regular_)].optional;
    }
    std::int64_t count() const { return regular_ + static_cast<std::int64_t>(rest_.size()); }
    std::int64_t expected() const { return expected_; }

  private:
    std::int64_t regular_ = 0, expected_ = 0, place_ = 0, place_step_ = 0;
    std::uint64_t bytes_ = 0, regular_end_ = 0;
    std::vector<Part> rest_;
};

// Calls act(from, to) for each run of bytes of a payload that stays together.
template <typename Act>
void each_run(const std::vector<Loop>& loops, std::size_t depth, std::int64_t from, std::int64_t to, const Act& act) {
    if (depth == loops.size()) return act(from, to);
    for (std::int64_t i = 0; i < loops[depth].count; ++i)
        each_run(loops, depth + 1, from + i * loops[depth].from, to + i * loops[depth].to, act);
}

}  // namespace ryle
