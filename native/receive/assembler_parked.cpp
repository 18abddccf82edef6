// Packets of another time are kept while it is not known whether the clock has moved there: if it has, it cost nothing.
#include <algorithm>
#include <cstring>

#include "assembler.h"

namespace ryle {

// A packet that does not belong to the open time, counted as `why` unless the clock moves, or has moved, to it.
Assembler::Fate Assembler::go_astray(const Arrival& packet, const Parsed& parsed, const std::uint64_t* notes,
                                     std::int32_t head, std::int64_t number, Why why, Batch& out) {
    Head& h = heads_[head];
    Chunk* const chunk = park(floor_div(number, plan_.packets), why);
    if (chunk == nullptr && parks_ && ((waits_ && !exhausted()) || soon(out))) {
        out.awaited = kNever;
        return Fate::waits;
    }
    const std::int64_t mark = mark_of(head, number, parsed.part);
    const bool keeps = chunk != nullptr && !chunk->present[mark];
    if (keeps) {
        put(packet, parsed, notes, head, mark, *chunk, out);
        tally(h, chunk->why, 1);
    }
    if (stray(h, number) && !keeps) return place(packet, parsed, notes, head, number, out);
    if (keeps) return Fate::placed;
    tally(h, why, 1);
    return Fate::refused;
}

// Where packets of a chunk of another time are kept, if there is memory that nobody needs: that of one time at once.
Chunk* Assembler::park(std::int64_t chunk, Why why) {
    if (!parks_) return nullptr;
    reclaim();
    if (!parked_.empty() &&
        (chunk <= parked_from_ - width_ || chunk >= parked_from_ + rows_ || counts_.received - parked_at_ > lately_))
        discard();
    parked_at_ = counts_.received;
    for (Chunk* parked : parked_)
        if (parked->number == chunk) return parked;
    if (free_.empty()) return nullptr;
    if (parked_.empty()) parked_from_ = chunk;
    parked_.push_back(fresh(chunk));
    parked_.back()->why = why;
    return parked_.back();
}

// The clock has moved: what was kept of its time is placed.
void Assembler::adopt() {
    for (Chunk* chunk : parked_) {
        const bool fits = chunk->number >= base_ && chunk->number < base_ + rows_ && slot(chunk->number) == nullptr;
        if (!fits) {
            discarded_.push_back(chunk);
            continue;
        }
        slot(chunk->number) = chunk;
        top_ = std::max(top_, chunk->number);
        for (std::size_t i = 0; i < heads_.size(); ++i) {
            const std::int64_t placed = chunk->placed_by_head[i];
            tally(heads_[i], chunk->why, -placed);
            counts_.placed += placed, heads_[i].counts.placed += placed;
        }
        learn(*chunk);
    }
    parked_.clear();
    recount();
    if (Chunk* const oldest = slot(base_); oldest != nullptr && oldest->placed == marks_) close_first(false);
    close_passed();
}

// Which packets of each head are in a chunk of this epoch, that they did not come to one by one.
void Assembler::learn(const Chunk& chunk) {
    const std::int64_t each = plan_.packets * per_cell_, begin = chunk.number * plan_.packets;
    for (std::size_t i = 0; i < heads_.size(); ++i) {
        if (chunk.placed_by_head[i] == 0) continue;
        const std::uint8_t* const present = chunk.present + static_cast<std::int64_t>(i) * each;
        std::int64_t first = 0, last = each - 1;
        while (!present[first]) ++first;
        while (!present[last]) --last;
        Head& h = heads_[i];
        h.first = std::min(h.first, begin + first / per_cell_);
        h.peak = std::max(h.peak, begin + last / per_cell_);
        first_ = std::min(first_, h.first);
    }
}

void Assembler::discard() {
    discarded_.insert(discarded_.end(), parked_.begin(), parked_.end());
    parked_.clear();
}

// Memory of the open time has run out, and what is kept of another may have to go.
bool Assembler::unpark() {
    if (!parked_.empty()) {
        discarded_.push_back(parked_.back());
        parked_.pop_back();
    }
    reclaim();
    return !free_.empty();
}

// Take back the memory of chunks that nobody writes to any longer.
void Assembler::reclaim() {
    std::erase_if(discarded_, [this](Chunk* chunk) {
        if (chunk->finished.load(std::memory_order_acquire) != chunk->started) return false;
        clear(*chunk);
        free_.push_back(chunk);
        return true;
    });
}

void Assembler::tally(Head& h, Why why, std::int64_t packets) {
    switch (why) {
        case Why::jump:
            counts_.malformed += packets, counts_.faults[kJump] += packets, h.counts.jump += packets;
            break;
        case Why::late:
            counts_.late += packets, h.counts.late += packets;
            break;
        case Why::duplicate:
            counts_.duplicate += packets, h.counts.duplicate += packets;
    }
}

}  // namespace ryle
