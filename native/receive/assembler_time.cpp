// Time: which chunks are open, when they close, and what is missing then.
#include <algorithm>
#include <utility>

#include "assembler.h"

namespace ryle {
namespace {

std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

// Before a packet of `chunk` finds its place: time may begin with it.
void Assembler::enter(std::int64_t chunk) {
    if (!started_) begin(chunk);
    if (quiet_) {
        quiet_ = false;
        const bool leaps = sudden((chunk - top_ - 1) * plan_.packets, closed_latest_, now_);
        if (chunk < base_ || chunk - top_ > outage_ || leaps) {
            ++counts_.resyncs;
            discard();
            begin(chunk);
        } else {
            for (Head& h : heads_) h.newest = -kNever, h.away = 0;  // as in a new epoch, all are believed
            advance(chunk - width_ + 1);
            recount();
        }
    }
    if (chunk < base_ && !closed_any_ && top_ - chunk < width_) {
        open_at_ = (open_at_ + rows_ - (base_ - chunk)) % rows_;
        base_ = chunk;  // the first packet of all was not the earliest
        recount();
    }
}

void Assembler::begin(std::int64_t chunk) {
    wake();
    closed_any_ = given_any_ = false;
    closed_latest_ = 0;
    base_ = top_ = chunk;
    referred_ = chunk - 1;
    std::fill(full_.begin(), full_.end(), kNever);
    newest_ = -kNever;
    first_ = kNever;
    ++epoch_;
    for (Head& h : heads_) {
        h.newest = h.peak = h.phase_from = -kNever;
        h.first = kNever;
        h.charged = -kNever;
        h.away = 0;
        h.last_home = 0;
        h.heard = now_;
        h.votes = h.live |= !started_;
    }
    started_ = true;
    recount();
}

// Nobody was heard until now for as long as makes a head silent: the network was gone, and it is nobody's silence. Each
// is as it was when the last was heard.
void Assembler::resume() {
    const std::int64_t silence = plan_.silence.count(), lull = now_ - spoke_;
    for (Head& h : heads_) {
        const bool lived = h.heard + silence > spoke_ && h.away < kVotes;
        const bool voted = lived && (patience_ == 0 || h.heard + patience_ > spoke_);
        count(h, -1);
        h.live |= lived;
        h.votes |= voted;
        h.heard += lull;
        count(h, 1);
    }
    check_at_ = now_;
}

// As hear(), of a head that passes what others wait for, or is waited for from now on.
void Assembler::pass(Head& h, std::int64_t number) {
    count(h, -1);
    h.live = h.votes = true;
    h.newest = std::max(h.newest, number);
    count(h, 1);
}

// Add a head to the numbers that decide when the oldest chunk closes, or take it away.
void Assembler::count(const Head& h, std::int64_t by) {
    if (!h.live) return;
    if (h.newest < done_) behind_ += by;
    if (h.newest == -kNever) return;
    heard_ += by;
    if (!h.votes) return;
    voters_ += by;
    if (h.newest >= far_) ahead_ += by;
}

void Assembler::recount() {
    const std::int64_t end = (base_ + 1) * plan_.packets;
    done_ = end + up(plan_.window, plan_.step);
    far_ = plan_.skew < 0 ? kNever : end + up(plan_.window + plan_.skew, plan_.step);
    behind_ = heard_ = voters_ = ahead_ = 0;
    for (const Head& h : heads_) count(h, 1);
}

// Make `chunk` the oldest open one.
void Assembler::advance(std::int64_t chunk) {
    while (base_ < chunk && base_ <= top_) close_first(false);
    if (base_ < chunk) {  // nothing came for these: the next closing charges them
        give_void(chunk - base_);
        base_ = chunk;
        recount();
    }
}

void Assembler::give(Chunk* chunk) {
    closed_latest_ = chunk->latest;
    if (chunk->placed == marks_) full_[full_at(chunk->number)] = chunk->number;
    chunk->epoch = epoch_;
    given_any_ = true;
    void_run_ = 0;
    ready_.push_back({chunk, chunk->number, 1, epoch_});
    ++counts_.chunks;
    ready_changed_.notify_one();
}

// Close the oldest open chunk, and those behind it that are full.
void Assembler::close_first(bool final) {
    do {
        if (cut()) continue;
        Chunk*& slot = open_[open_at_];
        charge(base_, slot, final);
        if (slot != nullptr) {
            give(slot);
        } else {
            give_void(1);
        }
        slot = nullptr;
        open_at_ = open_at_ + 1 < rows_ ? open_at_ + 1 : 0;
        ++base_;
    } while (open_[open_at_] != nullptr && open_[open_at_]->placed == marks_);
    closed_any_ = true;
    recount();
    if (!awaited_.empty()) free_changed_.notify_all();
}

// If the counters leapt over void chunks after the oldest open one, or from it on: end the epoch there, and give what
// comes behind them as the next.
bool Assembler::cut() {
    if (plan_.rate == 0) return false;
    Chunk*& oldest = open_[open_at_];
    const std::int64_t from = base_ + (oldest != nullptr);
    std::int64_t to = from;
    const std::int64_t last = std::min(top_, base_ + rows_ - 1);
    while (to <= last && slot(to) == nullptr) ++to;
    const std::int64_t since = oldest != nullptr ? oldest->latest : closed_latest_;
    if (to > last || !sudden((to - from) * plan_.packets, since, slot(to)->latest)) return false;
    std::int64_t there = 0, elsewhere = 0;  // what few heads send early is no leap of the others
    const std::int64_t begin = to * plan_.packets;
    for (const Head& h : heads_) {
        const bool moved = h.newest >= begin || (h.away >= kVotes && h.last_away >= begin);
        if (h.live && h.newest != -kNever) ++(moved ? there : elsewhere);
    }
    if (elsewhere != 0 && elsewhere >= there) return false;
    if (oldest != nullptr) {
        const std::int64_t newest = std::exchange(newest_, -kNever);  // what comes before the leap ends with this chunk
        for (Head& h : heads_) h.peak = -kNever;
        learn(*oldest);
        for (const Head& h : heads_) newest_ = std::max(newest_, h.peak);
        charge(base_, oldest, true);
        newest_ = newest;
        give(oldest);
        oldest = nullptr;
    }
    open_at_ = (open_at_ + (to - base_)) % rows_;
    base_ = to;
    ++epoch_;
    ++counts_.resyncs;
    given_any_ = false;
    void_run_ = 0;
    std::fill(full_.begin(), full_.end(), kNever);
    renew();
    return true;
}

// An epoch has been cut: what is known of heads is of the next, which begins with the oldest open chunk.
void Assembler::renew() {
    const std::int64_t begin = base_ * plan_.packets;
    first_ = kNever;
    for (Head& h : heads_) {
        h.charged = -kNever;
        h.first = kNever;
        if (h.newest < begin) h.newest = -kNever;
        if (h.peak < begin) h.peak = -kNever;
    }
    for (std::int64_t chunk = base_; chunk <= std::min(top_, base_ + rows_ - 1); ++chunk)
        if (slot(chunk) != nullptr) learn(*slot(chunk));
}

// Chunks from the oldest open one on in which there is nothing. Too many in a row are a gap between epochs.
void Assembler::give_void(std::int64_t count) {
    if (!given_any_) return;
    void_run_ += count;
    if (void_run_ > outage_) {
        ++epoch_;
        ++counts_.resyncs;
        given_any_ = false;
        return;
    }
    counts_.voids += count;
    if (ready_.empty() || ready_.back().chunk != nullptr || ready_.back().epoch != epoch_)
        ready_.push_back({nullptr, base_, 0, epoch_});
    ready_.back().count += count;
    ready_changed_.notify_one();
}

// Count what is missing up to the end of a chunk that closes.
void Assembler::charge(std::int64_t chunk, const Chunk* slot, bool final) {
    const std::int64_t end = (chunk + 1) * plan_.packets;
    const std::int64_t lag = (std::max<std::int64_t>(plan_.skew, 0) + plan_.window) / plan_.step;
    const std::int64_t before = counts_.missing;
    for (std::size_t i = 0; i < heads_.size(); ++i) {
        Head& h = heads_[i];
        const bool seen = h.first != kNever;
        const std::int64_t from = h.charged != -kNever ? h.charged : seen ? h.first : first_;
        std::int64_t to = end;
        if (final) to = std::min(end, (seen && newest_ <= h.peak + lag ? h.peak : newest_) + 1);
        if (to > from) {
            const std::int64_t placed = slot != nullptr ? slot->placed_by_head[i] - slot->optional_by_head[i] : 0;
            const std::int64_t missing = (to - from) * parts_.expected() - placed;
            h.counts.missing += missing;
            counts_.missing += missing;
            h.charged = to;
        }
    }
    if (counts_.missing > before && counts_.first_loss == 0) counts_.first_loss = now_ != 0 ? now_ : unix_now();
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
    waits_ = false;
    ready_changed_.notify_all();
    free_changed_.notify_all();
}

void Assembler::reopen() {
    const std::lock_guard lock(mutex_);
    close_all();
    discard();
    finished_ = started_ = quiet_ = false;
    waits_ = plan_.waits;
}

void Assembler::idle(std::int64_t now) {
    const std::lock_guard lock(mutex_);
    if (last_arrival_ == 0) last_arrival_ = now;  // packets without times came at most since the last call
    tick(now);
}

// Let time pass: heads fall silent, and open chunks close, at the moments at which they would have if somebody had
// looked; so that it does not matter how often somebody does.
void Assembler::tick(std::int64_t now) {
    if (now_ == 0 || now < now_ - kSetBack) {  // times begin, or the clock that gives them was set back
        now_ = now;
        if (last_arrival_ != 0) last_arrival_ = now;
        for (Head& h : heads_) h.heard = now;
        spoke_ = now;
    }
    const std::int64_t silence = plan_.silence.count(), linger = plan_.linger.count();
    std::int64_t at = next_event();
    for (; at <= now; at = next_event()) {
        now_ = std::max(now_, at);
        bool silenced = false;
        for (Head& h : heads_) {
            const bool dies = h.live && silence != 0 && h.heard + silence <= at;
            const bool keeps_quiet = h.votes && patience_ != 0 && h.heard + patience_ <= at;
            if (!dies && !keeps_quiet) continue;
            count(h, -1);
            h.live &= !dies;
            h.votes = false;
            count(h, 1);
            silenced = true;
        }
        if (silenced) {
            close_passed();
        } else {
            close_all();
            quiet_ = true;
        }
    }
    now_ = std::max(now_, now);
    check_at_ = at;
    if (silence != 0) check_at_ = std::min(check_at_, now_ + silence);
    if (patience_ != 0) check_at_ = std::min(check_at_, now_ + patience_);
    if (linger != 0) check_at_ = std::min(check_at_, now_ + linger);
}

// When the next head will have been silent for too long, or all of them, if nothing comes.
std::int64_t Assembler::next_event() const {
    std::int64_t at = kNever;
    if (!started_) return at;
    for (const Head& h : heads_) {
        if (h.live && plan_.silence.count() != 0) at = std::min(at, h.heard + plan_.silence.count());
        if (h.votes && patience_ != 0) at = std::min(at, h.heard + patience_);
    }
    if (plan_.linger.count() != 0 && last_arrival_ != 0 && !quiet_)
        at = std::min(at, last_arrival_ + plan_.linger.count());
    return at;
}

}  // namespace ryle
