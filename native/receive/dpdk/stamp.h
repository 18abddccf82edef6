// Headers of made packets: a template in which fields count.
#pragma once
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace ryle::dpdk {

// `bytes` bytes at byte `byte` of the frame hold start + step * (packet / every % modulo); modulo 0: no end.
struct Stamp {
    std::uint32_t byte, bytes;
    bool big_endian;
    std::uint64_t start, step, every, modulo;
};

class Stamper {
  public:
    Stamper(std::vector<std::uint8_t> header, std::vector<Stamp> stamps) : header_(std::move(header)) {
        for (const Stamp& stamp : stamps) {
            if (stamp.bytes < 1 || stamp.bytes > 8 || std::uint64_t{stamp.byte} + stamp.bytes > header_.size())
                throw std::invalid_argument("a stamp lies outside the header");
            if (stamp.every < 1) throw std::invalid_argument("a stamp counts every packet, or every so many");
            fields_.push_back({stamp, 0, 0});
        }
    }
    std::size_t bytes() const { return header_.size(); }

    // The next packet's header.
    void write(std::uint8_t* to) {
        std::memcpy(to, header_.data(), header_.size());
        for (Field& field : fields_) {
            const Stamp& stamp = field.stamp;
            std::uint64_t value = stamp.start + stamp.step * field.count;
            if (stamp.big_endian) value = __builtin_bswap64(value) >> (64 - 8 * stamp.bytes);
            std::memcpy(to + stamp.byte, &value, stamp.bytes);
            if (++field.within == stamp.every) {
                field.within = 0;
                if (++field.count == stamp.modulo) field.count = 0;
            }
        }
    }
    // As if this many packets had been made and lost.
    void skip(std::uint64_t packets) {
        for (Field& field : fields_) {
            const std::uint64_t within = field.within + packets;
            field.within = within % field.stamp.every;
            field.count += within / field.stamp.every;
            if (field.stamp.modulo) field.count %= field.stamp.modulo;
        }
    }

  private:
    struct Field {
        Stamp stamp;
        std::uint64_t within, count;
    };
    std::vector<std::uint8_t> header_;
    std::vector<Field> fields_;
};

}  // namespace ryle::dpdk
