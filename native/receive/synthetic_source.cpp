// Packets out of memory: what assembling costs when nothing else does.
#include <algorithm>
#include <array>
#include <stdexcept>

#include "sources.h"

namespace ryle {
namespace {

constexpr std::size_t kBurst = 64;

class SyntheticWorker : public Worker {
  public:
    SyntheticWorker(std::string name, const SyntheticOptions& options, Sink& sink)
        : Worker(std::move(name)), options_(options), sink_(sink), terms_(options.layout.timestamp.terms) {
        check(options_.layout);
        if (options_.heads.empty()) throw std::invalid_argument("a synthetic source needs at least one stream");
        std::sort(terms_.begin(), terms_.end(), [](const Term& a, const Term& b) { return a.factor > b.factor; });
        // Enough copies of the packets for a burst: the sink may read them until take() returns.
        const std::size_t copies = (kBurst + options_.heads.size() - 1) / options_.heads.size();
        for (std::size_t c = 0; c < copies; ++c)
            for (const auto& packet : options_.heads) {
                if (packet.size() < options_.layout.header_bytes)
                    throw std::invalid_argument("a packet is shorter than its header");
                packets_.push_back(packet);
            }
    }

    void run() override {
        using Clock = std::chrono::steady_clock;
        const std::uint64_t heads = options_.heads.size();
        const std::uint64_t most = options_.packets < 0 ? ~std::uint64_t{0} : heads * options_.packets;
        const auto start = Clock::now();
        const std::int64_t zero = unix_now();  // of packets that have a rate, which are on time by definition
        std::array<Arrival, kBurst> arrivals;
        for (std::uint64_t sent = 0; sent < most && !stopping();) {
            const std::size_t n = std::min<std::uint64_t>(kBurst, most - sent);
            const double between = options_.rate > 0 ? 1e9 / options_.rate : 0;
            const std::int64_t now = options_.rate > 0 ? zero : unix_now();
            for (std::size_t i = 0; i < n; ++i) {
                auto& packet = packets_[(sent + i) % packets_.size()];
                stamp(packet.data(), options_.first + (sent + i) / heads * options_.step);
                const auto since = static_cast<std::int64_t>(static_cast<double>(sent + i) * between);
                arrivals[i] = {packet.data(), static_cast<std::uint32_t>(packet.size()), 0, nullptr, nullptr,
                               now + since};
            }
            if (options_.rate > 0) {
                const auto due = start + std::chrono::duration_cast<Clock::duration>(
                                             std::chrono::duration<double>(static_cast<double>(sent) / options_.rate));
                while (Clock::now() < due && !stopping())
                    std::this_thread::sleep_until(std::min(due, Clock::now() + std::chrono::milliseconds(10)));
            }
            hand_over(sink_, {arrivals.data(), n});
            sent += n;
        }
    }

  private:
    void stamp(std::uint8_t* packet, std::uint64_t count) const {
        if (options_.layout.period != 0) count %= options_.layout.period;
        for (const Term& term : terms_) {
            const PacketField& field = options_.layout.fields[term.field];
            const std::uint64_t value = count / term.factor;
            count %= term.factor;
            const std::uint64_t mask = field.width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << field.width) - 1;
            std::uint64_t word = 0;
            const auto at = [&](std::uint32_t i) {  // byte i of the word, the lowest first
                return packet + field.byte + (field.big_endian ? field.bytes - 1 - i : i);
            };
            for (std::uint32_t i = 0; i < field.bytes; ++i) word |= static_cast<std::uint64_t>(*at(i)) << 8 * i;
            word = (word & ~(mask << field.shift)) | (value & mask) << field.shift;
            for (std::uint32_t i = 0; i < field.bytes; ++i) *at(i) = static_cast<std::uint8_t>(word >> 8 * i);
        }
    }

    SyntheticOptions options_;
    Sink& sink_;
    std::vector<Term> terms_;
    std::vector<std::vector<std::uint8_t>> packets_;
};

}  // namespace

std::unique_ptr<Worker> synthetic_worker(std::string name, const SyntheticOptions& options, Sink& sink) {
    return std::make_unique<SyntheticWorker>(std::move(name), options, sink);
}

}  // namespace ryle
