// Clocks: when a head is believed to be where its packets say, and when all of them are.
#include <algorithm>

#include "assembler.h"

namespace ryle {

// Whether a packet of a head that may begin at any time has the phase of the others. That of a head that nobody waits
// for is believed at once, else after some packets in a row.
bool Assembler::in_phase(Head& h, std::int64_t since, std::int64_t number) const {
    const std::int64_t phase = since - number * plan_.step;
    const bool same = phase == h.phase;
    h.out_of_phase = same ? 0 : phase == h.other_phase ? h.out_of_phase + 1 : 1;
    h.other_phase = phase;
    if (same) return true;
    if (h.phase >= 0 && h.live && h.out_of_phase < kVotes) return false;
    h.phase = phase;
    h.out_of_phase = 0;
    h.phase_from = h.peak == -kNever ? -kNever : h.peak + 1;
    return true;
}

// A packet of an open chunk that is ahead of its head's time by more than packets are out of order. True if the head is
// now believed to be there.
bool Assembler::leapt(Head& h, std::int64_t number) {
    const std::int64_t near = std::max<std::int64_t>(1, width_ - 1) * plan_.packets;
    const bool agrees = h.away > 0 && std::abs(number - h.last_away) <= near;
    h.low = agrees ? std::min(h.low, number) : number;
    h.away = agrees ? h.away + 1 : 1;
    h.last_away = number;
    return h.away >= kVotes;
}

// A packet that is not of the open time. True if the clock is now taken to have moved to it.
bool Assembler::stray(Head& h, std::int64_t number) {
    const std::int64_t chunk = floor_div(number, plan_.packets);
    const bool far = chunk >= base_ + rows_ || chunk < base_ - reach_;
    if (far) {
        leapt(h, number);
    } else if (const std::int64_t step = number - h.last_away; h.away == 0 || step != 0) {
        // Late packets and repeated ones look like a short step back, but do not count up one by one.
        const bool agrees = h.away > 0 && step > 0 && step <= kVotes;
        h.low = agrees ? h.low : number;
        h.away = agrees ? h.away + 1 : 1;
        h.last_away = number;
    }
    std::int64_t low = number;
    if (h.away < 2 || !moved(number, far, low)) {
        if (h.live && h.away >= kVotes) {  // it is elsewhere by itself, and nobody waits for it
            count(h, -1);
            h.live = false;
            close_passed();
        }
        return false;
    }
    const std::int64_t first = floor_div(low, plan_.packets);
    if (chunk > top_ && chunk - top_ <= outage_) {
        for (Head& other : heads_) {
            if (other.away < 2) continue;
            if (other.last_away >= low) {
                other.newest = std::max(other.newest, other.last_away);
                other.live = true;
                other.heard = now_;
                newest_ = std::max(newest_, other.newest);
                top_ = std::max(top_, floor_div(other.last_away, plan_.packets));
            }
            other.away = 0;
        }
        advance(first);
        recount();
    } else {
        ++counts_.resyncs;
        close_all();
        begin(first);
    }
    return true;
}

// Whether more of the heads that were heard lately agree with this packet than are where they were; `low`: the lowest
// number of those that do.
bool Assembler::moved(std::int64_t number, bool far, std::int64_t& low) const {
    const std::int64_t near = std::max<std::int64_t>(1, width_ - 1) * plan_.packets, each = far ? 2 : kVotes;
    const std::int64_t patience = std::max<std::int64_t>(1024, 64 * static_cast<std::int64_t>(heads_.size()));
    std::int64_t moved = 0, home = 0, votes = 0;
    for (const Head& h : heads_) {
        if (h.away >= each && std::abs(h.last_away - number) <= near) {
            ++moved;
            votes += h.away;
            low = std::min(low, std::max(h.low, number - near));
        } else if (h.away < each && h.live && h.last_home > 0 && counts_.received - h.last_home <= patience) {
            ++home;
        }
    }
    return moved > home && votes >= kVotes;
}

}  // namespace ryle
