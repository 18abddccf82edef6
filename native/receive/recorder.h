// Packets as they came, to a ring of pcap files, on their way to another sink.
//
// Threads that receive copy packets into one of a few large aligned buffers; a thread of its own writes full ones past
// the page cache. Receiving never waits for the disk: what finds no buffer is counted and not recorded. Files end on a
// whole packet unless the process is killed, and then within one, as readers of captures expect.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "sink.h"

namespace ryle {

struct RecorderPlan {
    std::string stem;                              // files are stem-000000.pcap and so on
    std::int64_t file_bytes = 0;                   // begin another file before one gets longer; 0: no limit
    double file_seconds = 0;                       // or after so long; 0: no limit
    std::int64_t keep = 0;                         // the newest files that are kept; 0: all
    std::size_t buffer_bytes = 0;                  // of each buffer; a multiple of 4096
    std::size_t buffers = 2;                       // at least 2
    bool direct = true;                            // O_DIRECT, if the file system has it
    std::vector<std::vector<std::uint8_t>> heads;  // Ethernet, IP and UDP header of an empty packet to each port
};

struct RecorderCounts {
    std::int64_t packets = 0, bytes = 0;  // recorded; bytes of files
    std::int64_t unrecorded = 0;          // packets that found no room
    std::int64_t files = 0, written = 0;  // files begun; bytes that the disk has
    double fill = 0;                      // of the buffers, 0 to 1
    double busy_seconds = 0;              // that the writing thread spent writing
    bool direct = false;
    std::string file, error;  // newest file; why nothing is written any more
};

class Recorder : public Sink {
  public:
    // Opens the first file. Throws std::system_error, std::invalid_argument, std::bad_alloc.
    Recorder(RecorderPlan plan, Sink* next);
    ~Recorder() override;
    void take(std::span<const Arrival> packets) override;
    const Senders* senders() const override { return next_ != nullptr ? next_->senders() : nullptr; }
    void idle(std::int64_t now) override {
        if (next_ != nullptr) next_->idle(now);
    }
    // Write what there is and close the file.
    void close();
    RecorderCounts counts() const;

  private:
    struct Buffer {
        std::uint8_t* data = nullptr;
        std::size_t used = 0;                  // bytes taken
        std::size_t carry = 0;                 // of these the first, which the buffer before hands on
        std::atomic<std::size_t> finished{0};  // bytes that are copied
        std::int64_t packets = 0;
        bool first_of_file = false, last_of_file = false, aged = false;
        std::chrono::steady_clock::time_point since;  // its first packet
    };
    struct Copy {
        Buffer* buffer;
        std::uint8_t* to;
        const Arrival* packet;
        std::uint64_t time;
    };
    static constexpr std::size_t kBatch = 64;

    std::size_t record_bytes(const Arrival& packet) const;
    bool reserve(const Arrival& packet, std::uint64_t now, Copy& copy);
    void begin_buffer();
    void hand_over(bool last_of_file);
    void put(const Copy& copy) const;
    void run();
    bool write(Buffer& buffer);
    bool write_tail();
    bool write_all(const std::uint8_t* data, std::size_t bytes);
    bool open();
    bool fail(const char* what);

    const RecorderPlan plan_;
    Sink* const next_;
    std::vector<Buffer> buffers_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    Buffer* current_ = nullptr;        // nullptr: none is free
    std::deque<Buffer*> full_, free_;  // to be written, in order; empty
    std::size_t carry_ = 0;            // bytes that the next buffer leaves room for
    bool new_file_ = true;             // the next buffer begins a file
    std::int64_t file_taken_ = 0;      // bytes that are meant for the current file
    std::chrono::steady_clock::time_point file_began_;
    bool stop_ = false;
    RecorderCounts counts_;

    // Of the writing thread:
    int descriptor_ = -1;
    std::int64_t offset_ = 0, number_ = 0;  // bytes of the file that are written, in pages; number of the next file
    std::uint8_t* page_ = nullptr;          // the bytes after these, which the next buffer begins with
    std::size_t tail_ = 0;                  // how many
    std::thread thread_;
};

}  // namespace ryle
