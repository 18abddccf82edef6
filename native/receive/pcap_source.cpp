// Datagrams of a capture, at the times at which they were recorded or as fast as it goes.
#include <algorithm>
#include <array>
#include <utility>

#include "pcap_reader.h"
#include "sources.h"

namespace ryle {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(20);  // after which a thread that waits looks whether to stop
constexpr auto kTick = std::chrono::microseconds(500);     // datagrams due within it go together

class PcapWorker : public Worker {
    using Clock = std::chrono::steady_clock;

  public:
    PcapWorker(std::string name, PcapOptions options, std::shared_ptr<PcapCounts> counts, Sink& sink)
        : Worker(std::move(name)), options_(std::move(options)), counts_(std::move(counts)), sink_(sink) {
        PcapReader reader(options_.path, *counts_);  // here, so that a file that cannot be read is known at once
    }

    void run() override {
        for (std::int64_t turn = 0; !stopping() && (options_.loops < 0 || turn < options_.loops); ++turn) play();
    }

    std::int64_t kernel_drops() override { return 0; }

  private:
    void play() {
        for (auto* c : {&counts_->records, &counts_->datagrams, &counts_->fragments, &counts_->truncated,
                        &counts_->other, &counts_->malformed, &counts_->cut, &counts_->bytes})
            *c = 0;
        PcapReader reader(options_.path, *counts_);
        const auto start = Clock::now();
        std::int64_t zero = 0;
        std::size_t waiting = 0;
        PcapDatagram d;
        bool first = true;
        while (!stopping() && reader.next(d)) {
            if (std::exchange(first, false)) zero = d.time;
            const std::int64_t port = number(d);
            if (port < 0) continue;
            if (options_.speed > 0) {
                const auto due = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                                             static_cast<double>(d.time - zero) * 1e-9 / options_.speed));
                if (due > Clock::now() + kTick / 2) {
                    flush(waiting);
                    for (Clock::time_point now; (now = Clock::now()) < due && !stopping();)
                        std::this_thread::sleep_until(std::min(std::max(due, now + kTick), now + kPatience));
                    if (stopping()) return;
                }
            }
            const std::uint64_t sender = senders_ ? senders_->key(d.sender.data(), d.sender.size(), d.sender_port) : 0;
            arrivals_[waiting++] = {d.data, d.size, static_cast<std::uint32_t>(port), nullptr, nullptr, d.time, sender};
            if (waiting == arrivals_.size()) {
                flush(waiting);
                reader.release();
            }
        }
        flush(waiting);
    }

    void flush(std::size_t& waiting) {
        if (waiting != 0) hand_over(sink_, {arrivals_.data(), waiting});
        waiting = 0;
    }

    // The place of a datagram's destination in the list; -1 if it is not wanted.
    std::int64_t number(const PcapDatagram& d) {
        if (options_.all) return 0;
        const auto matches = [&](const PcapEnd& end) {
            return end.port == d.port &&
                   std::equal(end.address.begin(), end.address.end(), d.address.begin(), d.address.end());
        };
        const auto& ends = options_.ends;
        if (last_ < ends.size() && matches(ends[last_])) return static_cast<std::int64_t>(last_);
        const auto found = std::find_if(ends.begin(), ends.end(), matches);
        if (found == ends.end()) return -1;
        last_ = static_cast<std::size_t>(found - ends.begin());
        return static_cast<std::int64_t>(last_);
    }

    PcapOptions options_;
    std::shared_ptr<PcapCounts> counts_;
    Sink& sink_;
    const Senders* const senders_ = sink_.senders();
    std::size_t last_ = 0;
    std::array<Arrival, 64> arrivals_{};
};

}  // namespace

std::unique_ptr<Worker> pcap_worker(std::string name, PcapOptions options, std::shared_ptr<PcapCounts> counts,
                                    Sink& sink) {
    return std::make_unique<PcapWorker>(std::move(name), std::move(options), std::move(counts), sink);
}

}  // namespace ryle
