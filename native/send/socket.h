// The kernel's way out: UDP sockets, sendmmsg, segmentation offload, departure times.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "port.h"

namespace ryle {

// Addresses are numeric. No `from` host: the kernel chooses; port 0 too. No `to`: the stream leaves through another
// port.
struct Route {
    std::string to;
    std::uint16_t to_port = 0;
    std::string from{};
    std::uint16_t from_port = 0;
};

struct SocketOptions {
    std::uint32_t most_bytes = 9000;  // of a packet
    std::uint32_t burst = 1;          // packets to push at once
    bool segment = true;              // UDP_SEGMENT: the kernel cuts a run of packets in one go
    bool departure = false;           // SO_TXTIME: the queueing discipline (fq, etf) holds packets until they are due
    std::uint32_t buffer = 8 << 20;   // SO_SNDBUF, bytes
    std::uint32_t ttl = 4;            // of multicast
};

class SocketPort final : public Port {
  public:
    // `routes` are those of all streams of the plan, by index. Throws std::system_error.
    SocketPort(std::vector<Route> routes, const SocketOptions& options);
    ~SocketPort() override;
    SocketPort(const SocketPort&) = delete;
    SocketPort& operator=(const SocketPort&) = delete;

    std::span<std::uint8_t* const> buffers() override { return buffers_; }
    void push(std::span<const Made> made, std::int64_t start) override;
    void flush() override;
    std::int64_t ahead() const override { return options_.departure ? 2'000'000 : 0; }
    // Whether runs of packets are still cut by the kernel: a way that cannot is found out by trying.
    bool segments() const { return options_.segment; }

  private:
    void connect_single();
    void send(int socket, std::span<const Made> made, std::size_t first, std::int64_t start);
    void explain(int socket, int error, const Made& packet);

    std::vector<Route> routes_;
    SocketOptions options_;
    std::vector<sockaddr_storage> to_;
    std::vector<socklen_t> to_bytes_;  // 0: its socket knows
    std::vector<int> socket_of_;       // of each stream
    std::vector<int> sockets_;
    std::uint8_t* memory_ = nullptr;
    std::size_t memory_bytes_ = 0;
    std::vector<std::uint8_t*> buffers_;
    std::int64_t full_since_ = 0;  // s of CLOCK_MONOTONIC; 0: it is not full
    struct Work;
    std::unique_ptr<Work> work_;
};

}  // namespace ryle
