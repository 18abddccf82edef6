#include "maker.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace ryle {
namespace {

constexpr std::size_t kMostEvents = 4096;
constexpr Fate kRepeat = kFates;  // the second of a packet sent twice: counted with the first

void store(std::uint8_t* p, const PacketField& field, std::uint64_t value) {
    const std::uint64_t mask = field.width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << field.width) - 1;
    for (std::uint32_t i = 0; i < field.bytes; ++i) {
        const std::uint32_t bit = 8 * (field.big_endian ? field.bytes - 1 - i : i);  // of the word, lowest of the byte
        const std::uint8_t keep = static_cast<std::uint8_t>(~(mask << field.shift >> bit));
        p[field.byte + i] =
            static_cast<std::uint8_t>((p[field.byte + i] & keep) | (((value & mask) << field.shift >> bit) & 0xFF));
    }
}

}  // namespace

PacketSource::PacketSource(std::vector<std::uint32_t> streams, const Faults& faults)
    : streams_(std::move(streams)),
      counts_(streams_.size()),
      faults_(faults),
      faulty_(faults.any()),
      held_(streams_.size()),
      passed_(streams_.size()) {
    if (streams_.empty()) throw std::invalid_argument("a sender needs a stream");
    check(faults);
    if (faults.loss > 0.999) throw std::invalid_argument("loss must be at most 0.999, or nothing is left to send");
}

std::int64_t PacketSource::due() { return refill() ? ready_.front().due : kNothingLeft; }

bool PacketSource::refill() {
    while (ready_.empty()) {
        Slot slot;
        if (ended_ || !next(slot)) {
            for (std::uint32_t at = 0; at < held_.size(); ++at) release(at, kForever, last_due_);
            return !ready_.empty();
        }
        last_due_ = slot.due;
        decide(slot);
        if (faulty_) release(slot.at, ++passed_[slot.at], slot.due);
    }
    return true;
}

void PacketSource::decide(const Slot& slot) {
    const auto emit = [&](Fate fate, std::uint64_t draw) {
        ready_.push_back({slot.at, slot.packet, slot.due, fate, draw});
    };
    const auto fate = [&](Fate which) { counts_[slot.at].fates[which].add(); };
    if (!faulty_) {
        fate(kSent);
        return emit(kSent, 0);
    }
    const Choice choice = choose(faults_, streams_[slot.at], slot.packet);
    const auto hold = [&] { held_[slot.at].push({passed_[slot.at] + 1 + choice.later, slot.packet}); };
    switch (choice.fate) {
        case kLost:
            fate(kLost);
            note(kLost, slot.at, slot.packet, 0);
            break;
        case kDuplicated:
            fate(kDuplicated);
            note(kDuplicated, slot.at, slot.packet, choice.later);
            emit(kDuplicated, 0);
            hold();
            break;
        case kReordered:
            fate(kReordered);
            note(kReordered, slot.at, slot.packet, choice.later);
            hold();
            break;
        case kSent:
            fate(kSent);
            emit(kSent, 0);
            if (choice.foreign) emit(kForeignStream, choice.draw);
            break;
        default:  // counted when it is seen what it has become
            emit(choice.fate, choice.draw);
    }
}

void PacketSource::release(std::uint32_t at, std::uint64_t passed, std::int64_t due) {
    auto& held = held_[at];
    while (!held.empty() && held.top().release <= passed) {
        ready_.push_back({at, held.top().packet, due, kRepeat, 0});
        held.pop();
    }
}

void PacketSource::note(Fate fate, std::uint32_t at, std::uint64_t packet, std::uint64_t detail) {
    ++events_total_;
    if (events_.size() < kMostEvents) events_.push_back({fate, streams_[at], packet, timestamp(at, packet), detail});
}

Made PacketSource::make(std::uint8_t* out) {
    if (!refill()) throw std::logic_error("there are no more packets");
    Emission emission = ready_.front();
    ready_.pop_front();
    const std::uint32_t at = emission.at;
    StreamCounts& counts = counts_[at];
    const auto count = [&](Fate fate, std::uint64_t detail) {
        counts.fates[fate].add();
        note(fate, at, emission.packet, detail);
    };
    std::uint32_t bytes;
    if (emission.fate == kForeignStream) {
        const Fate fate = foreign(at, emission.packet, out, emission.draw, bytes);
        count(fate, bytes);
    } else {
        bytes = write(at, emission.packet, out);
        if (emission.fate == kCorruptedInvalid) {
            std::uint64_t bit = emission.draw;
            const Fate fate = corrupt(at, emission.packet, out, bytes, bit);
            count(fate, bit);
        } else if (emission.fate == kTruncated && bytes > 1) {
            bytes = static_cast<std::uint32_t>(1 + emission.draw % (bytes - 1));
            while (bytes > 1 && valid(out, bytes)) --bytes;
            count(kTruncated, bytes);
        }
    }
    counts.packets.add();
    counts.bytes.add(bytes);
    return {bytes, streams_[at], emission.due};
}

namespace {
std::vector<std::uint32_t> indices(const std::vector<StreamPlan>& streams) {
    std::vector<std::uint32_t> result;
    for (const StreamPlan& stream : streams) result.push_back(stream.index);
    return result;
}
}  // namespace

PacketMaker::PacketMaker(std::shared_ptr<const FormatPlan> plan, std::vector<StreamPlan> streams)
    : PacketSource(indices(streams), plan->faults),
      plan_(std::move(plan)),
      plans_(std::move(streams)),
      terms_(plan_->layout.timestamp.terms),
      parts_(plan_->part_bytes ? (plan_->payload_bytes + plan_->part_bytes - 1) / plan_->part_bytes : 1),
      known_(plan_->heads),
      values_(std::max(plan_->layout.fields.size(), plan_->wire.fields.size()) + 1),
      head_(plan_->wire_fields.size()) {
    const FormatPlan& p = *plan_;
    check(p.layout);
    check(p.wire);
    if (p.step < 1 || p.burst < 1) throw std::invalid_argument("steps and bursts are at least 1");
    if (!(p.rate >= 0)) throw std::invalid_argument("a rate must not be negative");
    for (const std::uint32_t field : p.stream_fields)
        if (field >= p.layout.fields.size()) throw std::invalid_argument("a stream names an unknown field");
    for (const std::uint32_t field : p.wire_fields)
        if (field >= p.wire.fields.size()) throw std::invalid_argument("a stream names an unknown field");
    if (p.number_field >= static_cast<std::int64_t>(p.layout.fields.size()))
        throw std::invalid_argument("heaps are numbered by an unknown field");
    if (p.part_bytes && (!p.layout.heaps || p.trailer_bytes || p.payload_bytes == 0 || p.part_bytes % 8))
        throw std::invalid_argument("parts of heaps are whole 64-bit words, of a payload of the format's heaps");
    std::sort(known_.begin(), known_.end());
    std::sort(terms_.begin(), terms_.end(), [](const Term& a, const Term& b) { return a.factor > b.factor; });
    bytes_ = p.layout.header_bytes + part(0).second + p.trailer_bytes;
    most_ = std::max(bytes_, p.layout.header_bytes + 64);  // packets of no format are up to as long
    slots_each_ = p.packets;
    std::vector<std::uint8_t> packet(bytes_);
    for (std::uint32_t at = 0; at < plans_.size(); ++at) {
        const StreamPlan& stream = plans_[at];
        if (stream.header.size() != p.layout.header_bytes || stream.turns < 1 || stream.turn >= stream.turns ||
            stream.index >= p.heads.size())
            throw std::invalid_argument("a stream's header or turn is wrong");
        if (p.packets != kForever) slots_each_ = std::max(slots_each_, p.packets + stream.lag);
        const auto first_of = [&](std::uint64_t heap) { return heap == kForever ? kForever : heap * parts_; };
        for (const std::uint64_t n :
             {std::uint64_t{0}, std::uint64_t{parts_ - 1}, std::uint64_t{parts_}, first_of(p.jump_at),
              first_of(p.restart_at), p.packets == kForever ? 0 : p.packets - 1}) {
            if (n == kForever || n >= p.packets) continue;
            const std::uint32_t bytes = write(at, n, packet.data());
            const Verdict verdict = examine(p.wire, Packet(packet.data(), bytes), values_.data());
            if (verdict.reason != kValid)
                throw std::invalid_argument("packet " + std::to_string(n) + " of stream " +
                                            std::to_string(stream.index) +
                                            " would not be valid: a field or its length is not allowed");
            const unsigned __int128 period = p.wire.period;
            if ((period ? verdict.count % period : verdict.count) != count(stream, n))
                throw std::invalid_argument("the timestamp's fields cannot say " + std::to_string(count(stream, n)));
        }
    }
}

std::pair<std::uint64_t, std::uint32_t> PacketMaker::part(std::uint64_t packet) const {
    const FormatPlan& p = *plan_;
    if (!p.part_bytes) return {0, p.payload_bytes};
    const std::uint64_t from = packet % parts_ * p.part_bytes;
    return {from, static_cast<std::uint32_t>(std::min<std::uint64_t>(p.part_bytes, p.payload_bytes - from))};
}

std::uint64_t PacketMaker::count(const StreamPlan& stream, std::uint64_t packet) const {
    const FormatPlan& p = *plan_;
    if (parts_ > 1) packet /= parts_;
    __int128 further = p.first;
    if (packet >= p.restart_at)
        packet -= p.restart_at;
    else if (packet >= p.jump_at)
        further += p.jump;
    if (stream.turns > 1) packet = (packet / p.burst * stream.turns + stream.turn) * p.burst + packet % p.burst;
    further += static_cast<__int128>(packet) * p.step;
    const __int128 period = p.layout.period ? static_cast<__int128>(p.layout.period) : __int128{1} << 64;
    if (further >= 0 && further < period) return static_cast<std::uint64_t>(further);  // most are: spare the division
    further %= period;
    return static_cast<std::uint64_t>(further < 0 ? further + period : further);
}

void PacketMaker::set_count(std::uint8_t* header, std::uint64_t count) const {
    const PacketLayout& layout = plan_->layout;
    const std::uint64_t add = static_cast<std::uint64_t>(layout.timestamp.add);
    std::uint64_t rest = count >= add ? count - add : count + layout.period - add;
    for (const Term& term : terms_) {
        const PacketField& field = layout.fields[term.field];
        const std::uint64_t value = std::min(rest / term.factor, field.high);
        store(header, field, value);
        rest -= value * term.factor;
    }
}

void PacketMaker::set_sum(std::uint8_t* header, const Sum& sum, std::uint64_t value) const {
    std::uint64_t rest = value - static_cast<std::uint64_t>(sum.add);
    std::vector<Term> terms = sum.terms;
    if (terms.size() > 1)
        std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return a.factor > b.factor; });
    for (const Term& term : terms) {
        const PacketField& field = plan_->layout.fields[term.field];
        const std::uint64_t said = std::min(rest / term.factor, field.high);
        store(header, field, said);
        rest -= said * term.factor;
    }
}

std::int64_t PacketMaker::timestamp(std::uint32_t at, std::uint64_t packet) const {
    return static_cast<std::int64_t>(count(plans_[at], packet));
}

bool PacketMaker::next(Slot& slot) {
    const FormatPlan& p = *plan_;
    const std::uint64_t streams = plans_.size(), burst = p.burst;
    for (;; ++slot_) {
        const std::uint64_t round = slot_ / burst / streams;
        if (round >= (slots_each_ + burst - 1) / burst && slots_each_ != kForever) return false;
        slot.at = static_cast<std::uint32_t>(slot_ / burst % streams);
        const std::uint64_t passed = round * burst + slot_ % burst, lag = plans_[slot.at].lag;
        if (passed < lag || passed - lag >= p.packets) continue;
        slot.packet = passed - lag;
        const std::uint64_t first = slot_ / burst * burst;
        slot.due =
            p.rate > 0
                ? static_cast<std::int64_t>(static_cast<double>(first) * 1e9 / (p.rate * static_cast<double>(streams)))
                : 0;
        ++slot_;
        return true;
    }
}

std::uint32_t PacketMaker::write(std::uint32_t at, std::uint64_t packet, std::uint8_t* out) {
    const FormatPlan& p = *plan_;
    const StreamPlan& stream = plans_[at];
    const std::uint64_t time = count(stream, packet);
    std::memcpy(out, stream.header.data(), stream.header.size());
    set_count(out, time);
    const auto [from, bytes] = part(packet);
    if (p.part_bytes) {
        set_sum(out, p.layout.heap.offset, from);
        set_sum(out, p.layout.heap.bytes, bytes);
    }
    if (p.number_field >= 0)
        store(out, p.layout.fields[p.number_field], packet / parts_ * p.heads.size() + stream.index);
    out += stream.header.size();
    fill_payload(p.filling, p.seed, stream.identity, time / p.step, out, bytes, from);
    std::memset(out + bytes, 0, p.trailer_bytes);
    return static_cast<std::uint32_t>(stream.header.size()) + bytes + p.trailer_bytes;
}

bool PacketMaker::known() {
    for (std::size_t i = 0; i < head_.size(); ++i) head_[i] = values_[plan_->wire_fields[i]];
    return std::binary_search(known_.begin(), known_.end(), head_);
}

bool PacketMaker::valid(const std::uint8_t* packet, std::uint32_t bytes) {
    return examine(plan_->wire, Packet(packet, bytes), values_.data()).reason == kValid;
}

Fate PacketMaker::corrupt(std::uint32_t at, std::uint64_t packet, std::uint8_t* out, std::uint32_t bytes,
                          std::uint64_t& draw) {
    const FormatPlan& p = *plan_;
    if (p.layout.header_bytes == 0) throw std::invalid_argument("a format without a header has no header bits to turn");
    draw %= 8 * p.layout.header_bytes;
    out[draw / 8] ^= static_cast<std::uint8_t>(0x80 >> draw % 8);
    const Verdict verdict = examine(p.wire, Packet(out, bytes), values_.data());
    if (verdict.reason == kControl || verdict.reason == kStop) return kCorruptedForeign;  // it holds no samples
    if (verdict.reason != kValid) return kCorruptedInvalid;
    if (!known()) return kCorruptedForeign;
    const auto [from, held] = part(packet);
    if (p.part_bytes && (verdict.offset % p.part_bytes || part(verdict.offset / p.part_bytes).second != verdict.bytes))
        return kCorruptedInvalid;  // no part of a heap begins there, or it is of another length
    const unsigned __int128 period = p.wire.period;
    const unsigned __int128 time = period ? verdict.count % period : verdict.count;
    const bool there = !p.part_bytes || verdict.offset == from;
    return there && head_ == p.heads[plans_[at].index] && time == count(plans_[at], packet) ? kCorruptedHarmless
                                                                                            : kCorruptedMisplaced;
}

Fate PacketMaker::foreign(std::uint32_t at, std::uint64_t packet, std::uint8_t* out, std::uint64_t draw,
                          std::uint32_t& bytes) {
    const FormatPlan& p = *plan_;
    if (!p.stream_fields.empty()) {
        bytes = write(at, packet, out);
        for (int attempt = 0; attempt < 64; ++attempt) {
            for (const std::uint32_t f : p.stream_fields) {
                const PacketField& field = p.layout.fields[f];
                draw = mix64(draw + kPayloadStep);
                const std::uint64_t range = field.high - field.low;
                const std::uint64_t most =
                    field.width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << field.width) - 1;
                store(out, field, field.low + draw % (std::min(range, most - field.low) + (range < most)));
            }
            if (!valid(out, bytes)) continue;
            if (!known()) return kForeignStream;
        }
    }
    // Every stream that the header can name is sent, or it names none: bytes that are no packet of the format.
    bytes = static_cast<std::uint32_t>(1 + draw % most_);
    fill_payload(Filling::random, draw, streams()[at], packet, out, bytes);
    while (bytes > 1 && valid(out, bytes)) --bytes;
    return kForeignFormat;
}

PacketReplay::PacketReplay(std::shared_ptr<const Recording> recording, std::vector<std::uint32_t> streams,
                           const Faults& faults)
    : PacketSource(std::move(streams), faults), recording_(std::move(recording)), datagrams_(this->streams().size()) {
    const Recording& r = *recording_;
    const std::vector<std::uint32_t>& mine = this->streams();
    if (faults.corrupt > 0 || faults.foreign > 0)
        throw std::invalid_argument(
            "of a recording the format is not known: its headers cannot be corrupted, and what "
            "is foreign to it cannot be made");
    if (r.starts.size() != r.lengths.size() || r.starts.size() != r.streams.size() || r.starts.size() != r.dues.size())
        throw std::invalid_argument("a recording's columns must be equally long");
    for (std::uint32_t d = 0; d < r.starts.size(); ++d) {
        const auto found = std::find(mine.begin(), mine.end(), r.streams[d]);
        if (found == mine.end()) continue;
        const std::uint32_t at = static_cast<std::uint32_t>(found - mine.begin());
        schedule_.push_back({at, static_cast<std::uint32_t>(datagrams_[at].size())});
        datagrams_[at].push_back(d);
        most_ = std::max(most_, r.lengths[d]);
    }
}

bool PacketReplay::next(Slot& slot) {
    if (next_ == schedule_.size()) return false;
    const auto& [at, number] = schedule_[next_++];
    slot = {at, number, recording_->dues[datagrams_[at][number]]};
    return true;
}

std::uint32_t PacketReplay::write(std::uint32_t at, std::uint64_t packet, std::uint8_t* out) {
    const std::uint32_t datagram = datagrams_[at][packet];
    std::memcpy(out, recording_->file + recording_->starts[datagram], recording_->lengths[datagram]);
    return recording_->lengths[datagram];
}

Fate PacketReplay::corrupt(std::uint32_t, std::uint64_t, std::uint8_t*, std::uint32_t, std::uint64_t&) {
    throw std::logic_error("recordings are not corrupted");
}

Fate PacketReplay::foreign(std::uint32_t, std::uint64_t, std::uint8_t*, std::uint64_t, std::uint32_t&) {
    throw std::logic_error("nothing is foreign to a recording");
}

}  // namespace ryle
