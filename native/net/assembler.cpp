#include "assembler.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

#include "copy.h"

namespace ryle {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kVotes = 8;  // packets that must agree before the clock is taken to have moved
constexpr std::int64_t kAlign = 4096;
constexpr std::int64_t kBeyondCache = 64 << 20;  // bytes of a ring of which caches hold little when it is read

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0); }

std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// Bytes that a payload's place spans, so that checking the corners checks all of it.
std::int64_t extent(const Plan& plan) {
    std::int64_t bytes = plan.run_bytes;
    for (const Loop& loop : plan.loops) bytes += (loop.count - 1) * loop.to;
    return bytes;
}

std::int64_t data_bytes(const Plan& plan) {
    return static_cast<std::int64_t>(plan.heads.size()) * plan.packets * plan.payload_bytes;
}

std::int64_t cells(const Plan& plan) { return static_cast<std::int64_t>(plan.heads.size()) * plan.packets; }

std::int64_t slot_bytes(const Plan& plan) {
    return aligned(plan.pointers ? cells(plan) * 8 : data_bytes(plan)) + aligned(cells(plan));
}

void check(const Plan& plan) {
    const auto demand = [](bool right, const char* what) {
        if (!right) throw std::invalid_argument(what);
    };
    constexpr std::int64_t most = std::int64_t{1} << 40;
    check(plan.layout);
    demand(!plan.heads.empty() && plan.heads.size() <= 1 << 20, "a plan has 1 to 2^20 heads");
    demand(plan.packets >= 1 && plan.packets <= 1 << 24, "a chunk has 1 to 2^24 packets of a head");
    demand(plan.step >= 1 && plan.step <= std::int64_t{1} << 40, "step must be 1 to 2^40");
    demand(plan.packets * plan.step < std::int64_t{1} << 52, "a chunk must last less than 2^52 units of time");
    demand(plan.origin >= 0 && plan.origin < std::int64_t{1} << 62, "origin must be 0 to 2^62");
    demand(plan.window >= 0 && plan.skew >= 0 && plan.outage >= 0, "window, skew and outage must not be negative");
    demand(
        plan.window < std::int64_t{1} << 52 && plan.skew < std::int64_t{1} << 52 && plan.outage < std::int64_t{1} << 60,
        "window and skew must be less than 2^52, outage less than 2^60");
    demand(plan.payload_bytes >= 1 && plan.payload_bytes <= 65535, "a payload has 1 to 65535 bytes");
    demand(plan.slots >= 2 && plan.slots <= 1 << 16, "a ring has 2 to 65536 chunks");
    demand(data_bytes(plan) < most, "a chunk must be smaller than 1 TiB");
    demand(plan.slots * slot_bytes(plan) < most, "a ring must be smaller than 1 TiB");
    std::int64_t bytes = plan.run_bytes, from = plan.run_bytes;
    for (const Loop& loop : plan.loops) {
        demand(loop.count >= 1 && loop.from >= 0 && loop.to >= 0, "a loop's numbers must not be negative");
        bytes *= loop.count;
        from += (loop.count - 1) * loop.from;
    }
    demand(plan.run_bytes >= 1 && bytes == plan.payload_bytes && from <= plan.payload_bytes,
           "the loops must copy the payload once");
    demand(plan.head_stride >= 0 && plan.packet_stride >= 0, "strides must not be negative");
    demand(static_cast<std::int64_t>(plan.heads.size() - 1) * plan.head_stride +
                   (plan.packets - 1) * plan.packet_stride + extent(plan) <=
               data_bytes(plan),
           "payloads must lie in the chunk");
    std::uint32_t width = 0;
    for (const std::uint32_t field : plan.key_fields) {
        demand(field < plan.layout.fields.size(), "a key names an unknown field");
        width += plan.layout.fields[field].width;
    }
    demand(width <= 96, "the fields that tell streams apart have more than 96 bits together");
    // Every valid packet must be as long as the plan says.
    std::uint64_t elements = plan.layout.parts;
    for (const Size& size : plan.layout.sizes) {
        demand(size.field < 0 || plan.layout.fields[size.field].low == plan.layout.fields[size.field].high,
               "the plan must say how large packets are");
        elements *= size.field < 0 ? size.value : plan.layout.fields[size.field].low;
        demand(elements <= 1 << 20, "a packet is too large");
    }
    demand((elements * plan.layout.bits + 7) / 8 == static_cast<std::uint64_t>(plan.payload_bytes),
           "payload_bytes must be what the sizes make");
}

std::int64_t checked_width(const Plan& plan) {
    check(plan);
    const std::int64_t span = plan.packets * plan.step, slack = plan.window + plan.skew;
    const std::int64_t width = slack == 0 ? 1 : 2 + (slack - 1) / span;
    if (width >= plan.slots) {
        throw std::invalid_argument("window and skew keep " + std::to_string(width) +
                                    " chunks open; use at least one chunk more than that");
    }
    return width;
}

std::uint64_t mixed(Key key) {
    std::uint64_t x = static_cast<std::uint64_t>(key) ^ static_cast<std::uint64_t>(key >> 64) * 0x9e3779b97f4a7c15u;
    x *= 0xff51afd7ed558ccdu;
    return x ^ x >> 32;
}

std::int64_t unix_ns() {
    using namespace std::chrono;
    return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::size_t Assembler::memory_bytes(const Plan& plan) {
    checked_width(plan);
    return static_cast<std::size_t>(plan.slots * slot_bytes(plan));
}

Assembler::Assembler(Plan plan, std::uint8_t* memory)
    : plan_(std::move(plan)),
      width_(checked_width(plan_)),
      chunk_bytes_(data_bytes(plan_)),
      span_(plan_.packets * plan_.step),
      reach_(8 * width_),
      past_cache_(plan_.loops.empty() && plan_.run_bytes >= 1024 && plan_.slots * chunk_bytes_ >= kBeyondCache),
      memory_(memory_bytes(plan_), memory),
      chunks_(plan_.slots),
      placed_memory_(plan_.slots * plan_.heads.size()),
      buffers_memory_(plan_.pointers ? plan_.slots * cells(plan_) : 0),
      heads_(plan_.heads.size(), Head{}),
      open_(width_) {
    std::uint8_t* at = memory_.data();
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
        Chunk& chunk = chunks_[i];
        if (plan_.pointers) {
            chunk.addresses = reinterpret_cast<std::uint64_t*>(at);
            chunk.buffers = buffers_memory_.data() + i * cells(plan_);
        } else {
            chunk.data = at;
        }
        at += aligned(plan_.pointers ? cells(plan_) * 8 : chunk_bytes_);
        chunk.present = at;
        at += aligned(cells(plan_));
        chunk.placed_by_head = placed_memory_.data() + i * heads_.size();
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

void Assembler::read(const Arrival& packet, std::uint64_t* values, Parsed& out) const {
    const Verdict verdict = examine(plan_.layout, Packet(packet.data, packet.size), values);
    out.fault = verdict.reason;
    const std::uint64_t period = plan_.layout.period, low = static_cast<std::uint64_t>(verdict.count);
    if ((period & (period - 1)) == 0)
        out.count = low & (period - 1);  // all of it if there is no period
    else
        out.count = verdict.count >> 64 == 0 ? low % period : static_cast<std::uint64_t>(verdict.count % period);
    Key key = 0;
    for (std::size_t f = 0; f < key_widths_.size(); ++f) key = key << key_widths_[f] | values[plan_.key_fields[f]];
    out.key = key << 32 | (plan_.key_port ? packet.port : 0);
}

void Assembler::take(std::span<const Arrival> packets) {
    std::array<std::uint64_t, 1024> values;
    std::array<Parsed, kBatch> parsed;
    std::array<Copy, kBatch> copies;
    std::array<void*, kBatch> unused;
    for (std::size_t at = 0; at < packets.size(); at += kBatch) {
        const auto batch = packets.subspan(at, std::min(kBatch, packets.size() - at));
        for (std::size_t i = 0; i < batch.size(); ++i) {
            if (i + 4 < batch.size()) __builtin_prefetch(batch[i + 4].data);
            read(batch[i], values.data(), parsed[i]);
        }
        std::size_t located, unused_count = 0;
        {
            const std::lock_guard lock(mutex_);
            located = locate(batch, parsed.data(), copies.data(), unused.data(), unused_count);
        }
        if (!plan_.pointers) {
            for (std::size_t i = 0; i < located;) {
                Chunk* chunk = copies[i].chunk;
                std::int64_t ended = 0;
                for (; i < located && copies[i].chunk == chunk; ++i, ++ended)
                    copy(copies[i], copies[std::min(i + 1, located - 1)].from);
                chunk->finished.fetch_add(ended, std::memory_order_release);
            }
        }
        if (unused_count != 0 && give_back_ != nullptr) give_back_(give_back_context_, unused.data(), unused_count);
    }
}

// The time nearest to the open chunks that a counter can mean, less the origin; false if that is beyond 2^62.
bool Assembler::unwrapped(std::uint64_t count, std::int64_t& time) {
    constexpr std::uint64_t most = std::uint64_t{1} << 62;
    const std::uint64_t period = plan_.layout.period;
    if (period == 0 || !started_) {
        time = static_cast<std::int64_t>(count) - plan_.origin;
        return count < most;
    }
    if (referred_ != base_) {
        referred_ = base_;
        reference_ = plan_.origin + base_ * span_ + width_ * span_ / 2;
        const std::int64_t residue = static_cast<std::int64_t>(reference_ % static_cast<__int128>(period));
        reference_residue_ = static_cast<std::uint64_t>(residue) + (residue < 0 ? period : 0);
    }
    const std::uint64_t residue = reference_residue_;
    const std::uint64_t ahead = count >= residue ? count - residue : count + (period - residue);
    const bool behind = ahead >= period - ahead;  // exactly half a period away counts as behind
    time =
        behind ? reference_ - static_cast<std::int64_t>(period - ahead) : reference_ + static_cast<std::int64_t>(ahead);
    const bool fits = time < static_cast<std::int64_t>(most) && time > -static_cast<std::int64_t>(most);
    time -= plan_.origin;
    return fits;
}

Chunk*& Assembler::slot(std::int64_t chunk) {
    const std::int64_t at = open_at_ + (chunk - base_);
    return open_[at < width_ ? at : at - width_];
}

std::size_t Assembler::locate(std::span<const Arrival> packets, const Parsed* parsed, Copy* copies, void** unused,
                              std::size_t& unused_count) {
    std::size_t located = 0;
    last_arrival_ = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < packets.size(); ++i) {
        ++counts_.received;
        const auto refuse = [&](std::uint8_t fault) {
            ++counts_.malformed;
            ++counts_.faults[fault];
        };
        std::int32_t head;
        std::int64_t since;
        if (parsed[i].fault != kValid) {
            refuse(parsed[i].fault);
        } else if ((head = find(parsed[i].key)) < 0) {
            ++counts_.foreign;
        } else if (!unwrapped(parsed[i].count, since)) {
            refuse(kTimestamp);
        } else {
            const std::int64_t number = floor_div(since, plan_.step);
            if (number * plan_.step != since) {
                refuse(kOffStep);
            } else if (place(packets[i], head, number, copies[located])) {
                ++located;
                continue;
            }
        }
        if (packets[i].buffer != nullptr) unused[unused_count++] = packets[i].buffer;
    }
    return located;
}

// Find the packet's place and count it; false if it has none.
bool Assembler::place(const Arrival& packet, std::int32_t head, std::int64_t number, Copy& copy) {
    Head& h = heads_[head];
    std::int64_t chunk = floor_div(number, plan_.packets);
    if (!started_) begin(chunk);
    if (quiet_) {
        quiet_ = false;
        if (chunk < base_ || chunk - top_ > std::max<std::int64_t>(1, plan_.outage / span_)) {
            ++counts_.resyncs;
            begin(chunk);
        } else {
            advance(chunk - width_ + 1);
        }
    }
    if (chunk < base_ && !closed_any_ && top_ - chunk < width_) {
        open_at_ = (open_at_ + width_ - (base_ - chunk)) % width_;
        base_ = chunk;  // the first packet of all was not the earliest
        recount_behind();
    }
    if (chunk < base_ || chunk >= base_ + 2 * width_) {
        const bool near = chunk < base_ && chunk >= base_ - reach_;
        if (!stray(head, number)) {
            if (near) {
                ++counts_.late, ++h.counts.late;
            } else {
                ++counts_.malformed, ++counts_.faults[kJump], ++h.counts.jump;
            }
            return false;
        }
    }
    if (chunk >= base_ + width_) advance(chunk - width_ + 1);
    Chunk*& slot = this->slot(chunk);
    const std::int64_t within = number - chunk * plan_.packets, cell = head * plan_.packets + within;
    if (slot != nullptr && slot->present[cell]) {
        ++counts_.duplicate, ++h.counts.duplicate;
        stray(head, number);
        return false;
    }
    if (slot == nullptr && !free_.empty()) {
        slot = free_.back();
        free_.pop_back();
        slot->number = chunk;
        slot->epoch = epoch_;
        slot->timestamp = plan_.origin + chunk * span_;
        slot->placed = 0;
        slot->started = 0;
        slot->finished.store(0, std::memory_order_relaxed);
    }
    h.away = 0;
    h.last_home = counts_.received;
    h.peak = std::max(h.peak, number);
    h.first = std::min(h.first, number);
    first_ = std::min(first_, number);
    top_ = std::max(top_, chunk);
    Chunk* const target = slot;
    if (target != nullptr) {
        ++counts_.placed, ++h.counts.placed;
        target->present[cell] = 1;
        ++target->placed;
        ++target->placed_by_head[head];
        if (plan_.pointers) {
            const std::uint8_t* payload = packet.payload ? packet.payload : packet.data + plan_.layout.header_bytes;
            target->addresses[cell] = reinterpret_cast<std::uint64_t>(payload);
            target->buffers[cell] = packet.buffer;
        } else {
            ++target->started;
            copy.chunk = target;
            copy.to = target->data + head * plan_.head_stride + within * plan_.packet_stride;
            copy.from = packet.payload ? packet.payload : packet.data + plan_.layout.header_bytes;
        }
    } else {
        ++counts_.ring_full, ++h.counts.ring_full;
    }
    if (number > h.newest) {
        const std::int64_t done = (base_ + 1) * span_ + plan_.window;  // a head is done with base_ from here on
        const bool was_behind = h.newest == -kNever || h.newest * plan_.step < done;
        h.newest = number;
        newest_ = std::max(newest_, number);
        if (was_behind && number * plan_.step >= done) --behind_;
        while (base_ < top_ &&
               (behind_ == 0 || newest_ * plan_.step >= (base_ + 1) * span_ + plan_.window + plan_.skew))
            close_first(false);
    }
    return target != nullptr;
}

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
            const std::int64_t missing = to - from - (slot != nullptr ? slot->placed_by_head[i] : 0);
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

void Assembler::idle() {
    const std::lock_guard lock(mutex_);
    close_if_quiet(std::chrono::steady_clock::now());
}

bool Assembler::close_if_quiet(std::chrono::steady_clock::time_point now) {
    if (plan_.linger.count() == 0 || !started_ || base_ > top_ || now - last_arrival_ < plan_.linger) return false;
    close_all();
    quiet_ = true;
    return true;
}

Chunk* Assembler::next(std::chrono::nanoseconds timeout) {
    Chunk* chunk = nullptr;
    {
        std::unique_lock lock(mutex_);
        const auto deadline = std::chrono::steady_clock::now() + timeout;
        while (ready_.empty() && !finished_) {
            const auto now = std::chrono::steady_clock::now();
            if (now >= deadline) return nullptr;
            auto until = deadline;
            if (plan_.linger.count() > 0 && started_ && base_ <= top_) {
                if (close_if_quiet(now)) continue;
                until = std::min(until, last_arrival_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                            plan_.linger));
            }
            ready_changed_.wait_until(lock, until);
        }
        if (ready_.empty()) return nullptr;
        chunk = ready_.front();
        ready_.pop_front();
        ++taken_;
    }
    while (chunk->finished.load(std::memory_order_acquire) != chunk->started) std::this_thread::yield();
    if (!plan_.pointers) zero(*chunk);
    return chunk;
}

void Assembler::release(Chunk* chunk) {
    if (plan_.pointers && give_back_ != nullptr) {
        std::array<void*, 256> buffers;
        std::size_t n = 0;
        for (std::int64_t cell = 0; cell < cells(plan_); ++cell) {
            if (!chunk->present[cell] || chunk->buffers[cell] == nullptr) continue;
            buffers[n++] = chunk->buffers[cell];
            if (n == buffers.size()) {
                give_back_(give_back_context_, buffers.data(), n);
                n = 0;
            }
        }
        if (n != 0) give_back_(give_back_context_, buffers.data(), n);
    }
    if (plan_.pointers) std::memset(chunk->addresses, 0, static_cast<std::size_t>(cells(plan_)) * 8);
    std::memset(chunk->present, 0, static_cast<std::size_t>(cells(plan_)));
    std::fill_n(chunk->placed_by_head, heads_.size(), 0);
    const std::lock_guard lock(mutex_);
    free_.push_back(chunk);
    --taken_;
}

bool Assembler::ended() const {
    const std::lock_guard lock(mutex_);
    return finished_ && ready_.empty();
}

Counts Assembler::counts() const {
    const std::lock_guard lock(mutex_);
    Counts counts = counts_;
    counts.open = std::count_if(open_.begin(), open_.end(), [](const Chunk* c) { return c != nullptr; });
    counts.ready = static_cast<std::int64_t>(ready_.size());
    counts.taken = taken_;
    counts.free = static_cast<std::int64_t>(free_.size());
    return counts;
}

void Assembler::head_counts(std::span<HeadCounts> out) const {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < std::min(out.size(), heads_.size()); ++i) out[i] = heads_[i].counts;
}

namespace {

template <typename Act>
void each_run(const std::vector<Loop>& loops, std::size_t depth, std::int64_t from, std::int64_t to, const Act& act) {
    if (depth == loops.size()) return act(from, to);
    for (std::int64_t i = 0; i < loops[depth].count; ++i)
        each_run(loops, depth + 1, from + i * loops[depth].from, to + i * loops[depth].to, act);
}

}  // namespace

void Assembler::copy(const Copy& copy, const std::uint8_t* next) const {
    if (past_cache_) return copy_past_cache(copy.to, copy.from, static_cast<std::size_t>(plan_.run_bytes), next);
    if (plan_.loops.empty()) {
        std::memcpy(copy.to, copy.from, static_cast<std::size_t>(plan_.run_bytes));
        return;
    }
    each_run(plan_.loops, 0, 0, 0, [&](std::int64_t from, std::int64_t to) {
        std::memcpy(copy.to + to, copy.from + from, static_cast<std::size_t>(plan_.run_bytes));
    });
}

void Assembler::zero(Chunk& chunk) const {
    const std::int64_t heads = static_cast<std::int64_t>(heads_.size());
    if (chunk.placed == heads * plan_.packets) return;
    for (std::int64_t h = 0; h < heads; ++h) {
        if (chunk.placed_by_head[h] == plan_.packets) continue;
        for (std::int64_t p = 0; p < plan_.packets; ++p) {
            if (chunk.present[h * plan_.packets + p]) continue;
            std::uint8_t* at = chunk.data + h * plan_.head_stride + p * plan_.packet_stride;
            each_run(plan_.loops, 0, 0, 0, [&](std::int64_t, std::int64_t to) {
                std::memset(at + to, 0, static_cast<std::size_t>(plan_.run_bytes));
            });
        }
    }
}

}  // namespace ryle
