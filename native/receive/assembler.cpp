// Packets in: headers read, places found, payloads copied.
#include "assembler.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "copy.h"
#include "soon.h"

namespace ryle {
namespace {

constexpr std::int64_t kBeyondCache = 64 << 20;  // bytes of a ring of which caches hold little when it is read

// How long so many timestamp units last, ns, and `least` at least; 0 if the plan does not know.
std::int64_t lasting(const Plan& plan, std::int64_t units, double least = 1e7) {
    if (plan.rate == 0) return 0;
    return static_cast<std::int64_t>(std::min(std::max(static_cast<double>(units) / plan.rate * 1e9, least), 1e17));
}

std::uint64_t mixed(Key key) {
    std::uint64_t x = static_cast<std::uint64_t>(key) ^ static_cast<std::uint64_t>(key >> 64) * 0x9e3779b97f4a7c15u;
    x *= 0xff51afd7ed558ccdu;
    return x ^ x >> 32;
}

}  // namespace

std::size_t Assembler::memory_bytes(const Plan& plan) {
    checked_width(plan);
    return static_cast<std::size_t>((plan.slots + 1) * slot_bytes(plan));  // the last for void chunks
}

Assembler::Assembler(Plan plan, std::uint8_t* memory)
    : plan_(std::move(plan)),
      width_(checked_width(plan_)),
      parts_(plan_.parts),
      per_cell_(parts_.count()),
      marks_(marks(plan_)),
      span_(plan_.packets * plan_.step),
      reach_(8 * width_),
      leap_(std::max({plan_.window / plan_.step, plan_.packets, kVotes})),
      outage_(std::max<std::int64_t>(1, plan_.outage / span_)),
      // Of any phase, heads that were silent are believed whatever theirs is: they may have begun anew.
      lull_(plan_.silence.count() != 0 && !plan_.any_phase ? plan_.silence.count() : kNever),
      patience_(plan_.skew < 0 ? 0 : lasting(plan_, plan_.window + plan_.skew)),
      leave_(lasting(plan_, 2 * plan_.step / per_cell_)),
      rows_(std::min(plan_.slots, width_ + outage_)),
      lately_(per_cell_ * std::max<std::int64_t>(1024, 64 * static_cast<std::int64_t>(plan_.heads.size()))),
      parks_(!plan_.pointers && !plan_.any_phase),
      past_cache_(plan_.loops.empty() && plan_.parts[0].bytes >= 1024 &&
                  plan_.slots * plan_.data_bytes >= kBeyondCache),
      memory_(memory_bytes(plan_), memory),
      chunks_(plan_.slots),
      placed_memory_(2 * plan_.slots * plan_.heads.size()),
      noted_memory_(per_cell_ > 1 && !plan_.notes.empty() ? plan_.slots * cells(plan_) : 0),
      buffers_memory_(plan_.pointers ? plan_.slots * marks(plan_) : 0),
      heads_(plan_.heads.size(), Head{}),
      open_(rows_),
      full_(reach_, kNever),
      waits_(plan_.waits) {
    std::uint8_t* at = memory_.data();
    for (std::size_t i = 0; i <= chunks_.size(); ++i) {
        Chunk& chunk = i < chunks_.size() ? chunks_[i] : void_;
        if (plan_.pointers) {
            chunk.addresses = reinterpret_cast<std::uint64_t*>(at);
            if (&chunk != &void_) chunk.buffers = buffers_memory_.data() + i * marks(plan_);
        } else {
            chunk.data = at;
        }
        chunk.present = at + body_bytes(plan_);
        at += slot_bytes(plan_);
        if (!plan_.notes.empty())
            chunk.notes = reinterpret_cast<std::uint64_t*>(chunk.present + page_aligned(marks(plan_)));
        if (&chunk == &void_) break;
        if (!noted_memory_.empty()) chunk.noted = noted_memory_.data() + i * cells(plan_);
        chunk.placed_by_head = placed_memory_.data() + 2 * i * heads_.size();
        chunk.optional_by_head = chunk.placed_by_head + heads_.size();
        free_.push_back(&chunk);
    }
    for (const std::uint32_t field : plan_.key_fields) key_widths_.push_back(plan_.layout.fields[field].width);
    std::size_t entries = 16;
    while (entries < 4 * heads_.size()) entries *= 2;
    table_.assign(entries, {0, -1});
    for (std::size_t h = 0; h < plan_.heads.size(); ++h) {
        const auto& values = plan_.heads[h];
        if (values.size() != plan_.key_fields.size() + plan_.key_port)
            throw std::invalid_argument("a head needs one value for each field that tells streams apart");
        Key key = 0;
        for (std::size_t f = 0; f < key_widths_.size(); ++f) {
            if (key_widths_[f] < 64 && values[f] >> key_widths_[f] != 0)
                throw std::invalid_argument("a head has a value that its field cannot hold");
            key = key << key_widths_[f] | values[f];
        }
        key = key << 32 | (plan_.key_port ? values.back() & 0xffffffff : 0);
        if (find(key) >= 0) throw std::invalid_argument("two heads are the same stream");
        std::size_t slot = mixed(key) & (entries - 1);
        while (table_[slot].head >= 0) slot = (slot + 1) & (entries - 1);
        table_[slot] = {key, static_cast<std::int32_t>(h)};
    }
    counts_.free = plan_.slots;
}

Assembler::~Assembler() = default;

void Assembler::on_give_back(GiveBack function, void* context) {
    const std::lock_guard lock(mutex_);
    give_back_ = function;
    give_back_context_ = context;
}

std::int32_t Assembler::find(Key key) const {
    const std::size_t mask = table_.size() - 1;
    for (std::size_t slot = mixed(key) & mask; table_[slot].head >= 0; slot = (slot + 1) & mask)
        if (table_[slot].key == key) return table_[slot].head;
    return -1;
}

void Assembler::read(const Arrival& packet, std::uint64_t* values, Parsed& out, std::uint64_t* notes) const {
    const Verdict verdict = examine(plan_.layout, Packet(packet.data, packet.size), values);
    out.fault = verdict.reason;
    out.payload = verdict.payload;
    out.field = verdict.field;
    if (verdict.reason == kValid) {
        out.part = parts_.find(verdict.offset, verdict.bytes);
        if (out.part < 0) out.fault = kPart;
    }
    const std::uint64_t period = plan_.layout.period, low = static_cast<std::uint64_t>(verdict.count);
    if ((period & (period - 1)) == 0)
        out.count = low & (period - 1);  // all of it if there is no period
    else
        out.count = verdict.count >> 64 == 0 ? low % period : static_cast<std::uint64_t>(verdict.count % period);
    Key key = 0;
    for (std::size_t f = 0; f < key_widths_.size(); ++f) key = key << key_widths_[f] | values[plan_.key_fields[f]];
    out.key = key << 32 | (plan_.key_port ? packet.port : 0);
    for (const std::uint32_t field : plan_.notes) *notes++ = values[field];
    if (out.fault == kPart) {  // for whoever wants to know what came
        out.count = verdict.offset;
        out.payload = verdict.bytes;
    }
}

void Assembler::take_all(std::span<const Arrival> packets, Turns* turns, std::uint64_t number) {
    std::array<std::uint64_t, 1024> values;
    std::array<std::uint64_t, kBatch * kMostNotes> notes;
    std::array<Parsed, kBatch> parsed;
    Batch found;
    for (std::size_t at = 0; at < packets.size(); at += kBatch) {
        const auto batch = packets.subspan(at, std::min(kBatch, packets.size() - at));
        for (std::size_t i = 0; i < batch.size(); ++i) {
            if (i + 4 < batch.size()) __builtin_prefetch(batch[i + 4].data);
            read(batch[i], values.data(), parsed[i], notes.data() + i * plan_.notes.size());
        }
        if (turns != nullptr && at == 0 && !turns->wait(number)) return;
        const bool last = at + batch.size() == packets.size();
        for (std::size_t done = 0; done < batch.size();) {
            {
                const Soon lock(mutex_);
                done +=
                    locate(batch.subspan(done), parsed.data() + done, notes.data() + done * plan_.notes.size(), found);
            }
            if (turns != nullptr && last && done == batch.size()) turns->pass();  // copies are made side by side
            if (!plan_.pointers) copy_all(found);
            if (found.refused != 0 && give_back_ != nullptr)
                give_back_(give_back_context_, found.unused.data(), found.refused);
            if (done < batch.size()) wait_for_memory(found.awaited);
        }
    }
}

// The time nearest to the open chunks that a counter can mean, less the origin; false if that time is beyond 2^62.
bool Assembler::unwrapped(std::uint64_t count, std::int64_t& time) {
    constexpr __int128 most = __int128{1} << 62;
    const std::uint64_t period = plan_.layout.period;
    __int128 exact = count;  // counters and half periods go beyond what 64 bits hold
    if (period != 0 && started_) {
        if (referred_ != base_) {
            referred_ = base_;
            reference_ = plan_.origin + base_ * span_ + width_ * span_ / 2;
            const std::int64_t residue = static_cast<std::int64_t>(reference_ % static_cast<__int128>(period));
            reference_residue_ = static_cast<std::uint64_t>(residue) + (residue < 0 ? period : 0);
        }
        const std::uint64_t residue = reference_residue_;
        const std::uint64_t ahead = count >= residue ? count - residue : count + (period - residue);
        const bool behind = ahead >= period - ahead;  // exactly half a period away counts as behind
        exact = behind ? reference_ - static_cast<__int128>(period - ahead) : reference_ + static_cast<__int128>(ahead);
    }
    if (exact >= most || exact <= -most) return false;
    time = static_cast<std::int64_t>(exact) - plan_.origin;
    return true;
}

Chunk*& Assembler::slot(std::int64_t chunk) {
    const std::int64_t at = open_at_ + (chunk - base_);
    return open_[at < rows_ ? at : at - rows_];
}

// Places of packets, up to one that has to wait for memory; says how many it went through.
std::size_t Assembler::locate(std::span<const Arrival> packets, const Parsed* parsed, const std::uint64_t* notes,
                              Batch& out) {
    out.located = out.refused = 0;
    std::size_t i = 0;
    for (; i < packets.size(); ++i) {
        const std::int64_t arrived = packets[i].arrived;
        if (arrived != 0) {
            if (arrived >= check_at_ || arrived < now_ - kSetBack) tick(arrived);
            now_ = std::max(now_, arrived);
        }
        last_arrival_ = arrived == 0 ? 0 : now_;
        const auto refuse = [&](std::uint8_t fault) {
            ++counts_.malformed;
            ++counts_.faults[fault];
        };
        std::int32_t head;
        std::int64_t since;
        ++counts_.received;
        if (packets[i].sender == kStranger || parsed[i].fault == kControl || parsed[i].fault == kStop) {
            ++counts_.foreign;
        } else if (parsed[i].fault != kValid) {
            refuse(parsed[i].fault);
            if (parsed[i].fault == kItem) counts_.lacking = parsed[i].field;
            if (parsed[i].fault == kPart) {
                counts_.part_offset = static_cast<std::int64_t>(parsed[i].count);
                counts_.part_bytes = parsed[i].payload;
            }
        } else if ((head = find(parsed[i].key)) < 0) {
            ++counts_.foreign;
        } else if (plan_.one_sender && !welcome(heads_[head], packets[i])) {
            ++counts_.foreign;
        } else if (!unwrapped(parsed[i].count, since)) {
            refuse(kTimestamp);
        } else {
            const std::int64_t number = floor_div(since, plan_.step);
            if (plan_.any_phase ? !in_phase(heads_[head], since, number) : number * plan_.step != since) {
                refuse(kOffStep);
            } else {
                const Fate fate = place(packets[i], parsed[i], notes + i * plan_.notes.size(), head, number, out);
                if (fate == Fate::placed) continue;
                if (fate == Fate::waits) {
                    --counts_.received;
                    break;
                }
            }
        }
        if (packets[i].buffer != nullptr) out.unused[out.refused++] = packets[i].buffer;
    }
    return i;
}

// Whether a head's packet comes from one who may send it.
bool Assembler::welcome(Head& h, const Arrival& packet) const {
    if (packet.sender == 0) return true;
    if (h.sender != packet.sender) {
        if (h.sender != 0 && packet.arrived - h.sender_heard <= kGivenUp) return false;
        h.sender = packet.sender;
    }
    h.sender_heard = packet.arrived;
    return true;
}

// Whether a chunk that nothing lies in yet may have memory: those that window and skew do not keep open, nor the one
// that comes next, leave enough for these.
bool Assembler::memory_for(std::int64_t chunk) {
    reclaim();
    if (chunk <= base_ + width_) return !free_.empty() || ((!waits_ || exhausted()) && unpark());
    std::size_t before = 0;
    for (std::int64_t c = base_; c <= base_ + width_; ++c) before += slot(c) == nullptr;
    while (waits_ && exhausted() && free_.size() <= before && !parked_.empty()) unpark();
    return free_.size() > before;
}

// Memory for a chunk, of which there must be some.
Chunk* Assembler::fresh(std::int64_t chunk) {
    Chunk* const slot = free_.back();
    free_.pop_back();
    slot->number = chunk;
    slot->timestamp = plan_.origin + chunk * span_;
    slot->placed = 0;
    slot->started = 0;
    slot->finished.store(0, std::memory_order_relaxed);
    return slot;
}

// Find the packet's place and count it. Nothing has changed if it is to wait.
Assembler::Fate Assembler::place(const Arrival& packet, const Parsed& parsed, const std::uint64_t* notes,
                                 std::int32_t head, std::int64_t number, Batch& out) {
    Head& h = heads_[head];
    const std::int64_t chunk = floor_div(number, plan_.packets);
    if (!started_ || quiet_ || chunk < base_) enter(chunk);
    if (number < h.phase_from && chunk >= base_) {  // its place may hold packets of another phase
        ++counts_.late, ++h.counts.late;
        return Fate::refused;
    }
    if (waits_ && chunk >= base_ + rows_ && in_step(h, number))  // its memory is needed
        while (chunk >= base_ + rows_ && base_ <= top_) close_first(false);
    if (chunk < base_ || chunk >= base_ + rows_) {
        const bool near = chunk < base_ && chunk >= base_ - reach_;
        const bool lags = near && number + plan_.window / plan_.step >= h.newest;  // but did not step back
        const Why why = !near ? Why::jump : was_full(chunk) ? Why::duplicate : Why::late;
        if (!lags) return go_astray(packet, parsed, notes, head, number, why, out);
        hear(h, number);
        tally(h, why, 1);
        return Fate::refused;
    }
    Chunk*& slot = this->slot(chunk);
    const std::int64_t mark = mark_of(head, number, parsed.part);
    if (slot != nullptr && slot->present[mark]) {
        if (h.newest != -kNever && number + plan_.window / plan_.step < h.newest)
            return go_astray(packet, parsed, notes, head, number, Why::duplicate, out);
        tally(h, Why::duplicate, 1);
        return Fate::refused;
    }
    if (slot == nullptr && memory_for(chunk)) slot = fresh(chunk);
    Chunk* const target = slot;
    const bool home = h.live && h.newest != -kNever ? in_step(h, number) : chunk < base_ + width_;
    if (target == nullptr && chunk <= base_ + width_ ? waits_ || soon(out) : target == nullptr && waits_ && home) {
        out.awaited = chunk;
        return Fate::waits;
    }
    if (home || target != nullptr) {
        h.first = std::min(h.first, number);
        h.peak = std::max(h.peak, number);
        first_ = std::min(first_, number);
        top_ = std::max(top_, chunk);
    }
    if (target != nullptr) {
        ++counts_.placed, ++h.counts.placed;
        put(packet, parsed, notes, head, mark, *target, out);
    } else {
        ++counts_.ring_full, ++h.counts.ring_full;
    }
    if (home || leapt(h, number)) {
        hear(h, number);
        close_passed();
    }
    if (target != nullptr && chunk == base_ && target->placed == marks_) close_first(false);
    return target != nullptr ? Fate::placed : Fate::refused;
}

// A packet has its place in a chunk, at `mark`.
void Assembler::put(const Arrival& packet, const Parsed& parsed, const std::uint64_t* notes, std::int32_t head,
                    std::int64_t mark, Chunk& target, Batch& out) const {
    const std::int64_t cell = per_cell_ == 1 ? mark : mark / per_cell_, within = cell - head * plan_.packets;
    target.present[mark] = 1;
    ++target.placed;
    target.latest = now_;
    ++target.placed_by_head[head];
    if (parts_.optional(parsed.part)) ++target.optional_by_head[head];
    if (target.notes != nullptr) note(target, cell, notes);
    const std::uint8_t* payload = packet.payload ? packet.payload : packet.data + parsed.payload;
    if (plan_.pointers) {
        target.addresses[mark] = reinterpret_cast<std::uint64_t>(payload);
        target.buffers[mark] = packet.buffer;
    } else {
        const Part part = parts_[parsed.part];
        ++target.started;
        out.copies[out.located++] = {&target, target.data + plan_.offsets[head] + within * plan_.stride + part.place,
                                     payload, static_cast<std::size_t>(part.bytes)};
    }
}

// Keep the header fields of a cell's first packet.
void Assembler::note(Chunk& chunk, std::int64_t cell, const std::uint64_t* notes) const {
    if (chunk.noted != nullptr) {
        if (chunk.noted[cell]) return;
        chunk.noted[cell] = 1;
    }
    const std::size_t count = plan_.notes.size();
    std::copy_n(notes, count, chunk.notes + static_cast<std::size_t>(cell) * count);
}

void Assembler::copy_all(Batch& batch) {
    for (std::size_t i = 0; i < batch.located;) {
        Chunk* chunk = batch.copies[i].chunk;
        std::int64_t ended = 0;
        for (; i < batch.located && batch.copies[i].chunk == chunk; ++i, ++ended)
            copy(batch.copies[i], batch.copies[std::min(i + 1, batch.located - 1)].from);
        chunk->finished.fetch_add(ended, std::memory_order_release);
    }
}

void Assembler::copy(const Copy& copy, const std::uint8_t* next) const {
    if (past_cache_) return copy_past_cache(copy.to, copy.from, copy.bytes, next);
    if (plan_.loops.empty()) {
        std::memcpy(copy.to, copy.from, copy.bytes);
        return;
    }
    each_run(plan_.loops, 0, 0, 0, [&](std::int64_t from, std::int64_t to) {
        std::memcpy(copy.to + to, copy.from + from, static_cast<std::size_t>(plan_.run_bytes));
    });
}

}  // namespace ryle
