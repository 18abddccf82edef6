// Packet captures, pcap and pcapng, record by record: what ryle.receive.pcap reads, by the same rules.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ryle {

// What became of the records: records = datagrams + fragments + truncated + other + malformed.
struct PcapCounts {
    std::atomic<std::int64_t> records{0}, datagrams{0}, fragments{0}, truncated{0}, other{0}, malformed{0}, cut{0};
    std::atomic<std::int64_t> bytes{0};  // how far the file was read
};

// A whole UDP datagram of a capture.
struct PcapDatagram {
    const std::uint8_t* data;
    std::uint32_t size;
    std::span<const std::uint8_t> address;  // its destination, 4 or 16 bytes
    std::uint16_t port;
    std::span<const std::uint8_t> sender;  // where it came from
    std::uint16_t sender_port;
    std::int64_t time;  // ns since 1970; 0: not recorded
};

class PcapReader {
  public:
    // Maps the file. Throws std::system_error, or std::invalid_argument if it is no capture.
    PcapReader(const std::string& path, PcapCounts& counts);
    ~PcapReader();
    PcapReader(const PcapReader&) = delete;
    PcapReader& operator=(const PcapReader&) = delete;

    // The next datagram, whose bytes are valid until release(); false at the end of the file.
    bool next(PcapDatagram& out);
    // How far the file was read.
    std::size_t at() const { return at_; }
    // Nothing that was given before the file was read so far is needed any more: pages are let go now and then. From
    // any thread; whoever still reads such a page gets it again.
    void release(std::size_t at);
    // Map the pages of the piece behind what is mapped, if it is time: a fault a page costs more than the copy of it.
    // Beside next() and itself, from any thread.
    void map_ahead();

  private:
    struct Interface {
        std::uint32_t link;
        std::uint64_t ticks;  // a second; 0: beyond what makes a difference
        std::int64_t offset;  // s
    };
    struct Record {
        const std::uint8_t* packet;
        std::size_t captured;
        std::uint32_t link;
        std::int64_t time;
    };

    bool next_pcap(Record& out);
    bool next_pcapng(Record& out);
    Interface interface_at(std::size_t size) const;
    bool dissect(const Record& record, PcapDatagram& out);
    std::uint32_t word(std::size_t at) const;
    std::uint16_t half(std::size_t at) const;

    PcapCounts& counts_;
    const std::uint8_t* file_ = nullptr;
    std::size_t bytes_ = 0, at_ = 0;
    std::atomic<std::size_t> read_{0}, ready_{0}, freed_{0};  // how far; pages are mapped, and let go, up to there
    bool big_ = false, next_generation_ = false;
    std::vector<Interface> interfaces_;
};

}  // namespace ryle
