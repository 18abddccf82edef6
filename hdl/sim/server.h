// SPDX-License-Identifier: BSD-3-Clause
// Registers of the simulated FPGA at a stream socket (Unix).
//
// A request is 12 bytes, three little-endian words {operation, address, value}; each
// is answered by 8 bytes, {error, value}. Operations: 0 read, 1 write, 2 statistic number `address`, 3 loopback on or
// off, 4 end. Simulated time goes on while the generator runs or something arrives, and slowly otherwise.
#pragma once
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "fpga.h"
#include "network.h"

namespace simulation {

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

}  // namespace simulation
