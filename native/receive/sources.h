// The sources that need nothing but the operating system.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pcap_reader.h"
#include "source.h"
#include "wire/packets.h"

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

// What a packet ring lets pass: UDP over IPv4 or IPv6 to one of these ports (all if empty), at most 64; a packet's port
// number is its place in the list.
struct RingOptions {
    std::string interface;
    std::vector<std::uint16_t> ports;
    std::uint32_t block_bytes = 1 << 20, blocks = 128;
    int fanout = -1;  // group in which the kernel deals out flows; -1: alone
};

// One thread that reads an AF_PACKET ring (TPACKET_V3): packets go from the kernel's ring to their place.
std::unique_ptr<Worker> ring_worker(std::string name, const RingOptions& options, Sink& sink);

// Packets of a format, made in memory. Streams take turns, packet by packet.
struct SyntheticOptions {
    PacketLayout layout;
    std::vector<std::vector<std::uint8_t>> heads;  // a packet of each stream, its counters zero
    std::uint64_t first = 0;                       // count of the first packets
    std::uint64_t step = 1;
    std::int64_t packets = -1;  // of each stream; -1: until stopped
    double rate = 0;            // packets/s of all streams together; 0: as fast as memory is
};
std::unique_ptr<Worker> synthetic_worker(std::string name, const SyntheticOptions& options, Sink& sink);

// The datagrams of a capture to some destinations, whose place in the list is a packet's port number; or all, as 0.
struct PcapEnd {
    std::vector<std::uint8_t> address;  // 4 or 16 bytes
    std::uint16_t port;
};
struct PcapOptions {
    std::string path;
    bool all = true;
    std::vector<PcapEnd> ends;
    double speed = 0;        // 1: at the pace of the times recorded; 0: as fast as it goes
    std::int64_t loops = 1;  // through the file; -1: until stopped
    int threads = 1;         // which hand datagrams over in the order of the file; one if they have a pace
};
// `counts` are those of the present pass. Throws if the file cannot be read.
std::vector<std::unique_ptr<Worker>> pcap_workers(PcapOptions options, std::shared_ptr<PcapCounts> counts, Sink& sink);

}  // namespace ryle
