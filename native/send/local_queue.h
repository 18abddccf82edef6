// How full the sockets of this host are that receive at some addresses: what a sender without a rate goes by.
//
// UDP has no flow control, and a laptop's socket buffers hold some tens of packets. The kernel is asked about one
// socket at a time (sock_diag, some 2 µs); where it does not answer, and for groups of multicast, its table of all is
// read.
#pragma once
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ryle {

class LocalQueues {
  public:
    explicit LocalQueues(const std::vector<sockaddr_storage>& endpoints);
    ~LocalQueues();
    LocalQueues(const LocalQueues&) = delete;
    LocalQueues& operator=(const LocalQueues&) = delete;

    // Bytes in the fullest socket that receives at an endpoint, as the kernel counts them (bookkeeping included); 0 if
    // no socket of this host does.
    std::int64_t fill(std::size_t endpoint) const;
    // As `fill`, from the kernel's table of all sockets.
    std::int64_t fill_from_table(std::size_t endpoint) const;

  private:
    // Bytes, or a negative errno.
    std::int64_t ask(const sockaddr_storage& to) const;
    bool answers() const;

    struct Endpoint {
        sockaddr_storage address;
        bool multicast, six;
        std::string name;  // as /proc/net/udp has it
    };
    std::vector<Endpoint> endpoints_;
    int netlink_ = -1;  // -1: the kernel does not answer
};

}  // namespace ryle
