#include "faults.h"

#include <limits>
#include <stdexcept>
#include <utility>

#include "payload.h"

namespace ryle {
namespace {

constexpr std::uint64_t kFaultSalt = 0xFA0175;  // faults and payloads of one seed have nothing to do with each other

// Uniform over [0, 1).
double share(std::uint64_t random) { return static_cast<double>(random >> 11) * 0x1p-53; }

}  // namespace

void check(const Faults& faults) {
    for (const double rate :
         {faults.loss, faults.duplicate, faults.reorder, faults.corrupt, faults.truncate, faults.foreign})
        if (!(rate >= 0 && rate <= 1)) throw std::invalid_argument("shares of faults must be 0 to 1");
    if (faults.loss + faults.duplicate + faults.reorder + faults.corrupt + faults.truncate + faults.foreign > 1)
        throw std::invalid_argument("shares of faults must be at most 1 in all");
    if (faults.distance < 1) throw std::invalid_argument("packets out of order come at least 1 packet later");
}

Choice choose(const Faults& faults, std::uint32_t stream, std::uint64_t packet) {
    const std::uint64_t key = payload_key(faults.seed ^ kFaultSalt, stream, packet);
    Choice choice;
    choice.draw = payload_word(key, 0);
    choice.later = 1 + choice.draw % faults.distance;
    double u = share(key);
    const auto chosen = [&](double rate) {
        const bool is = u < rate;
        u -= rate;
        return is && rate > 0;
    };
    if (chosen(faults.loss))
        choice.fate = kLost;
    else if (chosen(faults.duplicate))
        choice.fate = kDuplicated;
    else if (chosen(faults.reorder))
        choice.fate = kReordered;
    else if (chosen(faults.corrupt))
        choice.fate = kCorruptedInvalid;
    else if (chosen(faults.truncate))
        choice.fate = kTruncated;
    else
        choice.foreign = chosen(faults.foreign);
    return choice;
}

Injector::Injector(const Faults& faults, std::uint32_t streams, PacketLayout layout)
    : faults_(faults),
      layout_(std::move(layout)),
      counts_(streams),
      passed_(streams),
      held_(streams),
      values_(layout_.fields.size() + 1) {
    check(faults_);
    check(layout_);
    if (faults_.foreign > 0) throw std::invalid_argument("packets of nobody's are not made on the way");
}

void Injector::pass(std::uint32_t stream, std::uint32_t tag, Packet packet, Datagrams& out) {
    if (stream >= counts_.size()) throw std::out_of_range("there is no such stream");
    const std::uint64_t number = passed_[stream]++;
    Choice choice = choose(faults_, stream, number);
    const auto hold = [&] {
        held_[stream].push({number + 1 + choice.later, number, tag, {packet.begin(), packet.end()}});
    };
    if (choice.fate == kDuplicated || choice.fate == kSent) emit(stream, tag, packet, out);
    if (choice.fate == kDuplicated || choice.fate == kReordered) hold();
    if (choice.fate == kCorruptedInvalid || choice.fate == kTruncated) {
        std::vector<std::uint8_t> damaged(packet.begin(), packet.end());
        if (choice.fate == kTruncated || !damage(damaged, choice.draw)) {
            choice.fate = kTruncated;
            if (damaged.size() > 1) damaged.resize(1 + choice.draw % (damaged.size() - 1));
            while (damaged.size() > 1 && examine(layout_, damaged, values_.data()).reason == kValid) damaged.pop_back();
        }
        emit(stream, tag, damaged, out);
    }
    counts_[stream].fates[choice.fate].add();
    release(stream, number + 1, out);
}

void Injector::flush(Datagrams& out) {
    for (std::uint32_t stream = 0; stream < held_.size(); ++stream)
        release(stream, std::numeric_limits<std::uint64_t>::max(), out);
}

void Injector::release(std::uint32_t stream, std::uint64_t passed, Datagrams& out) {
    auto& held = held_[stream];
    for (; !held.empty() && held.top().release <= passed; held.pop())
        emit(stream, held.top().tag, held.top().bytes, out);
}

void Injector::emit(std::uint32_t stream, std::uint32_t tag, Packet packet, Datagrams& out) {
    out.bytes.insert(out.bytes.end(), packet.begin(), packet.end());
    out.lengths.push_back(static_cast<std::uint32_t>(packet.size()));
    out.tags.push_back(tag);
    counts_[stream].packets.add();
    counts_[stream].bytes.add(static_cast<std::int64_t>(packet.size()));
}

bool Injector::damage(std::vector<std::uint8_t>& packet, std::uint64_t draw) {
    const std::uint64_t bits = 8 * std::uint64_t{layout_.header_bytes};
    for (std::uint64_t k = 0; k < bits; ++k) {
        const std::uint64_t bit = (draw + k) % bits;
        if (bit / 8 >= packet.size()) continue;
        packet[bit / 8] ^= static_cast<std::uint8_t>(0x80 >> bit % 8);
        const Reason reason = examine(layout_, packet, values_.data()).reason;
        if (reason != kValid && reason != kControl && reason != kStop) return true;
        packet[bit / 8] ^= static_cast<std::uint8_t>(0x80 >> bit % 8);
    }
    return false;
}

}  // namespace ryle
