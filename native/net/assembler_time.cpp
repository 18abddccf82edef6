// Time: which chunks are open, when they close, what is missing then, and when the clock is taken to have moved.
#include <algorithm>

#include "assembler.h"

namespace ryle {
namespace {

constexpr std::int64_t kVotes = 8;  // packets that must agree before the clock is taken to have moved

std::int64_t unix_ns() {
    using namespace std::chrono;
    return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace

// A packet that is not of the open time. True if the clock is now taken to have moved to it.
bool Assembler::stray(std::int32_t head, std::int64_t number) {
    Head& h = heads_[head];
    const std::int64_t chunk = floor_div(number, plan_.packets), near = width_ * plan_.packets;
    const bool far = chunk >= base_ + 2 * width_ || chunk < base_ - reach_;
    if (!far && number + plan_.window / plan_.step >= h.peak) {  // it lags behind the others but did not step back
        h.peak = std::max(h.peak, number);
        h.away = 0;
        h.last_home = counts_.received;
        return false;
    }
    h.away = h.away > 0 && std::abs(number - h.last_away) <= near ? h.away + 1 : 1;
    h.last_away = number;
    if (h.away < 2 && !(far && heads_.size() == 1)) return false;
    const std::int64_t patience = std::max<std::int64_t>(1024, 64 * static_cast<std::int64_t>(heads_.size()));
    std::int64_t moved = 0, home = 0, votes = 0, earliest = number;
    for (const Head& other : heads_) {
        if (other.away >= 2 && std::abs(other.last_away - number) <= near) {
            ++moved;
            votes += other.away;
            earliest = std::min(earliest, other.last_away);
        } else if (other.away < 2 && other.last_home > 0 && counts_.received - other.last_home <= patience) {
            ++home;
        }
    }
    // A short step back looks like late packets or duplicates, which a network makes too: it takes more of them.
    const std::int64_t needed = far ? kVotes : std::max(4 * kVotes, moved * plan_.packets / 4);
    if (moved <= home || votes < needed) return false;
    if (chunk > top_ && chunk - top_ <= std::max<std::int64_t>(1, plan_.outage / span_)) {
        advance(floor_div(earliest, plan_.packets));
        for (Head& other : heads_) other.away = 0;
    } else {
        ++counts_.resyncs;
        close_all();
        begin(floor_div(earliest, plan_.packets));
    }
    return true;
}

void Assembler::begin(std::int64_t chunk) {
    started_ = true;
    closed_any_ = false;
    base_ = top_ = chunk;
    referred_ = chunk - 1;
    newest_ = -kNever;
    first_ = kNever;
    ++epoch_;
    for (Head& h : heads_) {
        h.newest = h.peak = -kNever;
        h.first = kNever;
        h.charged = -kNever;
        h.away = 0;
        h.last_home = 0;
    }
    behind_ = static_cast<std::int64_t>(heads_.size());
}

void Assembler::recount_behind() {
    const std::int64_t done = (base_ + 1) * span_ + plan_.window;
    behind_ = 0;
    for (const Head& h : heads_) behind_ += h.newest == -kNever || h.newest * plan_.step < done;
}

// Make `chunk` the oldest open one.
void Assembler::advance(std::int64_t chunk) {
    while (base_ < chunk && base_ <= top_) close_first(false);
    if (base_ < chunk) {  // nothing came for these: the next closing charges them
        base_ = chunk;
        recount_behind();
    }
}

void Assembler::close_first(bool final) {
    Chunk*& slot = open_[open_at_];
    charge(base_, slot, final);
    if (slot != nullptr) {
        ready_.push_back(slot);
        ++counts_.chunks;
        ready_changed_.notify_one();
    }
    slot = nullptr;
    open_at_ = open_at_ + 1 < width_ ? open_at_ + 1 : 0;
    ++base_;
    closed_any_ = true;
    recount_behind();
}

// Count what is missing up to the end of a chunk that closes.
void Assembler::charge(std::int64_t chunk, const Chunk* slot, bool final) {
    const std::int64_t end = (chunk + 1) * plan_.packets, lag = (plan_.skew + plan_.window) / plan_.step;
    const std::int64_t before = counts_.missing;
    for (std::size_t i = 0; i < heads_.size(); ++i) {
        Head& h = heads_[i];
        const bool seen = h.first != kNever;
        const std::int64_t from = h.charged != -kNever ? h.charged : seen ? h.first : first_;
        std::int64_t to = end;
        if (final) to = std::min(end, (seen && newest_ - h.newest <= lag ? h.newest : newest_) + 1);
        if (to > from) {
            const std::int64_t placed = slot != nullptr ? slot->placed_by_head[i] - slot->optional_by_head[i] : 0;
            const std::int64_t missing = (to - from) * parts_.expected() - placed;
            h.counts.missing += missing;
            counts_.missing += missing;
            h.charged = to;
        }
    }
    if (counts_.missing > before && counts_.first_loss == 0) counts_.first_loss = unix_ns();
}

void Assembler::close_all() {
    if (!started_) return;
    while (base_ <= top_) close_first(true);
}

void Assembler::flush() {
    const std::lock_guard lock(mutex_);
    close_all();
}

void Assembler::finish() {
    const std::lock_guard lock(mutex_);
    close_all();
    finished_ = true;
    ready_changed_.notify_all();
}

void Assembler::reopen() {
    const std::lock_guard lock(mutex_);
    close_all();
    finished_ = started_ = quiet_ = false;
}

void Assembler::idle(std::int64_t now) {
    const std::lock_guard lock(mutex_);
    if (last_arrival_ == 0)
        last_arrival_ = now;  // packets without times came at most since the last call
    else
        close_if_quiet(now);
}

void Assembler::close_if_quiet(std::int64_t now) {
    if (plan_.linger.count() == 0 || !started_ || base_ > top_ || now - last_arrival_ < plan_.linger.count()) return;
    close_all();
    quiet_ = true;
}

}  // namespace ryle
