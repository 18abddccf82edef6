// Datagrams of a capture, at the times at which they were recorded or as fast as it goes.
//
// Several threads share a file: one at a time finds the next datagrams, they are handed over in the order of the file,
// and what is left, the copies, is done side by side.
#include <algorithm>
#include <array>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "pcap_reader.h"
#include "sources.h"

namespace ryle {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(20);  // after which a thread that waits looks whether to stop
constexpr auto kTick = std::chrono::microseconds(500);     // datagrams due within it go together
constexpr std::size_t kBatch = 64;                         // datagrams
constexpr std::size_t kLag = 4;                            // batches of a thread that may still be read
using Clock = std::chrono::steady_clock;

// A pass through a file.
struct Pass {
    Pass(const std::string& path, PcapCounts& counts) : reader(path, counts) {}

    PcapReader reader;
    std::deque<std::size_t> reached;   // how far the file was read for each of the newest batches
    std::optional<std::int64_t> zero;  // time of the first datagram
    Clock::time_point start = Clock::now();
};

// Some datagrams that follow one another.
struct Batch {
    std::array<Arrival, kBatch> arrivals;
    std::size_t size = 0;
    std::uint64_t number = 0;
    std::shared_ptr<Pass> pass;  // lives until they have been taken
    std::size_t done = 0;        // how far the file has been read for batches that nobody takes any more

    std::span<const Arrival> datagrams() const { return {arrivals.data(), size}; }
};

// What the threads share.
class Capture {
  public:
    Capture(PcapOptions options, std::shared_ptr<PcapCounts> counts, const Senders* senders)
        : options(std::move(options)), counts_(std::move(counts)), senders_(senders) {
        PcapReader reader(this->options.path, *counts_);  // here, so that a file that cannot be read is known at once
    }

    // Find the next batch; false at the end.
    bool next(Batch& batch) {
        const std::lock_guard lock(mutex_);
        for (batch.size = 0; batch.size == 0;) {
            if (pass_ == nullptr) {
                if (options.loops >= 0 && passes_ == options.loops) return false;
                ++passes_;
                for (auto* c : {&counts_->records, &counts_->datagrams, &counts_->fragments, &counts_->truncated,
                                &counts_->other, &counts_->malformed, &counts_->cut, &counts_->bytes})
                    *c = 0;
                pass_ = std::make_shared<Pass>(options.path, *counts_);
            }
            batch.pass = pass_;
            fill(batch);
        }
        batch.number = number_++;
        auto& reached = batch.pass->reached;
        reached.push_back(batch.pass->reader.at());
        batch.done = reached.front();
        if (reached.size() > kLag * static_cast<std::size_t>(options.threads)) reached.pop_front();
        return true;
    }

    const PcapOptions options;
    Turns turns;

  private:
    void fill(Batch& batch) {
        PcapDatagram d;
        while (batch.size < kBatch) {
            if (!pass_->reader.next(d)) {
                pass_ = nullptr;
                return;
            }
            if (!pass_->zero) pass_->zero = d.time;
            const std::int64_t port = number(d);
            if (port < 0) continue;
            const std::uint64_t sender = senders_ ? senders_->key(d.sender.data(), d.sender.size(), d.sender_port) : 0;
            batch.arrivals[batch.size++] = {d.data, d.size, static_cast<std::uint32_t>(port), nullptr, nullptr,
                                            d.time, sender};
        }
    }

    // The place of a datagram's destination in the list; -1 if it is not wanted.
    std::int64_t number(const PcapDatagram& d) {
        if (options.all) return 0;
        const auto matches = [&](const PcapEnd& end) {
            return end.port == d.port &&
                   std::equal(end.address.begin(), end.address.end(), d.address.begin(), d.address.end());
        };
        const auto& ends = options.ends;
        if (last_ < ends.size() && matches(ends[last_])) return static_cast<std::int64_t>(last_);
        const auto found = std::find_if(ends.begin(), ends.end(), matches);
        if (found == ends.end()) return -1;
        last_ = static_cast<std::size_t>(found - ends.begin());
        return static_cast<std::int64_t>(last_);
    }

    std::shared_ptr<PcapCounts> counts_;
    const Senders* const senders_;
    std::mutex mutex_;
    std::shared_ptr<Pass> pass_;
    std::int64_t passes_ = 0;
    std::uint64_t number_ = 0;
    std::size_t last_ = 0;
};

class PcapWorker : public Worker {
  public:
    PcapWorker(std::string name, std::shared_ptr<Capture> capture, Sink& sink)
        : Worker(std::move(name)), capture_(std::move(capture)), sink_(sink) {}

    void run() override {
        try {
            Batch batch;
            while (!stopping() && capture_->next(batch)) {
                batch.pass->reader.map_ahead();
                if (capture_->options.speed > 0)
                    play(batch);
                else
                    hand_over(sink_, batch.datagrams(), capture_->turns, batch.number);
                batch.pass->reader.release(batch.done);
            }
        } catch (...) {
            capture_->turns.give_up();
            throw;
        }
    }

    std::int64_t kernel_drops() override { return 0; }

  private:
    // Hand datagrams over when they are due; those of one tick together.
    void play(const Batch& batch) {
        const auto all = batch.datagrams();
        std::size_t done = 0;
        for (std::size_t i = 0; i < all.size(); ++i) {
            const auto since = static_cast<double>(all[i].arrived - *batch.pass->zero) * 1e-9 / capture_->options.speed;
            const auto due =
                batch.pass->start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(since));
            if (due <= Clock::now() + kTick / 2) continue;
            if (i > done) hand_over(sink_, all.subspan(done, i - done));
            done = i;
            for (Clock::time_point now; (now = Clock::now()) < due && !stopping();)
                std::this_thread::sleep_until(std::min(std::max(due, now + kTick), now + kPatience));
            if (stopping()) return;
        }
        hand_over(sink_, all.subspan(done));
    }

    std::shared_ptr<Capture> capture_;
    Sink& sink_;
};

}  // namespace

std::vector<std::unique_ptr<Worker>> pcap_workers(PcapOptions options, std::shared_ptr<PcapCounts> counts, Sink& sink) {
    options.threads = options.speed > 0 ? 1 : std::max(1, options.threads);
    const auto capture = std::make_shared<Capture>(std::move(options), std::move(counts), sink.senders());
    std::vector<std::unique_ptr<Worker>> workers;
    for (int i = 0; i < capture->options.threads; ++i)
        workers.push_back(
            std::make_unique<PcapWorker>("pcap" + (i == 0 ? std::string() : std::to_string(i)), capture, sink));
    return workers;
}

}  // namespace ryle
