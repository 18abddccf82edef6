#include "rows.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "loop.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

namespace ryle {
namespace {

constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeader = 64, kRow = 128;
constexpr std::size_t kBatch = 64;                  // packets of a call
constexpr std::size_t kMostMessage = 65487;         // bytes of a UDP datagram over IPv6 without jumbograms
constexpr std::int64_t kPace = 250'000;             // ns of packets that are sent at once,
constexpr std::int64_t kBehind = 2'000'000;         // and that are caught up with after a delay
constexpr std::int64_t kBurst = 32 << 10;           // bytes to an endpoint between two looks at its socket,
constexpr std::int64_t kRoom = 64 << 10;            // and its fill up to which they are sent
constexpr std::int64_t kLook = 100'000;             // ns between looks at a full socket,
constexpr std::int64_t kPatience = 10'000'000'000;  // and for how long: a dead receiver must not stop all

void put(std::uint8_t* to, std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) to[i] = static_cast<std::uint8_t>(value >> 8 * (bytes - 1 - i));
}

}  // namespace

// Headers and messages of a batch, made once.
struct RowSender::Work {
    struct alignas(64) Header {
        std::uint8_t bytes[kHeader];
    };
    struct alignas(cmsghdr) Control {
        char bytes[CMSG_SPACE(sizeof(std::uint16_t))];
    };
    Header headers[kBatch];
    iovec parts[2 * kBatch];
    mmsghdr messages[kBatch];
    Control controls[kBatch];
    std::size_t first[kBatch + 1];  // packet of each message
};

RowSender::RowSender(int socket, std::vector<sockaddr_storage> endpoints, RowPlan plan)
    : socket_(socket),
      endpoints_(std::move(endpoints)),
      plan_(std::move(plan)),
      queues_(endpoints_),
      unseen_(endpoints_.size(), kBurst),
      payload_bytes_(plan_.packet_channels * plan_.pols * static_cast<std::uint32_t>(kRow)),
      work_(std::make_unique<Work>()) {
    const RowPlan& p = plan_;
    if (p.antennas.empty() || p.pols < 1 || p.pols > 2 || !p.packet_channels || !p.share || p.channels % p.share ||
        p.share % p.packet_channels || endpoints_.size() != p.channels / p.share)
        throw std::invalid_argument("channels, shares, packets and endpoints do not belong together");
    if (kHeader + payload_bytes_ > kMostMessage) throw std::invalid_argument("a packet is longer than a datagram");
    made_.reserve(kBatch);
    for (auto& header : work_->headers) {
        std::memset(header.bytes, 0, kHeader);
        put(header.bytes, kVersion, 2);
        put(header.bytes + 2, p.pols, 2);
        put(header.bytes + 4, p.packet_channels, 4);
    }
}

RowSender::~RowSender() = default;

// Packets to send in one go.
std::size_t RowSender::batch() const {
    const double rate = this->rate();
    if (rate <= 0) return std::clamp<std::size_t>(kBurst / (kHeader + payload_bytes_), 1, kBatch);
    const double most = rate * 1e-9 * static_cast<double>(kPace) / static_cast<double>(kHeader + payload_bytes_);
    return most < 1 ? 1 : most < static_cast<double>(kBatch) ? static_cast<std::size_t>(most) : kBatch;
}

void RowSender::send(const std::uint8_t* rows, const std::uint64_t* words, std::int64_t blocks,
                     std::int64_t first_block) {
    const RowPlan& p = plan_;
    const std::size_t channel_bytes = p.pols * kRow, antenna_bytes = p.channels * channel_bytes;
    const std::uint32_t shares = p.channels / p.share, groups = p.share / p.packet_channels;
    most_ = batch();
    made_.clear();
    for (std::int64_t block = 0; block < blocks; ++block) {
        for (std::uint32_t k = 0; k < shares; ++k) {
            const std::uint32_t to = (p.begin + k) % shares;
            for (std::size_t a = 0; a < p.antennas.size(); ++a) {
                const std::size_t at = static_cast<std::size_t>(block) * p.antennas.size() + a;
                const std::uint64_t* valid = words + at * p.pols;
                if ((valid[0] | valid[p.pols - 1]) == 0) {
                    withheld.add(groups);
                    continue;
                }
                for (std::uint32_t g = 0; g < groups; ++g) {
                    const std::uint32_t channel = to * p.share + g * p.packet_channels;
                    add(to, p.antennas[a], channel, first_block + block, valid,
                        rows + at * antenna_bytes + channel * channel_bytes);
                    if (stop_.load(std::memory_order_relaxed)) return;
                }
            }
        }
    }
    flush();
}

void RowSender::add(std::uint32_t endpoint, std::uint32_t antenna, std::uint32_t channel, std::int64_t block,
                    const std::uint64_t* words, const std::uint8_t* payload) {
    std::uint8_t* header = work_->headers[made_.size()].bytes;
    put(header + 8, antenna, 4);
    put(header + 12, channel, 4);
    put(header + 16, static_cast<std::uint64_t>(block), 8);
    put(header + 24, words[0], 8);
    put(header + 32, plan_.pols == 2 ? words[1] : 0, 8);
    made_.push_back({payload, endpoint});
    if (made_.size() == most_) flush();
}

void RowSender::flush() {
    const std::size_t packet = kHeader + payload_bytes_;
    if (made_.empty()) return;
    if (rate() > 0) {
        wait_for_rate(made_.size() * packet);
    } else {
        for (std::size_t first = 0, end = 0; first < made_.size(); first = end) {
            while (end < made_.size() && made_[end].endpoint == made_[first].endpoint) ++end;
            wait_for_receiver(made_[first].endpoint, (end - first) * packet);
        }
    }
    if (!stop_.load(std::memory_order_relaxed)) push(0);
    made_.clear();
    most_ = batch();
}

void RowSender::wait_for_rate(std::size_t bytes) {
    const std::int64_t now = now_ns();
    next_ = std::max(next_, now - kBehind);
    for (std::int64_t left; (left = next_ - now_ns()) > 0 && !stop_.load(std::memory_order_relaxed);) {
        const std::int64_t sleep = std::min<std::int64_t>(left, 20'000'000);
        const timespec t{sleep / 1'000'000'000, sleep % 1'000'000'000};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &t, nullptr);
    }
    next_ += static_cast<std::int64_t>(1e9 * static_cast<double>(bytes) / rate());
}

void RowSender::wait_for_receiver(std::uint32_t endpoint, std::size_t bytes) {
    std::int64_t& unseen = unseen_[endpoint];
    unseen += static_cast<std::int64_t>(bytes);
    if (unseen <= kBurst) return;
    unseen = static_cast<std::int64_t>(bytes);
    if (queues_.fill(endpoint) <= kRoom) return;
    waits.add();
    const std::int64_t deadline = now_ns() + kPatience;
    do {
        const timespec t{0, kLook};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &t, nullptr);
    } while (queues_.fill(endpoint) > kRoom && now_ns() < deadline && !stop_.load(std::memory_order_relaxed));
}

// Give the kernel the packets from `first` on.
void RowSender::push(std::size_t first) {
    Work& w = *work_;
    const std::size_t packet = kHeader + payload_bytes_;
    const std::size_t most = segment_ ? std::max<std::size_t>(1, kMostMessage / packet) : 1;
    std::size_t messages = 0;
    for (std::size_t at = first; at < made_.size(); ++messages) {
        const std::uint32_t endpoint = made_[at].endpoint;
        mmsghdr& message = w.messages[messages];
        message = {};
        msghdr& m = message.msg_hdr;
        m.msg_name = &endpoints_[endpoint];
        m.msg_namelen = endpoints_[endpoint].ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
        m.msg_iov = w.parts + 2 * at;
        w.first[messages] = at;
        const std::size_t begin = at;
        for (; at < made_.size() && at - begin < most && made_[at].endpoint == endpoint; ++at) {
            w.parts[2 * at] = {w.headers[at].bytes, kHeader};
            w.parts[2 * at + 1] = {const_cast<std::uint8_t*>(made_[at].payload), payload_bytes_};
        }
        m.msg_iovlen = 2 * (at - begin);
        if (at - begin > 1) {
            auto* control = reinterpret_cast<cmsghdr*>(w.controls[messages].bytes);
            const auto size = static_cast<std::uint16_t>(packet);
            control->cmsg_level = IPPROTO_UDP;
            control->cmsg_type = UDP_SEGMENT;
            control->cmsg_len = CMSG_LEN(sizeof size);
            std::memcpy(CMSG_DATA(control), &size, sizeof size);
            m.msg_control = control;
            m.msg_controllen = CMSG_SPACE(sizeof size);
        }
    }
    w.first[messages] = made_.size();
    for (std::size_t sent = 0; sent < messages && !stop_.load(std::memory_order_relaxed);) {
        calls.add();
        const int done = sendmmsg(socket_, w.messages + sent, static_cast<unsigned>(messages - sent), 0);
        if (done > 0) {
            const std::size_t from = w.first[sent];
            sent += static_cast<std::size_t>(done);
            packets.add(static_cast<std::int64_t>(w.first[sent] - from));
            bytes.add(static_cast<std::int64_t>((w.first[sent] - from) * packet));
            continue;
        }
        const int error = errno;
        const bool several = w.first[sent + 1] > w.first[sent] + 1;
        if (several && (error == EIO || error == EINVAL || error == EMSGSIZE || error == EOPNOTSUPP)) {
            segment_ = false;  // the way out cannot cut packets: do without
            return push(w.first[sent]);
        }
        if (error == EINTR || error == ECONNREFUSED) continue;  // an earlier packet was refused: this one was not sent
        if (error == ENOBUFS || error == EAGAIN || error == ENOMEM) {  // a queue behind the socket is full
            full.add();
            const timespec t{0, kLook};
            clock_nanosleep(CLOCK_MONOTONIC, 0, &t, nullptr);
            continue;
        }
        throw std::system_error(error, std::generic_category(), "packets of rows cannot be sent");
    }
}

}  // namespace ryle
