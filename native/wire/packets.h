// A packet description, compiled: which bits are which field, what makes a packet valid, where its samples are.
//
// Nothing outside a packet is ever read: constructing a parser checks that every field lies in the header, and a packet
// shorter than its header or of another length than its samples need is refused before either is looked at.
//
// A header is a fixed start and, in some formats, a number of 64-bit big-endian items: 16 bits of key, 48 of value, in
// any order. Items that the layout does not know are passed over; of several with one key the last counts.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ryle {

using Packet = std::span<const std::uint8_t>;

constexpr std::uint64_t kAbsent = ~std::uint64_t{0};  // value of a field whose item is not there; items have 48 bits
constexpr std::size_t kMostItems = 32;                // that a layout knows

// `width` bits from bit `shift` up of a word of `bytes` bytes at byte `byte`, or of an item's value; allowed are `low`
// to `high`.
struct PacketField {
    std::uint32_t byte, bytes, shift, width;
    bool big_endian;
    std::uint64_t low, high;
    std::int32_t item = -1;             // index into PacketLayout::items; -1: in the header's fixed start
    std::uint64_t otherwise = kAbsent;  // value without the item; kAbsent: the packet needs it
};

struct PacketItem {
    std::uint16_t key;
    bool control = false;          // a packet with this item describes or steers the stream and holds no samples
    std::uint64_t stop = kAbsent;  // the value of a control item that ends the stream
};

// A weighted sum of fields, divided (rounding down).
struct Term {
    std::uint32_t field;
    std::uint64_t factor;
};
struct Sum {
    std::vector<Term> terms;
    std::int64_t add = 0;
    std::uint64_t over = 1;
};

// Packets hold parts of heaps; the sizes and the trailers are then the heap's.
struct HeapLayout {
    bool states_length = false;  // a packet says how long its heap is
    Sum length;
    Sum offset, bytes;       // of the packet's part
    std::uint64_t unit = 1;  // both are multiples of it, but for a heap's end
    bool whole = false;      // a heap is one packet
};

// Size of an axis of the payload: a number, or what a field says (`field` >= 0).
struct Size {
    std::uint64_t value;
    std::int32_t field;
};

enum Reason : std::uint8_t {
    kValid,
    kShort,         // shorter than the header
    kField,         // a field has a value that is not allowed
    kLength,        // not as long as the samples need
    kStatedLength,  // not as long as the header says
    kTimestamp,     // is negative, or does not fit 63 bits
    kItem,          // an item is missing
    kHeap,          // its heap's length is not allowed, or its part does not lie in the heap
    kControl,       // not malformed, but no samples: it describes or steers the stream,
    kStop,          // or ends it
    kReasons
};
enum Code : std::uint8_t { kTwosComplement, kOffsetBinary, kSymmetric, kUnsigned, kFloat, kCodes };

struct PacketLayout {
    std::uint32_t header_bytes = 0;
    std::vector<PacketField> fields;
    std::int32_t count_field = -1;        // the field that counts the items behind the start; -1: there are none
    std::vector<PacketItem> items;        // in the order in which most packets have them, which is read fastest
    std::vector<std::uint32_t> trailers;  // bytes that may follow the samples
    bool heaps = false;
    HeapLayout heap;
    std::vector<Size> sizes;
    std::uint32_t bits = 0, parts = 0;  // of a sample: bits of a part, 2 parts if complex
    Code code = kTwosComplement;
    bool msb_first = true;
    bool states_length = false;  // the packet's bytes are this sum
    Sum length;
    Sum timestamp;
    std::uint64_t period = 0;  // the timestamp counts modulo this; 0: up to 2^63 and never wraps
    std::vector<Sum> placement;
};

// What became of one packet.
struct Verdict {
    Reason reason = kValid;
    std::int32_t field = -1;      // the field that is wrong
    std::int64_t expected = -1;   // bytes that the packet should have (kLength, kStatedLength)
    std::uint32_t payload = 0;    // byte of the packet at which its samples begin; this and the rest if valid
    std::uint32_t bytes = 0;      // of samples; of the heap's payload, if packets are parts of heaps
    std::uint64_t offset = 0;     // of these in the heap's payload; 0 if a packet is all
    std::uint64_t elements = 0;   // parts of samples
    unsigned __int128 count = 0;  // timestamp as it stands in the packet
};

// Throws std::invalid_argument unless no packet can make a parser read or write out of range.
void check(const PacketLayout& layout);

// `values` gets one number a field: zeros if the packet is shorter than the header's start, kAbsent for items that are
// missing.
Verdict examine(const PacketLayout& layout, Packet packet, std::uint64_t* values);

// The count congruent to `count` modulo `period` that is nearest to `reference`; false if it does not fit 63 bits.
bool unwrap(unsigned __int128 count, std::uint64_t period, std::int64_t reference, std::int64_t& out);

// The payload's codes of up to 16 bits as numbers, in wire order. `payload` holds at least elements * bits bits.
template <typename Out>
void decode(const PacketLayout& layout, Packet payload, std::uint64_t elements, Out* out);

}  // namespace ryle
