#include "recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>

namespace ryle {

namespace {

constexpr std::size_t kPage = 4096, kFileHeader = 24, kRecordHeader = 16;
constexpr std::size_t kLeast = 1 << 18;          // of a buffer
constexpr std::size_t kHead4 = 42, kHead6 = 62;  // Ethernet, IP and UDP headers
using Seconds = std::chrono::duration<double>;

std::uint64_t unix_time() {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

void put16(std::uint8_t* at, std::uint32_t value) {
    at[0] = static_cast<std::uint8_t>(value >> 8);
    at[1] = static_cast<std::uint8_t>(value);
}

// One's-complement sum of big-endian 16-bit words (RFC 1071).
std::uint64_t sum16(const std::uint8_t* data, std::size_t bytes) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i + 1 < bytes; i += 2) sum += static_cast<std::uint32_t>(data[i]) << 8 | data[i + 1];
    if (bytes % 2) sum += static_cast<std::uint32_t>(data[bytes - 1]) << 8;
    return sum;
}

std::uint32_t folded(std::uint64_t sum) {
    while (sum >> 16) sum = (sum & 0xFFFF) + (sum >> 16);
    return ~static_cast<std::uint32_t>(sum) & 0xFFFF;
}

void file_header(std::uint8_t* at) {
    const std::uint32_t words[] = {0xA1B23C4D, 2 | 4 << 16, 0, 0, 262144, 1};  // nanoseconds, Ethernet
    std::memcpy(at, words, kFileHeader);
}

}  // namespace

Recorder::Recorder(RecorderPlan plan, Sink* next) : plan_(std::move(plan)), next_(next), buffers_(plan_.buffers) {
    if (plan_.buffers < 2 || plan_.buffer_bytes % kPage || plan_.buffer_bytes < kLeast)
        throw std::invalid_argument("recorder: two buffers of 256 KiB or more in pages of 4096 bytes are needed");
    if (plan_.heads.empty()) throw std::invalid_argument("recorder: no ports");
    for (const auto& head : plan_.heads)
        if (head.size() != kHead4 && head.size() != kHead6) throw std::invalid_argument("recorder: not a UDP header");
    if (!open()) throw std::system_error(errno, std::generic_category(), counts_.file);
    void* at = mmap(nullptr, plan_.buffer_bytes * plan_.buffers + kPage, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    page_ = static_cast<std::uint8_t*>(at);
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
        buffers_[i].data = page_ + kPage + i * plan_.buffer_bytes;
        free_.push_back(&buffers_[i]);
    }
    begin_buffer();
    thread_ = std::thread([this] { run(); });
}

Recorder::~Recorder() {
    close();
    munmap(page_, plan_.buffer_bytes * plan_.buffers + kPage);
}

void Recorder::take(std::span<const Arrival> packets) {
    const std::uint64_t now = unix_time();
    for (std::size_t done = 0; done < packets.size(); done += kBatch) {
        const auto batch = packets.subspan(done, std::min(kBatch, packets.size() - done));
        Copy copies[kBatch];
        std::size_t n = 0;
        {
            const std::lock_guard lock(mutex_);
            for (const Arrival& packet : batch) {
                const bool known = packet.arrived > 0;
                n += reserve(packet, known ? static_cast<std::uint64_t>(packet.arrived) : now, copies[n]);
            }
        }
        for (std::size_t i = 0; i < n; ++i) {
            put(copies[i]);
            copies[i].buffer->finished.fetch_add(record_bytes(*copies[i].packet), std::memory_order_release);
        }
    }
    if (next_ != nullptr) next_->take(packets);
}

std::size_t Recorder::record_bytes(const Arrival& packet) const {
    return kRecordHeader + plan_.heads[packet.port].size() + packet.size;
}

// Under the lock: find room for a packet and count it.
bool Recorder::reserve(const Arrival& packet, std::uint64_t now, Copy& copy) {
    if (packet.port >= plan_.heads.size() || packet.size > 65507 || stop_ || !counts_.error.empty()) {
        ++counts_.unrecorded;
        return false;
    }
    const std::size_t bytes = record_bytes(packet);
    if (current_ != nullptr) {
        const bool begun = file_taken_ > static_cast<std::int64_t>(kFileHeader);
        const bool longer = plan_.file_bytes && file_taken_ + static_cast<std::int64_t>(bytes) > plan_.file_bytes;
        const bool older = plan_.file_seconds > 0 &&
                           Seconds(std::chrono::steady_clock::now() - file_began_).count() >= plan_.file_seconds;
        if (begun && (longer || older)) {
            hand_over(true);
        } else if (current_->used + bytes > plan_.buffer_bytes) {
            hand_over(false);
        }
    }
    if (current_ == nullptr) {
        ++counts_.unrecorded;
        return false;
    }
    if (current_->packets == 0) current_->since = std::chrono::steady_clock::now();
    copy = {current_, current_->data + current_->used, &packet, now};
    current_->used += bytes;
    ++current_->packets;
    file_taken_ += static_cast<std::int64_t>(bytes);
    ++counts_.packets;
    counts_.bytes += static_cast<std::int64_t>(bytes);
    return true;
}

// Under the lock: take a free buffer, if there is one, for the packets to come.
void Recorder::begin_buffer() {
    if (free_.empty() || stop_) return;
    current_ = free_.front();
    free_.pop_front();
    current_->carry = current_->used = carry_;
    current_->packets = 0;
    current_->first_of_file = new_file_;
    current_->last_of_file = current_->aged = false;
    if (new_file_) {
        file_header(current_->data);
        current_->used = kFileHeader;
        file_taken_ = kFileHeader;
        counts_.bytes += kFileHeader;
        file_began_ = std::chrono::steady_clock::now();
    }
    current_->finished.store(current_->used, std::memory_order_relaxed);
    new_file_ = false;
}

// Under the lock: give the current buffer to the disk. What it has on its last, unfinished page the next one begins
// with.
void Recorder::hand_over(bool last_of_file) {
    current_->last_of_file = new_file_ = last_of_file;
    carry_ = last_of_file ? 0 : current_->used % kPage;
    full_.push_back(current_);
    current_ = nullptr;
    begin_buffer();
    changed_.notify_one();
}

void Recorder::put(const Copy& copy) const {
    const Arrival& packet = *copy.packet;
    const std::vector<std::uint8_t>& head = plan_.heads[packet.port];
    const std::size_t size = head.size() + packet.size;
    const std::uint32_t record[] = {static_cast<std::uint32_t>(copy.time / 1'000'000'000),
                                    static_cast<std::uint32_t>(copy.time % 1'000'000'000),
                                    static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(size)};
    std::uint8_t* const frame = copy.to + kRecordHeader;
    std::memcpy(copy.to, record, kRecordHeader);
    std::memcpy(frame, head.data(), head.size());
    std::memcpy(frame + head.size(), packet.data, packet.size);
    const std::uint32_t udp = packet.size + 8;
    if (head.size() == kHead4) {
        put16(frame + 16, udp + 20);
        put16(frame + 24, 0);
        put16(frame + 24, folded(sum16(frame + 14, 20)));
        put16(frame + 38, udp);
    } else {
        put16(frame + 18, udp);
        put16(frame + 58, udp);
        put16(frame + 60, 0);
        const std::uint32_t sum = folded(sum16(frame + 22, 32) + sum16(frame + 54, udp) + udp + 17);
        put16(frame + 60, sum ? sum : 0xFFFF);
    }
}

void Recorder::run() {
    std::unique_lock lock(mutex_);
    while (!stop_ || !full_.empty()) {
        if (full_.empty()) {
            changed_.wait_for(lock, std::chrono::milliseconds(250));
            // What has lain for a second goes to the disk too, so that a kill costs no more than that.
            if (full_.empty() && !stop_ && current_ != nullptr && current_->packets > 0 &&
                std::chrono::steady_clock::now() - current_->since > std::chrono::seconds(1)) {
                current_->aged = true;
                hand_over(false);
            }
            continue;
        }
        Buffer* const buffer = full_.front();
        full_.pop_front();
        const bool failed = !counts_.error.empty();
        lock.unlock();
        while (buffer->finished.load(std::memory_order_acquire) != buffer->used) std::this_thread::yield();
        const auto began = std::chrono::steady_clock::now();
        const bool written = !failed && write(*buffer);
        const double took = Seconds(std::chrono::steady_clock::now() - began).count();
        lock.lock();
        counts_.busy_seconds += took;
        if (!written) {
            counts_.packets -= buffer->packets;
            counts_.unrecorded += buffer->packets;
        }
        free_.push_back(buffer);
        if (current_ == nullptr) begin_buffer();
    }
    if (descriptor_ >= 0) {  // the buffer before was not known to be the last
        write_tail();
        ::close(descriptor_);
    }
}

bool Recorder::write(Buffer& buffer) {
    if (buffer.first_of_file && descriptor_ < 0 && !open()) return fail("opening");
    std::memcpy(buffer.data, page_, buffer.carry);
    tail_ = buffer.used % kPage;
    const std::size_t whole = buffer.used - tail_;
    if (!write_all(buffer.data, whole)) return fail("writing");
    offset_ += static_cast<std::int64_t>(whole);
    std::memcpy(page_, buffer.data + whole, tail_);
    if ((buffer.aged || buffer.last_of_file) && !write_tail()) return fail("writing");
    if (buffer.last_of_file) {
        ::close(descriptor_);
        descriptor_ = -1;
    }
    const std::lock_guard lock(mutex_);
    counts_.written += static_cast<std::int64_t>(whole + (buffer.last_of_file ? tail_ : 0));
    return true;
}

// Write the page that the next buffer will fill and write again; the file ends with its last byte.
bool Recorder::write_tail() {
    if (tail_ == 0) return true;
    std::memset(page_ + tail_, 0, kPage - tail_);
    return write_all(page_, kPage) && ftruncate(descriptor_, offset_ + static_cast<off_t>(tail_)) == 0;
}

bool Recorder::write_all(const std::uint8_t* data, std::size_t bytes) {
    for (std::size_t done = 0; done < bytes;) {
        const ssize_t n = pwrite(descriptor_, data + done, bytes - done, offset_ + static_cast<off_t>(done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        if (n % kPage && done + static_cast<std::size_t>(n) < bytes) {
            errno = ENOSPC;
            return false;
        }
        done += static_cast<std::size_t>(n);
    }
    return true;
}

bool Recorder::open() {
    const auto name = [&](std::int64_t number) {
        char digits[32];
        std::snprintf(digits, sizeof digits, "-%06lld.pcap", static_cast<long long>(number));
        return plan_.stem + digits;
    };
    const std::string path = name(number_);
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
    bool direct = plan_.direct;
    if (direct) descriptor_ = ::open(path.c_str(), flags | O_DIRECT, 0644);
    if (descriptor_ < 0 && (!direct || errno == EINVAL)) {
        direct = false;
        descriptor_ = ::open(path.c_str(), flags, 0644);
    }
    offset_ = 0;
    const int failure = errno;
    {
        const std::lock_guard lock(mutex_);
        counts_.file = path;
        counts_.direct = direct;
        counts_.files += descriptor_ >= 0;
    }
    if (descriptor_ >= 0 && plan_.keep > 0 && number_ >= plan_.keep) unlink(name(number_ - plan_.keep).c_str());
    ++number_;
    errno = failure;
    return descriptor_ >= 0;
}

// Note why, and leave the file with what had been written whole.
bool Recorder::fail(const char* what) {
    const std::string why = std::generic_category().message(errno);
    if (descriptor_ >= 0) {
        [[maybe_unused]] const int ignored = ftruncate(descriptor_, offset_);
        ::close(descriptor_);
        descriptor_ = -1;
    }
    const std::lock_guard lock(mutex_);
    counts_.error = std::string(what) + " " + counts_.file + ": " + why;
    return false;
}

void Recorder::close() {
    {
        const std::lock_guard lock(mutex_);
        if (!stop_) {
            stop_ = true;
            if (current_ != nullptr) {
                hand_over(true);
            } else if (!full_.empty()) {
                full_.back()->last_of_file = true;
            }
        }
        changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
}

RecorderCounts Recorder::counts() const {
    const std::lock_guard lock(mutex_);
    RecorderCounts counts = counts_;
    const double free = static_cast<double>(free_.size()) +
                        (current_ == nullptr ? 0 : 1 - static_cast<double>(current_->used) / plan_.buffer_bytes);
    counts.fill = 1 - free / static_cast<double>(buffers_.size());
    return counts;
}

}  // namespace ryle
