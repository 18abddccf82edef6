// What a sender counts: 64 bits, one thread adds, others read.
#pragma once
#include <array>
#include <cstdint>

#include "receive/counter.h"

namespace ryle {

// What became of a packet on its way out. `kSent` packets left as they are.
enum Fate : std::uint32_t {
    kSent,
    kLost,                // not sent
    kDuplicated,          // sent, and once more later
    kReordered,           // sent later
    kCorruptedInvalid,    // a header bit turned; the format says that such a packet is not valid
    kCorruptedForeign,    // ... valid, of a stream that nobody sends
    kCorruptedMisplaced,  // ... valid, of a stream that is sent, in another place
    kCorruptedHarmless,   // ... valid, and in its place: nobody can tell
    kTruncated,           // sent short
    kForeignStream,       // sent in addition: a valid packet of a stream that nobody sends
    kForeignFormat,       // sent in addition: not a packet of the format
    kFates
};

// Of one stream.
struct StreamCounts {
    std::array<Counter, kFates> fates;
    Counter packets, bytes;  // handed to the port, all kinds
};

// Of one port.
struct PortCounts {
    Counter packets, bytes;  // pushed out
    Counter calls;           // of the kernel or driver
    Counter full;            // times that the way out was full and the port waited
    Counter unreachable;     // messages that nobody receives there
};

// A fault, as the list of them in the summary has it.
struct Event {
    Fate fate;
    std::uint32_t stream;
    std::uint64_t packet;    // number in its stream, from 0
    std::int64_t timestamp;  // as it stands, or would stand, in the packet (before corruption)
    std::uint64_t detail;    // header bit turned, bytes sent, packets later; else 0
};

}  // namespace ryle
