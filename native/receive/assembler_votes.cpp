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

// Whether so many packets of a head cannot have been due between two times of arrival: counters leapt over them.
bool Assembler::sudden(std::int64_t numbers, std::int64_t from, std::int64_t to) const {
    if (plan_.rate == 0 || plan_.skew < 0 || from == 0 || to == 0) return false;
    const double units = static_cast<double>(numbers) * static_cast<double>(plan_.step);
    return units > static_cast<double>(plan_.window + plan_.skew) &&
           units > 2 * static_cast<double>(to - from) * (plan_.rate * 1e-9);
}

// A packet that is ahead of its head's time, or behind it, by more than packets are out of order. True if the head is
// now believed to be there.
bool Assembler::leapt(Head& h, std::int64_t number) {
    const std::int64_t near = std::max<std::int64_t>(1, width_ - 1) * plan_.packets;
    const bool agrees = h.away > 0 && std::abs(number - h.last_away) <= near;
    note_away(h, number, agrees);
    if (agrees) h.low = std::min(h.low, number);
    return h.away >= kVotes && h.turns >= 2 && gone(h);
}

// Count a packet that did not belong to its head's time, with those before it that it agrees with or as the first.
void Assembler::note_away(Head& h, std::int64_t number, bool agrees) {
    h.turns = agrees ? h.turns + (number != h.last_away || per_cell_ > 1) : 1;
    h.away = agrees ? h.away + 1 : 1;
    h.last_away = number;
    if (agrees) return;
    h.low = number;
    h.away_since = now_;
}

// A packet that is not of the open time. True if the clock is now taken to have moved to it.
bool Assembler::stray(Head& h, std::int64_t number) {
    const std::int64_t chunk = floor_div(number, plan_.packets);
    const bool far = chunk >= base_ + rows_ || chunk < base_ - reach_;
    if (far) {
        leapt(h, number);
    } else if (const std::int64_t step = number - h.last_away; h.away == 0 || step != 0) {
        // Late packets and repeated ones look like a short step back, but do not count up one by one.
        note_away(h, number, h.away > 0 && step > 0 && step <= kVotes);
    }
    Move move{number, now_};
    const std::int64_t each = far ? 2 : kVotes;
    if (h.away < 2 || !moved(number, each, move)) {
        if (h.live && h.away >= kVotes && gone(h)) {  // it is elsewhere by itself, and nobody waits for it
            count(h, -1);
            h.live = h.votes = false;
            close_passed();
        }
        return false;
    }
    std::int64_t heard = 0, newest = newest_;  // of what was believed, and of what was placed while it was not
    for (Head& other : heads_) {
        heard = std::max(heard, other.heard);
        newest = std::max(newest, other.peak);
        other.moves = joins(other, number, each);
    }
    wake();
    const std::int64_t first = floor_div(move.low, plan_.packets);
    if (chunk > top_ && chunk - top_ <= outage_ && !sudden(move.low - newest, heard, move.since)) {
        advance(first);
    } else {
        ++counts_.resyncs;
        close_all();
        begin(first);
    }
    for (Head& other : heads_) {
        if (!other.moves) continue;
        other.newest = other.last_away;
        other.live = other.votes = true;
        other.away = 0;
        other.last_home = counts_.received;
        other.heard = now_;
        newest_ = std::max(newest_, other.newest);
    }
    adopt();
    return true;
}

// Whether a head has left its time for that of this packet.
bool Assembler::joins(const Head& h, std::int64_t number, std::int64_t each) const {
    const std::int64_t near = std::max<std::int64_t>(1, width_ - 1) * plan_.packets;
    return left(h, each) && std::abs(h.last_away - number) <= near;
}

// Whether more of the heads that were heard lately agree with this packet than are where they were.
bool Assembler::moved(std::int64_t number, std::int64_t each, Move& move) const {
    const std::int64_t far = std::max<std::int64_t>(1, rows_ - 1) * plan_.packets;
    const bool timed = now_ != 0 && plan_.silence.count() != 0;  // live says who was heard lately
    std::int64_t moved = 0, home = 0, votes = 0;
    for (const Head& h : heads_) {
        if (joins(h, number, each)) {
            ++moved;
            votes += h.away;
            move.low = std::min(move.low, std::max(h.low, number - far));
            move.since = std::min(move.since, h.away_since);
        } else if (!left(h, each) && h.live && h.last_home > 0 &&
                   (timed || counts_.received - h.last_home <= lately_)) {
            ++home;
        }
    }
    return moved > home && votes >= kVotes;
}

}  // namespace ryle
