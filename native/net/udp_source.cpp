// UDP sockets, many packets a call.
#include <linux/sock_diag.h>
#include <linux/udp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <system_error>

#include "sources.h"

namespace ryle {
namespace {

constexpr int kMessages = 16;  // of one call; what they hold should stay in the core's own cache until it is placed,
constexpr int kTrains = 4;     // so that of trains, 64 KiB each, fewer are fetched
constexpr int kPatience = 20;  // ms of waiting, after which the thread looks whether it is to stop

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

class UdpWorker : public Worker {
  public:
    UdpWorker(std::string name, const std::vector<UdpSocket>& sockets, bool gro, std::uint32_t largest, Sink& sink)
        : Worker(std::move(name)),
          sink_(sink),
          batch_(gro ? kTrains : kMessages),
          // Not a power of two apart, so that the starts of all buffers do not compete for the same cache lines.
          stride_((gro ? 65536 + 4096 : (largest + 1 + 63) / 64 * 64) + 192),
          room_(gro ? 65536 : largest + 1),
          buffers_(stride_ * batch_) {
        for (const UdpSocket& socket : sockets) {
            const int descriptor = dup(socket.descriptor);
            if (descriptor < 0) fail("cannot use a socket");
            sockets_.push_back({descriptor, POLLIN, 0});
            ports_.push_back(socket.port);
            last_drops_.push_back(0);
            const int on = 1;
            if (gro) setsockopt(descriptor, IPPROTO_UDP, UDP_GRO, &on, sizeof on);  // before Linux 5.0 single packets
        }
        for (int i = 0; i < batch_; ++i) {
            pieces_[i] = {buffers_.data() + i * stride_, room_};
            messages_[i].msg_hdr.msg_iov = &pieces_[i];
            messages_[i].msg_hdr.msg_iovlen = 1;
        }
    }
    ~UdpWorker() override {
        for (const pollfd& socket : sockets_) close(socket.fd);
    }

    void run() override {
        while (!stopping()) {
            bool any = false;
            for (std::size_t s = 0; s < sockets_.size(); ++s) any |= drain(s);
            if (any) continue;
            if (poll(sockets_.data(), sockets_.size(), kPatience) == 0) sink_.idle();
        }
    }

    // The count that SO_RXQ_OVFL sends along with packets, read without waiting for the next packet.
    std::int64_t kernel_drops() override {
        const std::lock_guard lock(mutex_);
        for (std::size_t s = 0; s < sockets_.size(); ++s) {
            std::array<std::uint32_t, SK_MEMINFO_VARS> info{};
            socklen_t size = sizeof info;
            if (getsockopt(sockets_[s].fd, SOL_SOCKET, SO_MEMINFO, info.data(), &size) < 0) return -1;
            drops_ += info[SK_MEMINFO_DROPS] - last_drops_[s];  // modulo 2^32
            last_drops_[s] = info[SK_MEMINFO_DROPS];
        }
        return drops_;
    }

  private:
    bool drain(std::size_t s) {
        for (int i = 0; i < batch_; ++i) {
            messages_[i].msg_hdr.msg_control = controls_[i].data();
            messages_[i].msg_hdr.msg_controllen = controls_[i].size();
        }
        const int n = recvmmsg(sockets_[s].fd, messages_.data(), batch_, MSG_DONTWAIT, nullptr);
        if (n < 0) {
            if (errno == EAGAIN || errno == EINTR || errno == ECONNREFUSED) return false;
            fail("cannot receive");
        }
        std::size_t count = 0;
        for (int i = 0; i < n; ++i) {
            const auto* data = static_cast<const std::uint8_t*>(pieces_[i].iov_base);
            const std::uint32_t bytes = messages_[i].msg_len;
            std::uint32_t part = segment(messages_[i].msg_hdr);
            if (part == 0 || part > bytes) part = bytes;
            std::uint32_t at = 0;
            do {  // an empty datagram is a packet too
                if (count == arrivals_.size()) {
                    hand_over(sink_, arrivals_);
                    count = 0;
                }
                arrivals_[count++] = {data + at, std::min(part, bytes - at), ports_[s], nullptr, nullptr};
                at += part;
            } while (at < bytes);
        }
        if (count != 0) hand_over(sink_, {arrivals_.data(), count});
        if (++calls_ % 4096 == 0) kernel_drops();  // before the kernel's 32 bits come round
        return n > 0;
    }

    static std::uint32_t segment(msghdr& message) {
        for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c))
            if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
                int size = 0;
                std::memcpy(&size, CMSG_DATA(c), sizeof size);
                return static_cast<std::uint32_t>(size);
            }
        return 0;
    }

    Sink& sink_;
    int batch_;
    std::size_t stride_, room_;
    std::vector<std::uint8_t> buffers_;
    std::vector<pollfd> sockets_;
    std::vector<std::uint32_t> ports_, last_drops_;
    std::array<iovec, kMessages> pieces_{};
    std::array<mmsghdr, kMessages> messages_{};
    std::array<std::array<std::uint8_t, 64>, kMessages> controls_{};
    std::array<Arrival, 256> arrivals_{};
    std::uint64_t calls_ = 0;
    std::mutex mutex_;
    std::int64_t drops_ = 0;
};

}  // namespace

std::unique_ptr<Worker> udp_worker(std::string name, const std::vector<UdpSocket>& sockets, bool gro,
                                   std::uint32_t largest, Sink& sink) {
    return std::make_unique<UdpWorker>(std::move(name), sockets, gro, largest, sink);
}

}  // namespace ryle
