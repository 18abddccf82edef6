// The sources that need nothing but the operating system.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "source.h"

namespace ryle {

// A UDP socket, and the port number that its packets get.
struct UdpSocket {
    int descriptor;  // duplicated here
    std::uint32_t port;
};

// One thread that reads sockets by recvmmsg, or with `gro` whole trains of packets at a time.
// `largest`: bytes of the largest packet; longer ones are cut and so become malformed.
std::unique_ptr<Worker> udp_worker(std::string name, const std::vector<UdpSocket>& sockets, bool gro,
                                   std::uint32_t largest, Sink& sink);

}  // namespace ryle
