// AF_PACKET with a ring that the kernel fills and this thread reads (TPACKET_V3, packet_mmap.rst).
#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <system_error>

#include "datagram.h"
#include "sources.h"

namespace ryle {
namespace {

constexpr int kPatience = 20;            // ms of waiting, after which the thread looks whether it is to stop
constexpr unsigned kRetireMs = 8;        // after which the kernel hands over a block that is not full
constexpr int kIgnoreOutgoing = 0x4000;  // PACKET_FANOUT_FLAG_IGNORE_OUTGOING: a group does not ask its sockets
constexpr std::uint8_t kUdpTrain = 5;    // VIRTIO_NET_HDR_GSO_UDP_L4

// struct virtio_net_hdr, whose header C++ cannot read.
struct Train {
    std::uint8_t flags, gso_type;
    std::uint16_t hdr_len, gso_size, csum_start, csum_offset;
};
static_assert(sizeof(Train) == 10);

constexpr std::uint8_t byte(int n) { return static_cast<std::uint8_t>(n); }

[[noreturn]] void fail(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

class RingWorker : public Worker {
  public:
    RingWorker(std::string name, const RingOptions& options, Sink& sink)
        : Worker(std::move(name)), sink_(sink), options_(options) {
        if (options_.ports.size() > 64) throw std::invalid_argument("a packet ring takes at most 64 ports");
        index_ = if_nametoindex(options_.interface.c_str());
        if (index_ == 0) fail("there is no interface " + options_.interface);
        // Bound to no protocol yet: nothing comes before everything is set.
        socket_ = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
        if (socket_ < 0) fail("cannot open a packet socket (it needs CAP_NET_RAW)");
        try {
            make(static_cast<int>(index_));
        } catch (...) {
            shut();
            throw;
        }
    }
    ~RingWorker() override { shut(); }

    void open() override {
        filter();
        kernel_drops();
        const std::lock_guard lock(mutex_);
        drops_ = 0;
    }

    void run() override {
        pollfd waiting{socket_, POLLIN, 0};
        while (!stopping()) {
            if (take()) continue;
            if (poll(&waiting, 1, kPatience) == 0) sink_.idle(unix_now());
            if (waiting.revents & (POLLERR | POLLHUP)) interrupted();
            if (down_) still_there();
        }
        // What came before the end was told is still taken, however busy the core is, and so is the block that is being
        // filled; a sender that goes on does not keep the end from coming: no more than the ring holds.
        for (std::uint32_t i = 0; i < options_.blocks && (take() || (poll(&waiting, 1, 3 * kRetireMs) > 0 && take()));)
            ++i;
    }

    std::int64_t kernel_drops() override {
        const std::lock_guard lock(mutex_);
        tpacket_stats_v3 stats{};
        socklen_t size = sizeof stats;
        if (getsockopt(socket_, SOL_PACKET, PACKET_STATISTICS, &stats, &size) < 0) return -1;
        return drops_ += stats.tp_drops;  // reading sets the kernel's to zero
    }

    std::int64_t interruptions() override { return interruptions_.load(std::memory_order_relaxed); }

  private:
    // Read the next block, if the kernel has handed it over.
    bool take() {
        auto* block = reinterpret_cast<tpacket_block_desc*>(ring_ + std::size_t{at_} * options_.block_bytes);
        auto& status = block->hdr.bh1.block_status;
        if ((__atomic_load_n(&status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) == 0) return false;
        down_ = false;
        read(*block);
        __atomic_store_n(&status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        at_ = at_ + 1 < options_.blocks ? at_ + 1 : 0;
        return true;
    }

    // The link went down. Reading the error forgets it, so that poll waits again; the kernel itself goes on to fill the
    // ring when the link is up.
    void interrupted() {
        int error = 0;
        socklen_t size = sizeof error;
        if (getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
            fail("cannot read the error of a packet ring");
        if (error == 0) return;
        if (error != ENETDOWN)
            throw std::system_error(error, std::generic_category(), "cannot receive from " + options_.interface);
        interruptions_.fetch_add(1, std::memory_order_relaxed);
        down_ = true;
    }

    // An interface that is removed goes down first, and the kernel tells of that alone: whether it is still listed
    // must be asked for as long as nothing comes.
    void still_there() {
        if (if_nametoindex(options_.interface.c_str()) != index_)
            throw std::runtime_error("interface " + options_.interface + " was removed; start again when it is back");
    }

    void make(int index) {
        const auto set = [&](int option, auto value, const char* what) {
            if (setsockopt(socket_, SOL_PACKET, option, &value, sizeof value) < 0) fail(what);
        };
        set(PACKET_VERSION, static_cast<int>(TPACKET_V3), "cannot use TPACKET_V3");
        set(PACKET_VNET_HDR, 1, "cannot see trains of packets (PACKET_VNET_HDR)");
        set(PACKET_IGNORE_OUTGOING, 1, "cannot ignore packets sent (Linux 4.20 is needed)");
        deafen();
        tpacket_req3 request{};
        request.tp_block_size = options_.block_bytes;
        request.tp_block_nr = options_.blocks;
        request.tp_frame_size = 2048;
        request.tp_frame_nr = options_.block_bytes / 2048 * options_.blocks;
        request.tp_retire_blk_tov = kRetireMs;
        set(PACKET_RX_RING, request, "cannot make a packet ring");
        bytes_ = std::size_t{options_.block_bytes} * options_.blocks;
        void* ring = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, socket_, 0);
        if (ring == MAP_FAILED) fail("cannot map the packet ring");
        ring_ = static_cast<std::uint8_t*>(ring);
        sockaddr_ll address{};
        address.sll_family = AF_PACKET;
        address.sll_protocol = htons(ETH_P_ALL);
        address.sll_ifindex = index;
        if (bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) < 0)
            fail("cannot receive from " + options_.interface);
        if (options_.fanout >= 0)
            set(PACKET_FANOUT, (options_.fanout & 0xffff) | (PACKET_FANOUT_HASH | kIgnoreOutgoing) << 16,
                "cannot share the interface");
    }

    // Let nothing pass, until `open`.
    void deafen() {
        sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
        const sock_fprog program{1, &drop};
        if (setsockopt(socket_, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) < 0)
            fail("cannot set the packet filter");
    }

    // Let UDP to the ports pass and nothing else, before it is copied. Offsets count from the Ethernet header; frames
    // with VLAN tags come without them.
    void filter() {
        const auto ports = static_cast<std::uint8_t>(options_.ports.size());
        const std::uint8_t drop = 13 + std::max<std::uint8_t>(ports, 1);  // where "drop" stands; "keep" follows
        std::vector<sock_filter> code = {
            {BPF_LD | BPF_H | BPF_ABS, 0, 0, 12},                          // 0: kind
            {BPF_JMP | BPF_JEQ | BPF_K, 0, 7, ETH_P_IP},                   // 1: IPv6 at 9
            {BPF_LD | BPF_B | BPF_ABS, 0, 0, 23},                          // 2
            {BPF_JMP | BPF_JEQ | BPF_K, 0, byte(drop - 4), IPPROTO_UDP},   // 3
            {BPF_LD | BPF_H | BPF_ABS, 0, 0, 20},                          // 4
            {BPF_JMP | BPF_JSET | BPF_K, byte(drop - 6), 0, 0x3fff},       // 5: a fragment
            {BPF_LDX | BPF_B | BPF_MSH, 0, 0, 14},                         // 6: bytes of the header
            {BPF_LD | BPF_H | BPF_IND, 0, 0, 16},                          // 7: port
            {BPF_JMP | BPF_JA, 0, 0, 4},                                   // 8: ports at 13
            {BPF_JMP | BPF_JEQ | BPF_K, 0, byte(drop - 10), ETH_P_IPV6},   // 9
            {BPF_LD | BPF_B | BPF_ABS, 0, 0, 20},                          // 10
            {BPF_JMP | BPF_JEQ | BPF_K, 0, byte(drop - 12), IPPROTO_UDP},  // 11
            {BPF_LD | BPF_H | BPF_ABS, 0, 0, 56},                          // 12: port
        };
        if (ports == 0) code.push_back({BPF_JMP | BPF_JA, 0, 0, 1});
        for (std::uint8_t p = 0; p < ports; ++p)
            code.push_back({BPF_JMP | BPF_JEQ | BPF_K, byte(ports - p), 0, options_.ports[p]});
        code.push_back({BPF_RET | BPF_K, 0, 0, 0});
        code.push_back({BPF_RET | BPF_K, 0, 0, 0x40000});
        const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
        if (setsockopt(socket_, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) < 0)
            fail("cannot set the packet filter");
    }

    void read(const tpacket_block_desc& block) {
        const auto* at = reinterpret_cast<const std::uint8_t*>(&block) + block.hdr.bh1.offset_to_first_pkt;
        std::size_t count = 0;
        for (std::uint32_t i = 0; i < block.hdr.bh1.num_pkts; ++i) {
            const auto* head = reinterpret_cast<const tpacket3_hdr*>(at);
            const auto* frame = at + head->tp_mac;
            const auto* ip = at + head->tp_net;
            Train train;
            std::memcpy(&train, frame - sizeof train, sizeof train);
            const std::size_t before = static_cast<std::size_t>(ip - frame);
            const Datagram found =
                find_datagram(ip, head->tp_snaplen > before ? head->tp_snaplen - before : 0, big16(ip - 2));
            at += head->tp_next_offset;
            // What contradicts itself goes on as an empty packet, to be counted.
            const auto port = std::find(options_.ports.begin(), options_.ports.end(), found.port);
            const std::uint32_t number =
                options_.ports.empty() ? 0 : static_cast<std::uint32_t>(port - options_.ports.begin());
            std::uint32_t part = (train.gso_type & 0x7f) == kUdpTrain ? train.gso_size : 0;
            if (part == 0 || part > found.size) part = found.size;
            const bool six = ip[0] >> 4 == 6;
            const std::uint64_t sender =
                found.udp && senders_ ? senders_->key(ip + (six ? 8 : 12), six ? 16 : 4, big16(found.data - 8)) : 0;
            const std::int64_t arrived = head->tp_sec * 1'000'000'000LL + head->tp_nsec;
            std::uint32_t from = 0;
            do {
                if (count == arrivals_.size()) {
                    hand_over(sink_, arrivals_);
                    count = 0;
                }
                arrivals_[count++] = {
                    found.data + from, std::min(part, found.size - from), number, nullptr, nullptr, arrived, sender};
                from += part;
            } while (from < found.size);
        }
        if (count != 0) hand_over(sink_, {arrivals_.data(), count});
        if (++blocks_read_ % 1024 == 0) kernel_drops();  // before the kernel's 32 bits come round
    }

    void shut() {
        if (ring_ != nullptr) munmap(ring_, bytes_);
        close(socket_);
        ring_ = nullptr;
        socket_ = -1;
    }

    Sink& sink_;
    const Senders* const senders_ = sink_.senders();
    RingOptions options_;
    unsigned index_ = 0;
    int socket_ = -1;
    std::uint8_t* ring_ = nullptr;
    std::size_t bytes_ = 0;
    std::array<Arrival, 256> arrivals_{};
    std::uint64_t blocks_read_ = 0;
    std::mutex mutex_;
    std::int64_t drops_ = 0;
    std::uint32_t at_ = 0;  // the block to read next
    bool down_ = false;     // since its last block
    std::atomic<std::int64_t> interruptions_{0};
};

}  // namespace

std::unique_ptr<Worker> ring_worker(std::string name, const RingOptions& options, Sink& sink) {
    return std::make_unique<RingWorker>(std::move(name), options, sink);
}

}  // namespace ryle
