// References: the pcap and pcapng Internet-Drafts (draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng), and the
// tcpdump.org list of link-layer header types.
#include "pcap_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "datagram.h"

namespace ryle {
namespace {

constexpr std::size_t kPiece = std::size_t{2} << 20;    // bytes whose pages are mapped in one go,
constexpr std::size_t kAhead = std::size_t{16} << 20;   // so far ahead
constexpr std::size_t kBehind = std::size_t{16} << 20;  // after which pages are let go
constexpr std::size_t kNone = ~std::size_t{0};
enum Link : std::uint32_t { kNull = 0, kEthernet = 1, kLoop = 108, kSll = 113, kSll2 = 276 };

bool any_of(std::uint32_t value, std::initializer_list<std::uint32_t> values) {
    return std::find(values.begin(), values.end(), value) != values.end();
}

void count(std::atomic<std::int64_t>& counter) {  // one writer
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

// Seconds and a fraction as ns; times beyond 2^62 become that, so that sums with them are still 64 bits.
std::int64_t nanoseconds(std::uint64_t ticks, std::uint64_t a_second, std::int64_t offset) {
    const unsigned __int128 scaled = static_cast<unsigned __int128>(ticks) * 1'000'000'000u;
    const __int128 since = a_second == 0 ? 0 : static_cast<__int128>(scaled / a_second);
    const __int128 time = since + static_cast<__int128>(offset) * 1'000'000'000;
    constexpr __int128 most = __int128{1} << 62;
    return static_cast<std::int64_t>(std::clamp(time, -most, most));
}

// Where the IP header begins in a packet; kNone if it carries no IP.
std::size_t network_layer(std::uint32_t link, const std::uint8_t* p, std::size_t size) {
    if (any_of(link, {101, 12, 14, 228, 229})) return 0;  // raw IP
    if (link == kNull || link == kLoop) {                 // an address family, in the order of the capturing machine
        if (size < 4) return kNone;
        const std::uint32_t big = std::uint32_t{big16(p)} << 16 | big16(p + 2);
        const auto known = [](std::uint32_t family) { return any_of(family, {2, 10, 24, 28, 30}); };
        return known(big) || known(__builtin_bswap32(big)) ? 4 : kNone;
    }
    if (!any_of(link, {kEthernet, kSll, kSll2})) return kNone;
    const std::size_t at = link == kEthernet ? 12 : link == kSll ? 14 : 0;
    if (size < at + 2) return kNone;
    std::uint16_t kind = big16(p + at);
    std::size_t end = link == kSll2 ? 20 : at + 2;
    for (; any_of(kind, {0x8100, 0x88a8, 0x9100}) && size >= end + 4; end += 4) kind = big16(p + end + 2);
    return kind == 0x0800 || kind == 0x86dd ? end : kNone;
}

}  // namespace

PcapReader::PcapReader(const std::string& path, PcapCounts& counts) : counts_(counts) {
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status{};
    void* map = MAP_FAILED;
    if (descriptor >= 0 && fstat(descriptor, &status) == 0) {
        bytes_ = static_cast<std::size_t>(status.st_size);
        if (bytes_ < 24) {
            close(descriptor);
            throw std::invalid_argument(path + " is too short for a capture");
        }
        map = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, descriptor, 0);
    }
    const int error = errno;
    if (descriptor >= 0) close(descriptor);
    if (map == MAP_FAILED) throw std::system_error(error, std::generic_category(), "cannot read " + path);
    file_ = static_cast<const std::uint8_t*>(map);
    madvise(map, bytes_, MADV_SEQUENTIAL);
    next_generation_ = std::memcmp(file_, "\x0a\x0d\x0d\x0a", 4) == 0;
    if (next_generation_) return;
    at_ = 24;
    for (const bool big : {false, true}) {
        big_ = big;
        const std::uint32_t magic = word(0);
        if (magic != 0xa1b2c3d4 && magic != 0xa1b23c4d) continue;
        // The top bits of the link type tell of check sequences.
        interfaces_.push_back({word(20) & 0x0fffffff, magic == 0xa1b2c3d4 ? 1'000'000u : 1'000'000'000u, 0});
        return;
    }
    munmap(map, bytes_);
    throw std::invalid_argument(path + " is neither a pcap nor a pcapng file");
}

PcapReader::~PcapReader() { munmap(const_cast<std::uint8_t*>(file_), bytes_); }

std::uint32_t PcapReader::word(std::size_t at) const {
    std::uint32_t value;
    std::memcpy(&value, file_ + at, sizeof value);
    return big_ ? __builtin_bswap32(value) : value;
}

std::uint16_t PcapReader::half(std::size_t at) const {
    return static_cast<std::uint16_t>(big_ ? file_[at] << 8 | file_[at + 1] : file_[at + 1] << 8 | file_[at]);
}

bool PcapReader::next(PcapDatagram& out) {
    Record record;
    while (next_generation_ ? next_pcapng(record) : next_pcap(record)) {
        read_.store(at_, std::memory_order_relaxed);
        count(counts_.records);
        counts_.bytes.store(static_cast<std::int64_t>(at_), std::memory_order_relaxed);
        if (dissect(record, out)) return true;
    }
    counts_.bytes.store(static_cast<std::int64_t>(bytes_), std::memory_order_relaxed);
    return false;
}

void PcapReader::map_ahead() {
    std::size_t ready = ready_.load(std::memory_order_relaxed);
    if (ready >= bytes_ || ready > read_.load(std::memory_order_relaxed) + kAhead) return;
    const std::size_t size = std::min(kPiece, bytes_ - ready);
    if (!ready_.compare_exchange_strong(ready, ready + size, std::memory_order_relaxed)) return;  // another does
    madvise(const_cast<std::uint8_t*>(file_) + ready, size, MADV_POPULATE_READ);
}

void PcapReader::release(std::size_t at) {
    const std::size_t page = at / 4096 * 4096;
    std::size_t freed = freed_.load(std::memory_order_relaxed);
    if (page < freed + kBehind || !freed_.compare_exchange_strong(freed, page, std::memory_order_relaxed)) return;
    madvise(const_cast<std::uint8_t*>(file_) + freed, page - freed, MADV_DONTNEED);
}

bool PcapReader::next_pcap(Record& out) {
    const std::size_t left = bytes_ - at_;
    const std::size_t captured = left < 16 ? 0 : word(at_ + 8);
    if (left < 16 || captured > left - 16) {
        counts_.cut = left > 0;
        return false;
    }
    const auto [link, ticks, offset] = interfaces_.front();
    const std::int64_t time = word(at_) * 1'000'000'000LL + word(at_ + 4) * static_cast<std::int64_t>(1e9 / ticks);
    out = {file_ + at_ + 16, captured, link, time};
    at_ += 16 + captured;
    return true;
}

// Pass over blocks up to the next that holds a packet.
bool PcapReader::next_pcapng(Record& out) {
    while (bytes_ - at_ >= 12) {
        const std::size_t left = bytes_ - at_;
        if (std::memcmp(file_ + at_, "\x0a\x0d\x0d\x0a", 4) == 0) {
            const bool little = std::memcmp(file_ + at_ + 8, "\x4d\x3c\x2b\x1a", 4) == 0;
            if (!little && std::memcmp(file_ + at_ + 8, "\x1a\x2b\x3c\x4d", 4) != 0) break;
            big_ = !little;
            interfaces_.clear();
        }
        const std::uint32_t kind = word(at_), size = word(at_ + 4);
        if (size < 12 || size % 4 != 0 || size > left) break;
        if (kind == 1 && size >= 20) {
            interfaces_.push_back(interface_at(size));
        } else if ((kind == 6 || kind == 2) && size >= 32) {  // enhanced packet, and what it replaced
            const std::size_t interface = kind == 6 ? word(at_ + 8) : half(at_ + 8);
            const std::uint32_t captured = word(at_ + 20);
            if (interface >= interfaces_.size() || captured > size - 32) break;
            const auto [link, ticks, offset] = interfaces_[interface];
            const std::uint64_t stamp = std::uint64_t{word(at_ + 12)} << 32 | word(at_ + 16);
            out = {file_ + at_ + 28, captured, link, nanoseconds(stamp, ticks, offset)};
            at_ += size;
            return true;
        } else if (kind == 3 && size >= 16 && !interfaces_.empty()) {  // simple packet: no time
            out = {file_ + at_ + 12, std::min(size - 16, word(at_ + 8)), interfaces_.front().link, 0};
            at_ += size;
            return true;
        }
        at_ += size;
    }
    counts_.cut = bytes_ > at_;
    return false;
}

PcapReader::Interface PcapReader::interface_at(std::size_t size) const {
    Interface found{half(at_ + 8), 1'000'000, 0};
    const std::size_t end = at_ + size - 4;
    for (std::size_t at = at_ + 16; at + 4 <= end;) {
        const std::uint16_t code = half(at), length = half(at + 2);
        if (code == 0 || at + 4 + length > end) break;
        if (code == 9 && length == 1) {
            const unsigned exponent = file_[at + 4] & 0x7f;
            found.ticks = 1;
            if (file_[at + 4] & 0x80)
                found.ticks = exponent < 64 ? std::uint64_t{1} << exponent : 0;
            else if (exponent < 20)
                for (unsigned i = 0; i < exponent; ++i) found.ticks *= 10;
            else
                found.ticks = 0;  // 2^64 of them are a second or less, which a capture cannot tell
        } else if (code == 14 && length == 8) {
            const std::uint64_t first = word(at + 4), second = word(at + 8);
            found.offset = static_cast<std::int64_t>(big_ ? first << 32 | second : second << 32 | first);
        }
        at += 4 + (length + 3u) / 4 * 4;
    }
    return found;
}

// Find the UDP payload of a packet, or count why there is none.
bool PcapReader::dissect(const Record& record, PcapDatagram& out) {
    const std::uint8_t* p = record.packet;
    const std::size_t size = record.captured, ip = network_layer(record.link, p, size);
    const auto refuse = [](std::atomic<std::int64_t>& why) {
        count(why);
        return false;
    };
    if (ip == kNone || size < ip + 20) return refuse(counts_.other);
    std::size_t udp;
    std::int64_t room;  // of the datagram, by the IP header; of 0 bytes: left to the network card to fill in
    std::uint8_t protocol;
    if (p[ip] >> 4 == 4) {
        const std::size_t header = (p[ip] & 15) * 4u, total = big16(p + ip + 2);
        if (header < 20) return refuse(counts_.malformed);
        if (big16(p + ip + 6) & 0x3fff) return refuse(counts_.fragments);
        protocol = p[ip + 9];
        udp = ip + header;
        room = total ? static_cast<std::int64_t>(total) - static_cast<std::int64_t>(header)
                     : static_cast<std::int64_t>(size) - static_cast<std::int64_t>(udp);
        out.sender = {p + ip + 12, 4};
        out.address = {p + ip + 16, 4};
    } else if (p[ip] >> 4 == 6 && size >= ip + 40) {
        const std::size_t total = big16(p + ip + 4);
        protocol = p[ip + 6];
        udp = ip + 40;
        while (any_of(protocol, {0, 43, 60}) && size >= udp + 8) {  // hop-by-hop, routing, destination options
            protocol = p[udp];
            udp += 8 + 8u * p[udp + 1];
        }
        if (protocol == 44) return refuse(counts_.fragments);
        room = static_cast<std::int64_t>(total ? ip + 40 + total : size) - static_cast<std::int64_t>(udp);
        out.sender = {p + ip + 8, 16};
        out.address = {p + ip + 24, 16};
    } else {
        return refuse(counts_.other);
    }
    if (protocol != 17) return refuse(counts_.other);
    if (size < udp + 8) return refuse(counts_.truncated);
    const std::size_t length = big16(p + udp + 4);
    if (length < 8 || static_cast<std::int64_t>(length) > room) return refuse(counts_.malformed);
    if (udp + length > size) return refuse(counts_.truncated);
    out.data = p + udp + 8;
    out.size = static_cast<std::uint32_t>(length - 8);
    out.port = big16(p + udp + 2);
    out.sender_port = big16(p + udp);
    out.time = record.time;
    count(counts_.datagrams);
    return true;
}

}  // namespace ryle
