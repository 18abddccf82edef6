// Which tiles a block works on, in which order, and how their rows of samples come into shared memory.
#pragma once
#include "whole_shape.cuh"

namespace ryle::whole {

// Steps of a run of tiles, one after the other; one thread goes through the passes, which windows.cu has made.
struct Steps {
    const Pass* passes;  // [unit][MOST_PASSES]
    int place, within;   // the pass of the next step, and the tile of it
    int end;             // tile after the last

    DEVICE void begin(const Pass* passes, int first, int end) {
        this->passes = passes;
        this->end = end;
        place = first / TILES * MOST_PASSES;
        within = 0;
        if (first >= end) return;
        while (passes[place].first + passes[place].tiles <= first) place = passes[place].next(place);
        within = first - passes[place].first;
    }
    OUT_OF_LINE void next(Step& step) {
        step.any = 0;
        step.tile = end;
        if (place >= (end + TILES - 1) / TILES * MOST_PASSES) return;
        const Pass& pass = passes[place];
        const int tile = pass.first + within;
        if (tile >= end) return;
        const int64_t bit = (pass.start + int64_t(within) * TILE * 2 * CHANNELS) * BITS;
        step.word = bit >> 5;
        step.shift = int(bit & 31);
        step.stream = pass.stream;
        step.tile = tile;
        step.wanted = pass.wanted[within];
        step.last = 1;
        step.any = 1;
        if (++within == pass.tiles) {
            const int after = pass.next(place);
            step.last = pass.left == 0 || passes[after].first != tile;
            place = after;
            within = 0;
        }
    }
};

// Whether a step's first rows are the last ones of the step before.
DEVICE bool goes_on(const Step& before, const Step& step) {
    return before.stream == step.stream && before.shift == step.shift && before.word + TILE * ROW_WORDS == step.word;
}

struct Rows {
    const void* samples;    // uint8 [stream][stride]; or const uint8* [stream][packets]
    int64_t stride, bytes;  // of a stream: distance (in packets with POINTERS) and size
    uint32_t* raw;          // shared [2][TILE][LEGS][LEG_PITCH]

    // Begin to fetch 16 rows of a step from number `first` on into a group: each warp one. What does not exist is read
    // by no spectrum that is wanted, and may be anything.
    DEVICE void fetch(const Step& step, int first, int group) const {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        const int64_t word = step.word + int64_t(first + warp) * ROW_WORDS;
        uint32_t* to = raw + group * GROUP_WORDS + warp * ROW_PITCH;
        if (!POINTERS && step.word >= 0 && (step.word + int64_t(2 * TILE + 1) * ROW_WORDS) * 4 <= bytes) {
            const uint8_t* from = static_cast<const uint8_t*>(samples) + step.stream * stride + (word + lane) * 4;
#pragma unroll
            for (int j = 0; j < LEG_WORDS; ++j) copy_async_if<4>(true, to + place_of(j, lane), from + 128 * j);
            copy_async_if<4>(true, to + place_of(LEG_WORDS, lane), from + ((lane + 1) * LEG_WORDS - lane) * 4);
        } else {
#pragma unroll 1
            for (int j = 0; j <= LEG_WORDS; ++j)
                copy(step.stream, word + (j < LEG_WORDS ? 32 * j + lane : (lane + 1) * LEG_WORDS),
                     to + place_of(j, lane));
        }
    }
    // The words of all legs, 32 at a time; then once more the first of each but the first.
    static DEVICE int place_of(int j, int lane) {
        if (j == LEG_WORDS) return lane * LEG_PITCH + LEG_WORDS;
        return 32 * j + lane + 32 * j / LEG_WORDS + (lane + 32 * j % LEG_WORDS) / LEG_WORDS;
    }
    DEVICE void copy(int stream, int64_t word, uint32_t* to) const {
        const int64_t at = word * 4;
        bool there = at >= 0 && at < bytes;
        const uint8_t* from = static_cast<const uint8_t*>(samples) + stream * stride + at;
        if constexpr (POINTERS) {
            const uint32_t packet = uint32_t(there ? at : 0) / PACKET_BYTES;
            const auto* table = static_cast<const unsigned long long*>(samples);
            const auto* payload = reinterpret_cast<const uint8_t*>(__ldg(table + stream * stride + packet));
            there = there && payload;
            from = payload + (uint32_t(at) - packet * PACKET_BYTES);
        }
        copy_async_if<4>(there, to, from);
    }
};

}  // namespace ryle::whole
