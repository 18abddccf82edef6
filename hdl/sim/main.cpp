// SPDX-License-Identifier: BSD-3-Clause
// Runs ethernet_core_sim as if it were an FPGA on a network: registers are reached through a socket, frames go to a
// capture file and to real receivers.
//
//   simulation --socket PATH [--pcap FILE] [--udp ADDRESS | --tap NAME] [--loopback]
//
// --udp      payloads of UDP packets are sent on from this host to ADDRESS, port by port; the far end answers ARP
// --tap      frames pass to and from a TAP interface: the kernel is the far end (and answers ARP and ICMP itself)
// --loopback the core receives what it sends
//
// Registers: a stream socket (Unix). A request is 12 bytes, three little-endian words {operation, address, value}; each
// is answered by 8 bytes, {error, value}. Operations: 0 read, 1 write, 2 statistic number `address`, 3 loopback on or
// off, 4 end. Simulated time goes on while the generator runs or something arrives, and slowly otherwise.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "Vtop.h"
#include "verilated.h"

namespace {

using Frame = std::vector<std::uint8_t>;

constexpr std::array<std::uint8_t, 6> kFarMac{0x02, 0x52, 0x79, 0x6c, 0x65, 0x01};
constexpr std::uint64_t kBusy = 4096;   // clocks that time goes on after something happened
constexpr int kPeriod = 64;             // clocks between looks at the sockets
constexpr int kAccessClocks = 100'000;  // a register that has not answered by then never will

volatile std::sig_atomic_t stop = 0;

[[noreturn]] void fail(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

std::uint16_t be16(const std::uint8_t* p) { return static_cast<std::uint16_t>(p[0] << 8 | p[1]); }

struct Options {
    std::string socket, pcap, udp, tap;
    bool loopback = false;
};

Options read_options(int count, char** words) {
    Options o;
    for (int i = 1; i < count; ++i) {
        const std::string word = words[i];
        const auto value = [&] {
            if (++i >= count) throw std::runtime_error(word + " needs a value");
            return std::string(words[i]);
        };
        if (word == "--socket")
            o.socket = value();
        else if (word == "--pcap")
            o.pcap = value();
        else if (word == "--udp")
            o.udp = value();
        else if (word == "--tap")
            o.tap = value();
        else if (word == "--loopback")
            o.loopback = true;
        else
            throw std::runtime_error("what is " + word +
                                     "? --socket PATH, --pcap FILE, --udp ADDRESS, --tap NAME, --loopback");
    }
    if (o.socket.empty()) throw std::runtime_error("--socket PATH is needed: registers are reached through it");
    return o;
}

// Where frames that the FPGA sent go, and where those that it receives come from.
class Network {
  public:
    explicit Network(const Options& o) {
        if (!o.pcap.empty()) {
            pcap_ = std::fopen(o.pcap.c_str(), "wb");
            if (!pcap_) fail(o.pcap);
            const std::uint32_t head[6] = {0xa1b23c4d, 2u | 4u << 16, 0, 0, 65535, 1};  // nanoseconds, 2.4, Ethernet
            std::fwrite(head, 1, sizeof head, pcap_);
        }
        if (!o.udp.empty()) {
            udp_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
            if (udp_ < 0) fail("socket");
            to_.sin_family = AF_INET;
            if (inet_pton(AF_INET, o.udp.c_str(), &to_.sin_addr) != 1)
                throw std::runtime_error("--udp " + o.udp + " is no IPv4 address");
            const int ttl = 1;
            ::setsockopt(udp_, IPPROTO_IP, IP_MULTICAST_TTL, &ttl, sizeof ttl);
            ::setsockopt(udp_, IPPROTO_IP, IP_MULTICAST_IF, &to_.sin_addr, sizeof to_.sin_addr);
        }
        if (!o.tap.empty()) {
            tap_ = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
            ifreq request{};
            request.ifr_flags = IFF_TAP | IFF_NO_PI;
            std::strncpy(request.ifr_name, o.tap.c_str(), IFNAMSIZ - 1);
            if (tap_ < 0 || ::ioctl(tap_, TUNSETIFF, &request) < 0) fail("TAP " + o.tap + " (it takes root)");
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

// The simulated FPGA: clocks, its wire and its registers.
class Fpga {
  public:
    Fpga(Network& network, bool loopback) : network_(network) {
        top_.loopback = loopback;
        top_.rst = 1;
        top_.s_axi_aresetn = 0;
        for (int i = 0; i < 64; ++i) clock();
        top_.rst = 0;
        top_.s_axi_aresetn = 1;
        for (int i = 0; i < 1024; ++i) clock();  // the link comes up
    }
    ~Fpga() { top_.final(); }
    Fpga(const Fpga&) = delete;
    Fpga& operator=(const Fpga&) = delete;

    static constexpr std::size_t kKeep = sizeof(Vtop::far_rx_tdata);

    void clock() {
        top_.clk = 0;
        if (++phase_ % 2 == 0) top_.s_axi_aclk = !top_.s_axi_aclk;  // a quarter of the clock's rate
        const bool axi_edge = phase_ % 4 == 0;
        if (axi_edge) answered_ = answered();
        top_.eval();
        if (axi_edge) after_axi_edge();
        take();
        const bool moved = top_.far_tx_tvalid && top_.far_tx_tready;
        top_.clk = 1;
        top_.eval();
        if (moved) at_ += kKeep;
        give();
        ++clocks;
    }

    // A register access; false if the core answers with an error, or not at all.
    bool access(bool write, std::uint32_t address, std::uint32_t& value) {
        last_active_ = clocks;
        write_ = write;
        pending_ = true;
        if (write) {
            top_.s_axi_awaddr = address;
            top_.s_axi_wdata = value;
            top_.s_axi_wstrb = 0xf;
            next_aw_ = next_w_ = true;
        } else {
            top_.s_axi_araddr = address;
            next_ar_ = true;
        }
        for (int i = 0; i < kAccessClocks && pending_; ++i) clock();
        if (pending_) return pending_ = false;
        value = value_;
        return response_ == 0;
    }

    bool busy() const { return top_.generating || clocks - last_active_ < kBusy; }
    void loop(bool on) { top_.loopback = on; }

    std::uint64_t clocks = 0, bad = 0, underflows = 0;

  private:
    // What happens at the coming edge of the registers' clock, from the signals before it.
    struct Answer {
        bool aw, w, ar, b, r;
        std::uint32_t data;
        int response;
    };
    Answer answered() {
        return {static_cast<bool>(top_.s_axi_awvalid && top_.s_axi_awready),
                static_cast<bool>(top_.s_axi_wvalid && top_.s_axi_wready),
                static_cast<bool>(top_.s_axi_arvalid && top_.s_axi_arready),
                static_cast<bool>(top_.s_axi_bvalid && top_.s_axi_bready),
                static_cast<bool>(top_.s_axi_rvalid && top_.s_axi_rready),
                top_.s_axi_rdata,
                write_ ? top_.s_axi_bresp : top_.s_axi_rresp};
    }
    void after_axi_edge() {
        if (answered_.aw) top_.s_axi_awvalid = 0;
        if (answered_.w) top_.s_axi_wvalid = 0;
        if (answered_.ar) top_.s_axi_arvalid = 0;
        if (next_aw_) top_.s_axi_awvalid = 1;
        if (next_w_) top_.s_axi_wvalid = 1;
        if (next_ar_) top_.s_axi_arvalid = 1;
        next_aw_ = next_w_ = next_ar_ = false;
        top_.s_axi_bready = top_.s_axi_rready = 1;
        if (pending_ && (write_ ? answered_.b : answered_.r)) {
            pending_ = false;
            value_ = answered_.data;
            response_ = answered_.response;
        }
    }

    // A beat that arrived at the far end.
    void take() {
        if (top_.underflow) ++underflows;
        if (!top_.far_rx_tvalid) return;
        last_active_ = clocks;
        const auto* data = reinterpret_cast<const std::uint8_t*>(&top_.far_rx_tdata);
        const auto* keep = reinterpret_cast<const std::uint8_t*>(&top_.far_rx_tkeep);
        std::size_t bytes = 0;
        while (bytes < kKeep && keep[bytes / 8] >> bytes % 8 & 1) ++bytes;
        arriving_.insert(arriving_.end(), data, data + bytes);
        if (!top_.far_rx_tlast) return;
        if (top_.far_rx_tuser)
            ++bad;
        else
            network_.sent(arriving_, static_cast<std::uint64_t>(1e9 / CLOCK_HZ * static_cast<double>(clocks)));
        arriving_.clear();
    }

    // The next beat that the far end sends.
    void give() {
        auto& queue = network_.incoming;
        if (!queue.empty() && at_ >= queue.front().size()) {
            queue.pop_front();
            at_ = 0;
        }
        top_.far_tx_tvalid = !queue.empty();
        if (queue.empty()) return;
        last_active_ = clocks;
        const Frame& frame = queue.front();
        const std::size_t bytes = std::min(kKeep, frame.size() - at_);
        std::memcpy(&top_.far_tx_tdata, &frame[at_], bytes);
        std::array<std::uint8_t, kKeep / 8> keep{};
        for (std::size_t i = 0; i < bytes; ++i) keep[i / 8] |= static_cast<std::uint8_t>(1u << i % 8);
        std::memcpy(&top_.far_tx_tkeep, keep.data(), keep.size());
        top_.far_tx_tlast = at_ + bytes == frame.size();
    }

    Vtop top_;
    Network& network_;
    Frame arriving_;
    std::size_t at_ = 0;  // in the frame that is being sent to the core
    unsigned phase_ = 0;
    Answer answered_{};
    bool write_ = false, pending_ = false, next_aw_ = false, next_w_ = false, next_ar_ = false;
    std::uint32_t value_ = 0;
    int response_ = 0;
    std::uint64_t last_active_ = 0;
};

// Hosts that read and write registers.
class Server {
  public:
    explicit Server(const std::string& path) : path_(path) {
        sockaddr_un at{};
        at.sun_family = AF_UNIX;
        if (path.size() >= sizeof at.sun_path) throw std::runtime_error("--socket " + path + " is too long a path");
        std::memcpy(at.sun_path, path.c_str(), path.size());
        listening_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        ::unlink(path.c_str());
        if (listening_ < 0 || ::bind(listening_, reinterpret_cast<sockaddr*>(&at), sizeof at) < 0 ||
            ::listen(listening_, 8) < 0)
            fail(path);
    }
    ~Server() {
        for (const Client& c : clients_) ::close(c.fd);
        ::close(listening_);
        ::unlink(path_.c_str());
    }
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    // Do what hosts ask for; wait so many ms for it at most.
    void serve(Fpga& fpga, Network& network, int wait_ms) {
        if (wait_ms) {
            std::vector<pollfd> polled{{listening_, POLLIN, 0}};
            for (const Client& c : clients_) polled.push_back({c.fd, POLLIN, 0});
            if (network.tap() >= 0) polled.push_back({network.tap(), POLLIN, 0});
            ::poll(polled.data(), polled.size(), wait_ms);
        }
        for (int fd; (fd = ::accept4(listening_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;)
            clients_.push_back({fd, {}});
        for (std::size_t i = 0; i < clients_.size();) {
            if (serve(clients_[i], fpga, network)) {
                ++i;
            } else {
                ::close(clients_[i].fd);
                clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
            }
        }
    }

  private:
    struct Client {
        int fd;
        std::vector<std::uint8_t> read;
    };

    static bool serve(Client& client, Fpga& fpga, Network& network) {
        std::uint8_t buffer[4096];
        const ssize_t got = ::recv(client.fd, buffer, sizeof buffer, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
        if (got > 0) client.read.insert(client.read.end(), buffer, buffer + got);
        std::size_t done = 0;
        for (; client.read.size() - done >= 12; done += 12) {
            std::uint32_t request[3];
            std::memcpy(request, &client.read[done], sizeof request);
            std::uint32_t reply[2] = {0, request[2]};
            switch (request[0]) {
                case 0:
                case 1:
                    reply[0] = fpga.access(request[0] == 1, request[1], reply[1]) ? 0 : 1;
                    break;
                case 2:
                    reply[1] = statistic(request[1], fpga, network);
                    break;
                case 3:
                    fpga.loop(request[2] != 0);
                    break;
                case 4:
                    stop = 1;
                    break;
                default:
                    reply[0] = 2;
            }
            if (::send(client.fd, reply, sizeof reply, MSG_NOSIGNAL) != sizeof reply) return false;
        }
        client.read.erase(client.read.begin(), client.read.begin() + static_cast<std::ptrdiff_t>(done));
        return true;
    }

    static std::uint32_t statistic(std::uint32_t number, const Fpga& fpga, const Network& network) {
        const std::uint64_t all[] = {fpga.clocks,    fpga.clocks >> 32, network.frames, network.payloads,
                                     network.failed, fpga.bad,          fpga.underflows};
        return number < std::size(all) ? static_cast<std::uint32_t>(all[number]) : 0;
    }

    std::string path_;
    int listening_;
    std::vector<Client> clients_;
};

void run(const Options& options) {
    Network network(options);
    Fpga fpga(network, options.loopback);
    Server server(options.socket);
    std::printf("ready %s\n", options.socket.c_str());
    std::fflush(stdout);
    using Clock = std::chrono::steady_clock;
    const auto began = Clock::now();
    auto said = began;
    std::uint64_t said_clocks = 0, said_frames = 0;
    while (!stop) {
        server.serve(fpga, network, fpga.busy() ? 0 : 5);
        network.receive();
        for (int i = 0; i < kPeriod; ++i) fpga.clock();
        const std::chrono::duration<double> since = Clock::now() - said;
        if (since.count() > 5) {
            if (network.frames != said_frames)
                std::fprintf(stderr, "simulated FPGA: %.1f kHz, %llu frames sent, %llu payloads passed on\n",
                             static_cast<double>(fpga.clocks - said_clocks) / since.count() / 1e3,
                             static_cast<unsigned long long>(network.frames),
                             static_cast<unsigned long long>(network.payloads));
            said = Clock::now();
            said_clocks = fpga.clocks;
            said_frames = network.frames;
        }
    }
    const std::chrono::duration<double> took = Clock::now() - began;
    std::fprintf(
        stderr,
        "simulated FPGA: %llu clocks in %.1f s; %llu frames sent, %llu payloads passed on, %llu not; %llu bad frames, "
        "%llu underflows\n",
        static_cast<unsigned long long>(fpga.clocks), took.count(), static_cast<unsigned long long>(network.frames),
        static_cast<unsigned long long>(network.payloads), static_cast<unsigned long long>(network.failed),
        static_cast<unsigned long long>(fpga.bad), static_cast<unsigned long long>(fpga.underflows));
}

}  // namespace

int main(int count, char** words) {
    std::signal(SIGINT, [](int) { stop = 1; });
    std::signal(SIGTERM, [](int) { stop = 1; });
    std::signal(SIGPIPE, SIG_IGN);
    try {
        run(read_options(count, words));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
    return 0;
}
