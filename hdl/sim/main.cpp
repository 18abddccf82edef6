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
// network.h has the network, fpga.h the core and its clocks, server.h the socket.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "fpga.h"
#include "network.h"
#include "server.h"

namespace {

using namespace simulation;

constexpr int kPeriod = 64;  // clocks between looks at the sockets

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

void run(const Options& options) {
    Network network(options.pcap, options.udp, options.tap);
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
