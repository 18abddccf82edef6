// The packets of some streams, one after the other: which is next, when it is due, its bytes, and what is wrong with
// it.
//
// Nothing here knows how packets leave. A PacketSource is asked when its next packet is due and then to write it into
// any buffer; send_loop.h joins it with a Port. Packets are made from their number alone, so one that is held back or
// sent twice is made again and never stored.
#pragma once
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "counts.h"
#include "faults.h"
#include "payload.h"
#include "port.h"
#include "wire/packets.h"

namespace ryle {

constexpr std::uint64_t kForever = std::numeric_limits<std::uint64_t>::max();
constexpr std::int64_t kNothingLeft = std::numeric_limits<std::int64_t>::max();

class PacketSource {
  public:
    // `streams` are the indices in the plan that it makes packets of.
    PacketSource(std::vector<std::uint32_t> streams, const Faults& faults);
    virtual ~PacketSource() = default;
    PacketSource(const PacketSource&) = delete;
    PacketSource& operator=(const PacketSource&) = delete;

    virtual std::uint32_t most_bytes() const = 0;
    // When the next packet is due, in ns since the start; kNothingLeft after the last.
    std::int64_t due();
    // Write it at `out`, which has room for most_bytes(). Only after due() said that there is one.
    Made make(std::uint8_t* out);
    // Begin no more packets: only those that are held back are still due.
    void end() { ended_ = true; }

    const std::vector<std::uint32_t>& streams() const { return streams_; }
    // Of one of streams(), by its place there. Any thread may look.
    const StreamCounts& counts(std::size_t at) const { return counts_[at]; }
    // The first 4096 faults in the order in which they were chosen, and how many there were; when the sender has ended.
    const std::vector<Event>& events() const { return events_; }
    std::uint64_t events_total() const { return events_total_; }

  protected:
    struct Slot {
        std::uint32_t at = 0;      // place in streams()
        std::uint64_t packet = 0;  // number in its stream
        std::int64_t due = 0;
    };
    // The next packet of the schedule, faults aside; false after the last.
    virtual bool next(Slot& slot) = 0;
    // Write a packet as it should be; its bytes.
    virtual std::uint32_t write(std::uint32_t at, std::uint64_t packet, std::uint8_t* out) = 0;
    // The count of its timestamp; -1 if unknown.
    virtual std::int64_t timestamp(std::uint32_t, std::uint64_t) const { return -1; }
    // Whether the format says that the bytes are a valid packet.
    virtual bool valid(const std::uint8_t*, std::uint32_t) { return false; }
    // Turn one of the header's bits in a written packet: which it was, and what that makes of the packet.
    virtual Fate corrupt(std::uint32_t at, std::uint64_t packet, std::uint8_t* out, std::uint32_t bytes,
                         std::uint64_t& draw) = 0;
    // Write a packet of no stream of the plan, another for each `draw`.
    virtual Fate foreign(std::uint32_t at, std::uint64_t packet, std::uint8_t* out, std::uint64_t draw,
                         std::uint32_t& bytes) = 0;

  private:
    struct Emission {
        std::uint32_t at;
        std::uint64_t packet;
        std::int64_t due;
        Fate fate;
        std::uint64_t draw;
    };
    struct Held {
        std::uint64_t release;  // number of packets of its stream, after which it goes
        std::uint64_t packet;
        bool operator>(const Held& o) const { return release != o.release ? release > o.release : packet > o.packet; }
    };

    bool refill();
    void decide(const Slot& slot);
    void release(std::uint32_t at, std::uint64_t passed, std::int64_t due);
    void note(Fate fate, std::uint32_t at, std::uint64_t packet, std::uint64_t detail);

    std::vector<std::uint32_t> streams_;
    std::vector<StreamCounts> counts_;
    Faults faults_;
    bool faulty_, ended_ = false;
    std::deque<Emission> ready_;
    std::vector<std::priority_queue<Held, std::vector<Held>, std::greater<>>> held_;
    std::vector<std::uint64_t> passed_;  // packets of each stream so far
    std::int64_t last_due_ = 0;
    std::vector<Event> events_;
    std::uint64_t events_total_ = 0;
};

// What all streams of a format share.
//
// Where packets hold parts of heaps, a stream's packet n is part n % parts of heap n / parts; first, step, jump and
// restart then count heaps.
struct FormatPlan {
    PacketLayout layout;                       // as packets are written: every field has a place in the header
    std::vector<std::uint32_t> stream_fields;  // those that tell streams apart
    PacketLayout wire;                         // as packets are read: items in any order
    std::vector<std::uint32_t> wire_fields;    // those that tell streams apart, in `wire`
    std::uint64_t first = 0, step = 1;         // timestamp of packet 0; from one packet to the next
    std::uint32_t payload_bytes = 0, trailer_bytes = 0;  // of a packet, or of a heap
    std::uint32_t part_bytes = 0;    // of a heap's payload in its packets, but for the last; 0: a packet is all
    std::int32_t number_field = -1;  // field of `layout` that tells heaps apart that are sent at the same time
    Filling filling = Filling::random;
    std::uint64_t seed = 0;
    std::uint64_t packets = kForever;     // of each stream
    std::uint32_t burst = 1;              // packets of a stream back to back
    double rate = 0;                      // packets/s of each stream; 0: as fast as it goes
    std::uint64_t jump_at = kForever;     // from this packet of each stream on timestamps are further by `jump`
    std::int64_t jump = 0;                // in the timestamp's unit
    std::uint64_t restart_at = kForever;  // from this packet of each stream on all begins anew
    // Values of the stream fields of all streams of the plan: their identities are cut to 64 bits.
    std::vector<std::vector<std::uint64_t>> heads{};
    Faults faults;
};

// One stream of a format.
struct StreamPlan {
    std::uint32_t index = 0;             // in the plan
    std::vector<std::uint8_t> header{};  // all but the counters, which are zero
    std::uint64_t identity = 0;          // its stream fields, joined, the first in the highest bits: names its payload
    std::uint64_t lag = 0;               // packets that it is behind the others
    std::uint32_t turn = 0, turns = 1;   // streams that share a counter take turns in it, a burst each
};

// Packets of a described format with counters that go up and a payload that anyone can say again.
class PacketMaker final : public PacketSource {
  public:
    // Throws std::invalid_argument if the packets would not be valid ones of the format.
    PacketMaker(std::shared_ptr<const FormatPlan> plan, std::vector<StreamPlan> streams);
    std::uint32_t most_bytes() const override { return most_; }

  protected:
    bool next(Slot& slot) override;
    std::uint32_t write(std::uint32_t at, std::uint64_t packet, std::uint8_t* out) override;
    std::int64_t timestamp(std::uint32_t at, std::uint64_t packet) const override;
    bool valid(const std::uint8_t* packet, std::uint32_t bytes) override;
    Fate corrupt(std::uint32_t at, std::uint64_t packet, std::uint8_t* out, std::uint32_t bytes,
                 std::uint64_t& draw) override;
    Fate foreign(std::uint32_t at, std::uint64_t packet, std::uint8_t* out, std::uint64_t draw,
                 std::uint32_t& bytes) override;

  private:
    // Where a packet's part of its heap begins, and its bytes; all of the payload if a packet is all.
    std::pair<std::uint64_t, std::uint32_t> part(std::uint64_t packet) const;
    std::uint64_t count(const StreamPlan& stream, std::uint64_t packet) const;
    void set_count(std::uint8_t* header, std::uint64_t count) const;
    // The stream fields of the packet that was examined last, in head_: whether it is of a stream of the plan.
    bool known();
    void set_sum(std::uint8_t* header, const Sum& sum, std::uint64_t value) const;

    std::shared_ptr<const FormatPlan> plan_;
    std::vector<StreamPlan> plans_;
    std::vector<Term> terms_;  // of the timestamp, the largest factor first
    std::uint32_t bytes_, most_, parts_;
    std::uint64_t slot_ = 0, slots_each_ = 0;
    std::vector<std::vector<std::uint64_t>> known_;  // heads of the plan, sorted
    std::vector<std::uint64_t> values_, head_;
};

// Datagrams of a capture, as they are, at the times at which they were recorded.
struct Recording {
    const std::uint8_t* file = nullptr;
    std::vector<std::uint64_t> starts{};   // of the datagrams in the file
    std::vector<std::uint32_t> lengths{};  // bytes
    std::vector<std::uint32_t> streams{};  // index in the plan
    std::vector<std::int64_t> dues{};      // ns since the start
};

class PacketReplay final : public PacketSource {
  public:
    // Those datagrams of the recording that are of these streams. Throws std::invalid_argument if `faults` are to
    // change headers: which format they are of is not known.
    PacketReplay(std::shared_ptr<const Recording> recording, std::vector<std::uint32_t> streams, const Faults& faults);
    std::uint32_t most_bytes() const override { return most_; }

  protected:
    bool next(Slot& slot) override;
    std::uint32_t write(std::uint32_t at, std::uint64_t packet, std::uint8_t* out) override;
    Fate corrupt(std::uint32_t, std::uint64_t, std::uint8_t*, std::uint32_t, std::uint64_t&) override;
    Fate foreign(std::uint32_t, std::uint64_t, std::uint8_t*, std::uint64_t, std::uint32_t&) override;

  private:
    std::shared_ptr<const Recording> recording_;
    std::vector<std::vector<std::uint32_t>> datagrams_;              // of each stream
    std::vector<std::pair<std::uint32_t, std::uint32_t>> schedule_;  // stream's place, number in the stream
    std::size_t next_ = 0;
    std::uint32_t most_ = 1;
};

}  // namespace ryle
