// Packets of many streams to chunks: by head (the stream a packet belongs to) and number (its timestamp in steps).
//
// The rules are those of ryle.receive.assembly, which states them for users. Any number of threads may take packets and
// any number may consume chunks. A batch is handled in three passes: headers are read without a lock; slots are found
// and everything is counted under one lock, some 20 ns a packet; payloads are copied without it. A chunk becomes
// readable when it is closed and the last copy into it has ended.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "assembly_plan.h"
#include "ring_memory.h"
#include "sink.h"

namespace ryle {

__extension__ using Key = unsigned __int128;  // the fields that tell streams apart, side by side, then the port

// Why a packet was malformed: the parser's reasons, then these.
enum : std::uint8_t { kOffStep = kReasons, kJump, kPart, kFaults };

// What a packet is counted as that does not belong to the open time.
enum class Why : std::uint8_t { jump, late, duplicate };

struct Chunk {
    std::int64_t number = 0;  // first packet's number is number * packets
    std::int64_t epoch = 0;
    std::int64_t timestamp = 0;
    std::int64_t placed = 0;
    std::uint8_t* data = nullptr;        // copy mode: the payloads
    std::uint64_t* addresses = nullptr;  // pointer mode: [head][packet][part], 0 where missing
    void** buffers = nullptr;            // pointer mode: [head][packet][part], to be given back
    std::uint8_t* present = nullptr;     // [head][packet][part]
    std::uint64_t* notes = nullptr;      // [head][packet][note], 0 where nothing came
    std::uint8_t* noted = nullptr;       // [head][packet], if a cell has notes and several parts
    std::int64_t* placed_by_head = nullptr;
    std::int64_t* optional_by_head = nullptr;  // of these, parts that were not expected

    std::int64_t latest = 0;                // when its newest packet came, ns
    Why why = Why::jump;                    // what its packets are counted as while they are of another time
    std::int64_t started = 0;               // copies into it that were begun (under the lock)
    std::atomic<std::int64_t> finished{0};  // and ended
};

struct Counts {
    std::int64_t received = 0, placed = 0, late = 0, duplicate = 0, malformed = 0, foreign = 0, ring_full = 0;
    std::int64_t missing = 0;
    std::array<std::int64_t, kFaults> faults{};
    std::int64_t lacking = -1;  // field that the last packet without an item (kItem) lacked; -1: there was none
    std::int64_t part_offset = -1, part_bytes = 0;  // of the last packet that was no part (kPart); -1: there was none
    std::int64_t chunks = 0, voids = 0, resyncs = 0, first_loss = 0;  // first_loss: ns since 1970, 0 if none
    std::int64_t open = 0, ready = 0, taken = 0, free = 0;
};

struct HeadCounts {
    std::int64_t placed = 0, late = 0, duplicate = 0, ring_full = 0, jump = 0, missing = 0;
};

class Assembler : public Sink {
  public:
    // Gives buffers of pointer mode back, from whichever thread is done with them.
    using GiveBack = void (*)(void* context, void* const* buffers, std::size_t count);

    // `memory`: `memory_bytes(plan)` bytes, 4096-aligned, to use instead of allocating. Throws std::invalid_argument.
    explicit Assembler(Plan plan, std::uint8_t* memory = nullptr);
    ~Assembler() override;
    static std::size_t memory_bytes(const Plan& plan);

    void on_give_back(GiveBack function, void* context);
    void take(std::span<const Arrival> packets) override { take_all(packets, nullptr, 0); }
    void take_in_turn(std::span<const Arrival> packets, Turns& turns, std::uint64_t number) override {
        take_all(packets, &turns, number);
    }
    void idle(std::int64_t now) override;
    const Senders* senders() const override {
        return plan_.one_sender || !plan_.senders.allowed.empty() ? &plan_.senders : nullptr;
    }
    // Close and release every open chunk; packets for them are late from now on.
    void flush();
    // No more packets will come: flush, and let next() end once everything has been consumed.
    void finish();
    // Packets wait for memory no more, if they did: those that find none are dropped.
    void stop_waiting();
    // Allow packets again after finish(); time begins anew.
    void reopen();

    // The oldest closed chunk, missing packets zeroed; nullptr after `timeout`, or at the end. A chunk that nothing
    // came for, or that found no memory, lies where all such do (`is_void`), and nothing is ever written there.
    Chunk* next(std::chrono::nanoseconds timeout);
    void release(Chunk* chunk);
    bool ended() const;
    bool is_void(const Chunk& chunk) const { return chunk.present == void_.present; }

    Counts counts() const;
    void head_counts(std::span<HeadCounts> out) const;
    const Plan& plan() const { return plan_; }
    const RingMemory& memory() const { return memory_; }
    std::int64_t open_most() const { return width_; }

  private:
    static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();  // no packet has this number
    struct Head {
        std::int64_t newest, first, charged;  // packet numbers of this epoch; charged: up to which packets are expected
        std::int64_t peak;                    // newest that was placed, believed or not
        std::int64_t away = 0;                // packets in a row that did not belong to the head's time
        std::int64_t turns = 0;               // numbers that they had, one after the other
        std::int64_t last_away = 0, low = 0;  // number of the last of them, and the lowest
        std::int64_t away_since = 0;          // when the first came, ns
        std::int64_t last_home = 0;           // datagrams that had been received when it last belonged
        std::int64_t heard = 0;               // when that was, ns
        bool live = true;                     // heard lately, or not yet given up: others wait for it
        bool votes = true;                    // and heard so lately that it has a say on how long
        bool moves = false;                   // the clock is being moved to where it is
        std::int64_t phase = -1;              // any_phase: by how much its timestamps are off the steps,
        std::int64_t other_phase = -1;        // those of the last packets that are not,
        std::int64_t out_of_phase = 0;        // how many these were in a row,
        std::int64_t phase_from = -kNever;    // and the first number that the phase holds for
        std::uint64_t sender = 0;             // who may send, and when he last did
        std::int64_t sender_heard = 0;
        HeadCounts counts;
    };
    // What next() gives: a chunk, or (without one) a stretch of void ones.
    struct Ready {
        Chunk* chunk;
        std::int64_t number, count, epoch;
    };
    enum class Fate { placed, refused, waits };
    struct Parsed {
        Key key;
        std::uint64_t count;    // modulo the period
        std::uint32_t payload;  // byte of the packet at which its samples begin
        std::int32_t part;      // of a cell
        std::int32_t field;     // that is wrong
        std::uint8_t fault;
    };
    struct Copy {
        Chunk* chunk;
        std::uint8_t* to;
        const std::uint8_t* from;
        std::size_t bytes;
    };
    static constexpr std::size_t kBatch = 64;
    struct Batch {  // what locking finds out about packets
        std::array<Copy, kBatch> copies;
        std::array<void*, kBatch> unused;
        std::size_t located = 0, refused = 0;
        std::int64_t awaited = 0;  // chunk of the packet that has to wait for memory; kNever: one of another time
    };
    struct Entry {
        Key key;
        std::int32_t head;
    };
    static constexpr std::int64_t kVotes = 8;  // packets that must agree before a clock is taken to have moved
    static constexpr std::int64_t kSure = 64;  // as many in a row, and it has, however fast they came
    static constexpr std::int64_t kGivenUp =
        1'000'000'000;                                  // ns of silence after which another may send a head's packets
    static constexpr std::int64_t kLeast = 10'000'000;  // ns: nothing is judged by shorter times of arrival
    static constexpr std::int64_t kSetBack = 10'000'000'000;  // ns by which times are not out of order but set back

    void read(const Arrival& packet, std::uint64_t* values, Parsed& out, std::uint64_t* notes) const;
    std::int32_t find(Key key) const;
    // Under the lock:
    std::size_t locate(std::span<const Arrival> packets, const Parsed* parsed, const std::uint64_t* notes, Batch& out);
    Fate place(const Arrival& packet, const Parsed& parsed, const std::uint64_t* notes, std::int32_t head,
               std::int64_t number, Batch& out);
    bool welcome(Head& head, const Arrival& packet) const;
    bool memory_for(std::int64_t chunk);
    Chunk* fresh(std::int64_t chunk);
    void put(const Arrival& packet, const Parsed& parsed, const std::uint64_t* notes, std::int32_t head,
             std::int64_t mark, Chunk& target, Batch& out) const;
    void note(Chunk& chunk, std::int64_t cell, const std::uint64_t* notes) const;
    std::int64_t mark_of(std::int64_t head, std::int64_t number, std::int64_t part) const {
        const std::int64_t cell = head * plan_.packets + number - floor_div(number, plan_.packets) * plan_.packets;
        return per_cell_ == 1 ? cell : cell * per_cell_ + part;
    }
    Fate go_astray(const Arrival& packet, const Parsed& parsed, const std::uint64_t* notes, std::int32_t head,
                   std::int64_t number, Why why, Batch& out);
    Chunk* park(std::int64_t chunk, Why why);
    void adopt();
    void learn(const Chunk& chunk);
    void discard();
    bool unpark();
    void reclaim();
    void tally(Head& head, Why why, std::int64_t packets);
    // The head belongs where this packet says.
    void hear(Head& head, std::int64_t number) {
        wake();
        head.away = 0;
        head.last_home = counts_.received;
        head.heard = now_;
        const std::int64_t before = head.newest;
        if (head.votes && number <= before) return;
        if (head.votes && before != -kNever && (before < done_) == (number < done_) &&
            (before < far_) == (number < far_))
            head.newest = number;
        else
            pass(head, number);
        newest_ = std::max(newest_, head.newest);
    }
    // Somebody is heard.
    void wake() {
        if (now_ - spoke_ >= lull_) resume();
        spoke_ = now_;
    }
    void resume();
    void pass(Head& head, std::int64_t number);
    bool in_step(const Head& head, std::int64_t number) const {
        return head.newest != -kNever && number <= head.newest + leap_;
    }
    bool gone(const Head& head) const {
        return leave_ == 0 || now_ == 0 || head.newest == -kNever || now_ - head.heard >= leave_ || head.away >= kSure;
    }
    bool sudden(std::int64_t numbers, std::int64_t from, std::int64_t to) const;
    void enter(std::int64_t chunk);
    bool in_phase(Head& head, std::int64_t since, std::int64_t number) const;
    bool leapt(Head& head, std::int64_t number);
    void note_away(Head& head, std::int64_t number, bool agrees);
    bool stray(Head& head, std::int64_t number);
    struct Move {
        std::int64_t low, since;  // the lowest number of those that moved, and when the first came
    };
    bool joins(const Head& head, std::int64_t number, std::int64_t each) const;
    bool left(const Head& head, std::int64_t each) const { return head.away >= each && head.turns >= 2 && gone(head); }
    bool moved(std::int64_t number, std::int64_t each, Move& move) const;
    void count(const Head& head, std::int64_t by);
    void recount();
    // Close what all live heads have passed, or more than half of those that vote by the skew.
    void close_passed() {
        while (base_ < top_ && ((behind_ == 0 && heard_ > 0) || 2 * ahead_ > voters_)) close_first(false);
    }
    bool cut();
    void tick(std::int64_t now);
    std::int64_t next_event() const;
    bool was_full(std::int64_t chunk) const { return full_[full_at(chunk)] == chunk; }
    std::size_t full_at(std::int64_t chunk) const {
        return static_cast<std::size_t>(chunk - floor_div(chunk, reach_) * reach_);
    }
    void advance(std::int64_t chunk);
    void close_first(bool final);
    void give(Chunk* chunk);
    void give_void(std::int64_t count);
    void renew();
    void charge(std::int64_t chunk, const Chunk* slot, bool final);
    void close_all();
    void close_for_memory();
    bool may_go_on(std::int64_t chunk);
    bool stuck();
    // All that a thread could wait for is with consumers, who may not give it back before they get more.
    bool exhausted() const { return base_ > top_ && ready_.empty(); }
    // There is memory as soon as the copies for which places are found have been made.
    bool soon(const Batch& batch) const { return batch.located > 0 && !discarded_.empty(); }
    void clear(Chunk& chunk) const;
    Chunk* void_chunk(std::int64_t number, std::int64_t epoch);
    void begin(std::int64_t chunk);
    bool unwrapped(std::uint64_t count, std::int64_t& time);
    Chunk*& slot(std::int64_t chunk);

    void copy_all(Batch& batch);
    void take_all(std::span<const Arrival> packets, Turns* turns, std::uint64_t number);
    void wait_for_memory(std::int64_t chunk);
    void copy(const Copy& copy, const std::uint8_t* next) const;
    void zero(Chunk& chunk) const;
    void zero(std::uint8_t* cell, std::int64_t part) const;

    const Plan plan_;
    const std::int64_t width_;  // chunks that window and skew keep open
    const Parts parts_;
    const std::int64_t per_cell_;                      // parts of a cell
    const std::int64_t marks_;                         // parts of a chunk: one with so many is full
    const std::int64_t span_, reach_, leap_, outage_;  // the last in chunks, as reach_
    const std::int64_t lull_;              // ns without anybody that are no silence of each; kNever: none are
    const std::int64_t patience_, leave_;  // ns: after which a head has no vote; has left its time; 0: never
    const std::int64_t rows_;              // chunks from the oldest open one on that may have memory
    const std::int64_t lately_;            // datagrams among which one is that came lately
    const bool parks_;                     // keep packets of another time
    bool past_cache_;                      // copy payloads so that caches are left alone
    RingMemory memory_;
    std::vector<std::uint32_t> key_widths_;
    std::vector<Entry> table_;
    std::vector<Chunk> chunks_;
    Chunk void_;
    std::vector<std::unique_ptr<Chunk>> voids_;  // given out, or kept for the next
    std::vector<std::int64_t> placed_memory_;
    std::vector<std::uint8_t> noted_memory_;
    std::vector<void*> buffers_memory_;
    GiveBack give_back_ = nullptr;
    void* give_back_context_ = nullptr;

    mutable std::mutex mutex_;
    std::condition_variable ready_changed_, free_changed_;
    std::vector<Head> heads_;
    std::vector<Chunk*> open_;  // a ring that begins with base_ at open_[open_at_]; nullptr: nothing came, or no memory
    std::int64_t open_at_ = 0;
    std::vector<Chunk*> free_;
    std::vector<Chunk*> parked_;      // of another time, in case that the clock moves there; given up:
    std::vector<Chunk*> discarded_;   // somebody may still write to them
    std::int64_t parked_from_ = 0;    // the first of them that there was
    std::int64_t parked_at_ = 0;      // datagrams that had been received when the last packet was put there
    std::vector<std::int64_t> full_;  // chunks of this epoch that closed full, by number modulo reach_
    std::deque<Ready> ready_;
    std::vector<Chunk*> spare_;            // void chunks that are not given out
    std::int64_t reference_ = 0;           // counters are unwrapped around this time,
    std::uint64_t reference_residue_ = 0;  // which is this modulo the period; both follow base_:
    std::int64_t referred_ = 0;            // as it was when they were set
    std::int64_t base_ = 0;                // oldest open chunk
    std::int64_t top_ = 0;                 // newest chunk with a packet
    std::int64_t newest_ = 0, first_ = 0;
    std::int64_t done_ = 0, far_ = 0;  // packet numbers: beyond the oldest chunk by the window; by window and skew
    std::int64_t behind_ = 0;          // live heads that may still send for the oldest open chunk
    std::int64_t heard_ = 0;           // live heads that were heard in this epoch
    std::int64_t voters_ = 0;          // of these, those that vote
    std::int64_t ahead_ = 0;           // of these, those beyond far_
    std::int64_t closed_latest_ = 0;   // Chunk::latest of the newest closed chunk of this epoch that is not void
    bool started_ = false;             // an epoch has begun
    bool restarted_ = true;            // it is the first, or the first after finish()
    bool closed_any_ = false;          // in this epoch
    bool given_any_ = false;           // in this epoch a chunk that is not void
    bool quiet_ = false;               // all chunks were closed because nothing came
    bool finished_ = false, waits_ = false;
    std::int64_t void_run_ = 0;          // void chunks since the last that is not
    std::vector<std::int64_t> awaited_;  // chunks that threads wait for memory for
    std::int64_t asking_ = 0;            // threads that wait for a chunk
    std::int64_t taken_ = 0, epoch_ = -1;
    std::int64_t spoke_ = 0;         // when any head was last heard, ns
    std::int64_t now_ = 0;           // newest time of arrival, ns since 1970; 0: unknown
    std::int64_t last_arrival_ = 0;  // of a packet, or an idle call after packets without times; 0: unknown
    std::int64_t check_at_ = 0;      // time at which somebody may have been silent for too long
    Counts counts_;
};

}  // namespace ryle
