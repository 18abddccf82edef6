// Others' packets and F-heaps to K-blocks (chunk.h): the CPU form of packets.cu.
#include "packets.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "chunk.h"

namespace ryle::correlate {
namespace {

typedef std::int8_t Bytes __attribute__((vector_size(16)));
typedef std::int64_t Words __attribute__((vector_size(16)));

Bytes low_half(Bytes a, Bytes b) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
Bytes high_half(Bytes a, Bytes b) {
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
Bytes even(Bytes a, Bytes b) {
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
Bytes odd(Bytes a, Bytes b) {
    return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
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

// One bit for each of 16 bytes that are 0 or -1.
std::uint64_t bits(Bytes bytes) {
    std::uint64_t half[2];
    std::memcpy(half, &bytes, sizeof half);
    for (std::uint64_t& h : half) h = (h & 0x0101010101010101u) * 0x0102040810204080u >> 56;
    return half[0] | half[1] << 8;
}

bool any(Bytes bytes) {
    std::uint64_t half[2];
    std::memcpy(half, &bytes, sizeof half);
    return half[0] | half[1];
}

// Inputs that lie side by side are read together, 16 spectra at a time: the first byte of each sample, and the second
// if it has two.

// Any one input.
template <int SampleBytes>
struct Single {
    static constexpr int inputs = 1, sample = SampleBytes;

    static void load(const std::uint8_t* from, const std::int64_t* at, Bytes* first, Bytes* second) {
        for (int k = 0; k < kRowGroup; ++k) {
            first[0][k] = static_cast<std::int8_t>(from[at[k]]);
            if (sample == 2) second[0][k] = static_cast<std::int8_t>(from[at[k] + 1]);
        }
    }
};

// Eight of four bits, wherever their spectra lie.
struct Eight {
    static constexpr int inputs = 8, sample = 1;

    static void load(const std::uint8_t* from, const std::int64_t* at, Bytes (&first)[8], Bytes*) {
        for (int k = 0; k < kRowGroup; ++k) std::memcpy(reinterpret_cast<char*>(first) + 8 * k, from + at[k], 8);
        transpose(first);
    }
};

// One input, or two, behind whose samples those of the next spectrum lie, of at least 8 of them: heaps are so.
template <int Inputs, int SampleBytes>
struct Following {
    static constexpr int inputs = Inputs, sample = SampleBytes;

    static void load(const std::uint8_t* from, const std::int64_t* at, Bytes* first, Bytes* second) {
        constexpr int half = 8 * inputs * sample;
        Bytes all[inputs * sample], high[inputs], low[inputs] = {};
        for (int n = 0; n < inputs * sample; ++n) {
            if constexpr (half >= 16) {
                std::memcpy(&all[n], from + at[16 * n / half * 8] + 16 * n % half, sizeof all[n]);
            } else {
                std::int64_t early, late;
                std::memcpy(&early, from + at[0], sizeof early);
                std::memcpy(&late, from + at[8], sizeof late);
                all[n] = (Bytes)Words{early, late};
            }
        }
        for (int n = 0; n < inputs; ++n) {
            if constexpr (sample == 2) {
                high[n] = even(all[2 * n], all[2 * n + 1]);
                low[n] = odd(all[2 * n], all[2 * n + 1]);
            } else {
                high[n] = all[n];
            }
        }
        if constexpr (inputs == 2) {
            first[0] = even(high[0], high[1]);
            first[1] = odd(high[0], high[1]);
            second[0] = even(low[0], low[1]);
            second[1] = odd(low[0], low[1]);
        } else {
            first[0] = high[0];
            second[0] = low[0];
        }
    }
};

// What every sample of a run has in common.
struct Kind {
    std::int8_t lowest, flip;
    bool swapped;
};

// 64 spectra of what `Read` reads at a time, to that many rows, in two's complement. The lowest value, which has no
// negative, becomes the one above it; how many valid parts had it.
template <class Read>
std::uint64_t unpack_rows(const std::uint8_t* from, const std::int64_t* at, const std::uint64_t* valid,
                          const std::uint8_t* conjugated, std::int8_t* rows, Kind kind) {
    Bytes low[kBlock / kRowGroup][Read::inputs][2], found = {};  // -1 where it is
    for (int s = 0; s < kBlock; s += kRowGroup) {
        Bytes first[Read::inputs], second[Read::inputs];
        Read::load(from, at + s, first, second);
        for (int j = 0; j < Read::inputs; ++j) {
            const Bytes high = first[j] ^ kind.flip;
            Bytes one, other;
            if constexpr (Read::sample == 1) {
                one = high >> 4;
                other = ((high & 15) ^ 8) - 8;
            } else {
                one = high;
                other = second[j] ^ kind.flip;
            }
            const Bytes is[2] = {one == kind.lowest, other == kind.lowest};
            low[s / kRowGroup][j][0] = is[0];
            low[s / kRowGroup][j][1] = is[1];
            found |= is[0] | is[1];
            one -= is[0];
            other -= is[1];
            if (conjugated[j]) (kind.swapped ? one : other) = -(kind.swapped ? one : other);
            std::int8_t* const row = rows + j * kRowBytes + row_place(s, 0);
            std::memcpy(row + (kind.swapped ? kRowGroup : 0), &one, sizeof one);
            std::memcpy(row + (kind.swapped ? 0 : kRowGroup), &other, sizeof other);
        }
    }
    std::uint64_t count = 0;
    if (any(found))
        for (int s = 0; s < kBlock; s += kRowGroup)
            for (int j = 0; j < Read::inputs; ++j)
                for (const Bytes& is : low[s / kRowGroup][j]) count += std::popcount(bits(is) & valid[j] >> s);
    return count;
}

// How far a block's spectra lie apart within each run of 8; 0 if that differs.
std::int64_t step_of(const std::int64_t* at) {
    for (int s = 0; s < kBlock; ++s)
        if (s % 8 && at[s] - at[s - 1] != at[1] - at[0]) return 0;
    return at[1] - at[0];
}

template <int SampleBytes>
std::uint64_t unpack(const PacketRun& run, std::int8_t* data) {
    const std::int64_t row_words = std::int64_t{run.blocks} * run.inputs;
    const int group_channels = run.channels / run.groups;
    const Kind kind{static_cast<std::int8_t>(run.bits == 4 ? -8 : -128), static_cast<std::int8_t>(run.flip),
                    run.swapped};
    std::uint64_t clamped = 0;
    std::vector<int> beside(run.inputs, 1);  // how many inputs, from each on, lie side by side
    for (int i = run.inputs - 2; i >= 0; --i)
        if (run.input[i + 1] - run.input[i] == SampleBytes) beside[i] = beside[i + 1] + 1;
    std::vector<std::int64_t> steps(run.blocks);
    for (int b = 0; b < run.blocks; ++b) steps[b] = step_of(run.spectrum + b * kBlock);
    for (int c = 0; c < run.channels; ++c)
        for (std::int64_t b = 0; b < run.blocks; ++b) {
            const std::int64_t* const at = run.spectrum + b * kBlock;
            const std::uint64_t* words = run.valid + c / group_channels * row_words + b * run.inputs;
            std::int8_t* rows = data + (c * row_words + b * run.inputs) * kRowBytes;
            for (int i = 0, n; i < run.inputs; i += n) {
                auto* unpack_some = unpack_rows<Single<SampleBytes>>;
                n = 1;
                if (steps[b] == 2 * SampleBytes && beside[i] >= 2) {
                    unpack_some = unpack_rows<Following<2, SampleBytes>>;
                    n = 2;
                } else if (steps[b] == SampleBytes) {
                    unpack_some = unpack_rows<Following<1, SampleBytes>>;
                } else if (SampleBytes == 1 && beside[i] >= 8) {
                    unpack_some = unpack_rows<Eight>;
                    n = 8;
                }
                clamped += unpack_some(run.packets + run.channel[c] + run.input[i], at, words + i, run.conjugated + i,
                                       rows + std::int64_t{i} * kRowBytes, kind);
            }
        }
    return clamped;
}

}  // namespace

std::uint64_t unpack_packets(const PacketRun& run, std::int8_t* data) {
    return run.bits == 4 ? unpack<1>(run, data) : unpack<2>(run, data);
}

}  // namespace ryle::correlate
