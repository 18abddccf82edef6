// SPDX-License-Identifier: BSD-3-Clause
// The network of a simulated FPGA: a capture file, real receivers, or the kernel through a TAP interface.
#pragma once
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace simulation {

using Frame = std::vector<std::uint8_t>;

constexpr std::array<std::uint8_t, 6> kFarMac{0x02, 0x52, 0x79, 0x6c, 0x65, 0x01};

inline volatile std::sig_atomic_t stop = 0;

[[noreturn]] inline void fail(const std::string& what) {
    throw std::system_error(errno, std::generic_category(), what);
}

inline std::uint16_t be16(const std::uint8_t* p) { return static_cast<std::uint16_t>(p[0] << 8 | p[1]); }

// Where frames that the FPGA sent go, and where those that it receives come from.
class Network {
  public:
    // A capture file, an address, the name of a TAP interface; or empty ones.
    Network(const std::string& pcap, const std::string& udp, const std::string& tap) {
        if (!pcap.empty()) {
            pcap_ = std::fopen(pcap.c_str(), "wb");
            if (!pcap_) fail(pcap);
            const std::uint32_t head[6] = {0xa1b23c4d, 2u | 4u << 16, 0, 0, 65535, 1};  // nanoseconds, 2.4, Ethernet
            std::fwrite(head, 1, sizeof head, pcap_);
        }
        if (!udp.empty()) {
            udp_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
            if (udp_ < 0) fail("socket");
            to_.sin_family = AF_INET;
            if (inet_pton(AF_INET, udp.c_str(), &to_.sin_addr) != 1)
                throw std::runtime_error("--udp " + udp + " is no IPv4 address");
            const int ttl = 1;
            ::setsockopt(udp_, IPPROTO_IP, IP_MULTICAST_TTL, &ttl, sizeof ttl);
            ::setsockopt(udp_, IPPROTO_IP, IP_MULTICAST_IF, &to_.sin_addr, sizeof to_.sin_addr);
        }
        if (!tap.empty()) {
            tap_ = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
            ifreq request{};
            request.ifr_flags = IFF_TAP | IFF_NO_PI;
            std::strncpy(request.ifr_name, tap.c_str(), IFNAMSIZ - 1);
            if (tap_ < 0 || ::ioctl(tap_, TUNSETIFF, &request) < 0) fail("TAP " + tap + " (it takes root)");
        }
    }
    ~Network() {
        if (pcap_) std::fclose(pcap_);
        if (udp_ >= 0) ::close(udp_);
        if (tap_ >= 0) ::close(tap_);
    }
    Network(const Network&) = delete;
    Network& operator=(const Network&) = delete;

    int tap() const { return tap_; }

    // A frame that the FPGA sent at `ns`.
    void sent(const Frame& frame, std::uint64_t ns) {
        ++frames;
        if (pcap_) {
            const std::uint32_t size = static_cast<std::uint32_t>(frame.size());
            const std::uint32_t head[4] = {static_cast<std::uint32_t>(ns / 1'000'000'000),
                                           static_cast<std::uint32_t>(ns % 1'000'000'000), size, size};
            std::fwrite(head, 1, sizeof head, pcap_);
            std::fwrite(frame.data(), 1, size, pcap_);
        }
        if (tap_ >= 0) {
            if (::write(tap_, frame.data(), frame.size()) < 0) ++failed;
            return;
        }
        const std::uint16_t type = be16(&frame[12]);
        if (type == 0x0806 && frame.size() >= 42 && be16(&frame[20]) == 1) answer_arp(frame);
        if (udp_ < 0 || type != 0x0800 || frame.size() < 42 || frame[14] != 0x45 || frame[23] != 17) return;
        const std::size_t bytes = be16(&frame[38]);
        if (bytes < 8 || frame.size() < 34 + bytes) {
            ++failed;
            return;
        }
        sockaddr_in to = to_;
        std::memcpy(&to.sin_port, &frame[36], 2);
        if ((frame[30] & 0xf0) == 0xe0) std::memcpy(&to.sin_addr, &frame[30], 4);  // a group stays a group
        wait_for_room(be16(&frame[36]), bytes);
        // A receiver that is not there yet says so at the next packet: that one is sent again.
        for (int attempt = 0; attempt < 2; ++attempt)
            if (::sendto(udp_, &frame[42], bytes - 8, 0, reinterpret_cast<sockaddr*>(&to), sizeof to) >= 0) {
                ++payloads;
                return;
            }
        ++failed;
    }

    // Frames that the kernel sends to the FPGA.
    void receive() {
        if (tap_ < 0) return;
        std::uint8_t buffer[16384];
        for (ssize_t got; (got = ::read(tap_, buffer, sizeof buffer)) > 0;) incoming.emplace_back(buffer, buffer + got);
    }

    std::deque<Frame> incoming;  // on their way to the FPGA
    std::uint64_t frames = 0, payloads = 0, failed = 0;

  private:
    // UDP has no flow control, but simulated time can wait: until the receiver on this host, if there is one, has
    // emptied its socket to a fill that every socket has room for; ten seconds at most, should it be dead.
    void wait_for_room(unsigned port, std::size_t bytes) {
        constexpr std::size_t kBurst = 32 << 10;  // between two looks
        constexpr unsigned long kRoom = 64 << 10;
        if ((since_look_ += bytes) < kBurst) return;
        since_look_ = 0;
        for (int i = 0; i < 20'000 && fill(port) > kRoom && !stop; ++i) ::usleep(500);
    }

    static unsigned long fill(unsigned port) {
        unsigned long most = 0;
        if (std::FILE* table = std::fopen("/proc/net/udp", "r")) {
            char line[512];
            while (std::fgets(line, sizeof line, table)) {
                unsigned local = 0;
                unsigned long queued = 0;
                if (std::sscanf(line, " %*[^:]: %*x:%x %*x:%*x %*x %*x:%lx", &local, &queued) == 2 && local == port)
                    most = std::max(most, queued);
            }
            std::fclose(table);
        }
        return most;
    }

    void answer_arp(const Frame& request) {
        Frame reply(60);
        std::memcpy(&reply[0], &request[6], 6);
        std::memcpy(&reply[6], kFarMac.data(), 6);
        std::memcpy(&reply[12], &request[12], 8);
        reply[21] = 2;
        std::memcpy(&reply[22], kFarMac.data(), 6);
        std::memcpy(&reply[28], &request[38], 4);
        std::memcpy(&reply[32], &request[22], 10);
        if (std::memcmp(&request[28], &request[38], 4) != 0) incoming.push_back(reply);  // else it announces itself
    }

    std::FILE* pcap_ = nullptr;
    int udp_ = -1, tap_ = -1;
    std::size_t since_look_ = 0;
    sockaddr_in to_{};
};

}  // namespace simulation
