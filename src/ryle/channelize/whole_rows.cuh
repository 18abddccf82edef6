// Which tiles a block works on, in which order, and how their rows of samples come into shared memory.
#pragma once
#include "whole_shape.cuh"

namespace ryle::whole {

// Where samples are.
struct Samples {
    const void* at;         // uint8 [stream][stride]; or const uint8* [stream][packets]
    int64_t stride, bytes;  // of a stream: distance (in packets with POINTERS) and size

    // Begin to copy the word at byte `byte` of a stream; zero where there is none.
    DEVICE void copy(int stream, int64_t byte, uint32_t* to) const {
        bool there = byte >= 0 && byte < bytes;
        const uint8_t* from = static_cast<const uint8_t*>(at) + stream * stride + byte;
        if constexpr (POINTERS) {
            const uint32_t packet = uint32_t(there ? byte : 0) / PACKET_BYTES;
            const auto* table = static_cast<const unsigned long long*>(at);
            const auto* payload = reinterpret_cast<const uint8_t*>(__ldg(table + stream * stride + packet));
            there = there && payload;
            from = payload + (uint32_t(byte) - packet * PACKET_BYTES);
        }
        copy_async_if<4>(there, to, from);
    }
};

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
    OUT_OF_LINE void next(Step& step, const Step* before, Samples samples) {
        step.any = 0;
        step.other = 1;
        step.goes_on = 0;
        step.tile = end;
        if (place >= (end + TILES - 1) / TILES * MOST_PASSES) return;
        const Pass& pass = passes[place];
        const int tile = pass.first + within;
        if (tile >= end) return;
        const int64_t bit = (pass.start + int64_t(within) * TILE * 2 * CHANNELS) * BITS, word = bit >> 5;
        step.word = word;
        step.shift = int(bit & 31);
        step.stream = pass.stream;
        step.tile = tile;
        step.wanted = pass.wanted[within];
        step.last = 1;
        step.any = 1;
        step.from = static_cast<const uint8_t*>(samples.at) + pass.stream * samples.stride + word * 4;
        step.inside = !POINTERS && word >= 0 && (word + int64_t(2 * TILE + 1) * ROW_WORDS) * 4 <= samples.bytes;
        if (before && before->stream == step.stream) {
            step.other = 0;
            step.goes_on = before->shift == step.shift && before->word + TILE * ROW_WORDS == word;
        }
        if (++within == pass.tiles) {
            const int after = pass.next(place);
            step.last = pass.left == 0 || passes[after].first != tile;
            place = after;
            within = 0;
        }
    }
};

// Begin to fetch part PART of PARTS of 16 rows of a step, from number `first` on, into a group of shared memory `raw`
// [2][TILE][LEGS][LEG_PITCH]; each warp one row. What does not exist is read by no spectrum that is wanted, and may be
// anything.
//
// Four lanes have neighbouring words of a leg, eight such fours a leg each: so a lane's words are at fixed distances.
template <int PART, int PARTS>
DEVICE void fetch(const Samples& samples, const Step& step, int first, int group, uint32_t* raw) {
    constexpr int FOURS = (LEG_WORDS + 3) / 4, EACH = FOURS * (LEGS / 8);  // and a word more: the next leg's first
    constexpr int BEGIN = PART * EACH / PARTS, END = (PART + 1) * EACH / PARTS + (PART == PARTS - 1);
    const uint32_t thread = thread_anew(), warp = thread / 32, lane = thread % 32, leg = lane / 4, of_leg = lane % 4;
    // Words of a row, and their places in shared memory, are counted from the first of this lane.
    const uint32_t row = first + warp, word = leg * LEG_WORDS + of_leg, next_leg = (lane + 1) * LEG_WORDS;
    uint32_t* place = raw + group * GROUP_WORDS + warp * ROW_PITCH + leg * LEG_PITCH + of_leg;
    uint32_t* behind_leg = raw + group * GROUP_WORDS + warp * ROW_PITCH + lane * LEG_PITCH + LEG_WORDS;
    auto inside_leg = [&](int j) { return j % FOURS * 4 + 3 < LEG_WORDS || j % FOURS * 4 + of_leg < LEG_WORDS; };
    if (step.inside) {
        const uint8_t* from = step.from + (row * ROW_WORDS + word) * 4;
#pragma unroll
        for (int j = BEGIN; j < END; ++j)
            if (j < EACH)
                copy_async_if<4>(inside_leg(j), place + j / FOURS * 8 * LEG_PITCH + j % FOURS * 4,
                                 from + (j / FOURS * 8 * LEG_WORDS + j % FOURS * 4) * 4);
            else
                copy_async_if<4>(true, behind_leg, step.from + (row * ROW_WORDS + next_leg) * 4);
    } else {
        const int64_t begin = step.word + int64_t(row) * ROW_WORDS;
#pragma unroll 1
        for (int j = BEGIN; j < END; ++j)
            if (j == EACH)
                samples.copy(step.stream, (begin + next_leg) * 4, behind_leg);
            else if (inside_leg(j))
                samples.copy(step.stream, (begin + word + j / FOURS * 8 * LEG_WORDS + j % FOURS * 4) * 4,
                             place + j / FOURS * 8 * LEG_PITCH + j % FOURS * 4);
    }
}

}  // namespace ryle::whole
