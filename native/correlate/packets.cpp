// Packets of others' F-engines to K-blocks (chunk.h), with validity: the CPU form of packets.cu.
#include "packets.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "chunk.h"

namespace ryle::correlate {
namespace {

typedef std::int8_t Bytes __attribute__((vector_size(16)));

Bytes low_half(Bytes a, Bytes b) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
Bytes high_half(Bytes a, Bytes b) {
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

// 16 spectra of 8 inputs, a byte each, [spectrum][input] to [input][spectrum]: of the 7 bits of a byte's address, each
// round of interleaving moves the highest to the lowest.
void transpose(Bytes (&v)[8]) {
    for (int round = 0; round < 4; ++round) {
        Bytes w[8];
        for (int k = 0; k < 4; ++k) {
            w[2 * k] = low_half(v[k], v[k + 4]);
            w[2 * k + 1] = high_half(v[k], v[k + 4]);
        }
        std::memcpy(v, w, sizeof v);
    }
}

// Parts in two's complement: the lowest value, which has no negative, becomes the one above it.
struct Finish {
    std::int8_t lowest;
    bool swapped;
    std::uint64_t clamped = 0;

    // One bit for each of eight bytes that are 0 or -1.
    static std::uint64_t bits(std::uint64_t bytes) { return (bytes & 0x0101010101010101u) * 0x0102040810204080u >> 56; }

    Bytes clamp(Bytes part, std::uint64_t valid) {
        const Bytes low = part == lowest;  // -1 where it is
        std::uint64_t halves[2];
        std::memcpy(halves, &low, sizeof halves);
        if (halves[0] | halves[1]) clamped += std::popcount((bits(halves[0]) | bits(halves[1]) << 8) & valid);
        return part - low;
    }

    // 16 spectra of one row; `first` and `second` as they are on the wire.
    void store(Bytes first, Bytes second, std::uint64_t valid, bool conjugated, std::int8_t* row) {
        Bytes re = clamp(swapped ? second : first, valid), im = clamp(swapped ? first : second, valid);
        if (conjugated) im = -im;
        std::memcpy(row, &re, sizeof re);
        std::memcpy(row + kRowGroup, &im, sizeof im);
    }
};

}  // namespace

std::uint64_t unpack_packets(const PacketRun& run, std::int8_t* data, std::uint64_t* valid) {
    const std::int64_t row_words = std::int64_t{run.blocks} * run.inputs;
    const std::int64_t first = std::int64_t{run.first_block} * kBlock;
    const int group_channels = run.channels / run.groups;
    Finish finish{static_cast<std::int8_t>(run.bits == 4 ? -8 : -128), run.swapped};
    const int sample = run.bits == 4 ? 1 : 2;
    const auto flip = static_cast<std::int8_t>(run.flip);
    for (int g = 0; g < run.groups; ++g)
        for (std::int64_t b = 0; b < run.blocks; ++b)
            for (int i = 0; i < run.inputs; ++i) {
                std::uint64_t word = 0;
                for (int s = 0; s < kBlock; ++s) {
                    const std::int64_t at = run.spectrum_rows[first + b * kBlock + s] +
                                            run.channel_rows[g * group_channels] + run.input_rows[i];
                    word |= std::uint64_t{run.present[at] != 0} << s;
                }
                valid[g * row_words + b * run.inputs + i] = word;
            }
    for (int c = 0; c < run.channels; ++c)
        for (std::int64_t b = 0; b < run.blocks; ++b) {
            const std::uint8_t* at[kBlock];  // of each spectrum
            for (int s = 0; s < kBlock; ++s) {
                const std::int64_t t = first + b * kBlock + s;
                at[s] = run.packets + (run.spectrum_rows[t] + run.channel_rows[c]) * run.pitch + run.spectrum_bytes[t] +
                        run.channel_bytes[c];
            }
            const std::uint64_t* words = valid + c / group_channels * row_words + b * run.inputs;
            std::int8_t* rows = data + (c * row_words + b * run.inputs) * kRowBytes;
            for (int i = 0; i < run.inputs;) {
                const std::int64_t offset = run.input_rows[i] * run.pitch + run.input_bytes[i];
                int n = 1;  // inputs that lie side by side
                while (sample == 1 && n < 8 && i + n < run.inputs && run.input_rows[i + n] == run.input_rows[i] &&
                       run.input_bytes[i + n] == run.input_bytes[i] + n)
                    ++n;
                for (int s = 0; s < kBlock; s += kRowGroup) {
                    Bytes v[8];
                    if (n == 8) {
                        for (int k = 0; k < 16; ++k)
                            std::memcpy(reinterpret_cast<char*>(v) + 8 * k, at[s + k] + offset, 8);
                        transpose(v);
                    } else {
                        n = 1;
                        for (int k = 0; k < 16; ++k) {
                            const std::uint8_t* from = at[s + k] + offset;
                            v[0][k] = static_cast<std::int8_t>(from[0]);
                            if (sample == 2) v[1][k] = static_cast<std::int8_t>(from[1]);
                        }
                    }
                    for (int j = 0; j < n; ++j) {
                        Bytes high = v[j] ^ flip, low;
                        if (sample == 1) {
                            low = ((high & 15) ^ 8) - 8;
                            high = high >> 4;
                        } else {
                            low = v[1] ^ flip;
                        }
                        finish.store(high, low, words[i + j] >> s, run.conjugated[i + j],
                                     rows + std::int64_t{i + j} * kRowBytes + row_place(s, 0));
                    }
                }
                i += n;
            }
        }
    return finish.clamped;
}

}  // namespace ryle::correlate
