// What a team of the transform does after what, and where its tiles come from: memory, or rings.
#pragma once
#include "ring.cuh"
#include "ryle/gpu/device.cuh"
#include "transform_shape.cuh"

namespace ryle::fft {

// What the transform is given.
struct Given {
    const float2* turns;    // [P][LAST/2]: of a butterfly's inputs, as dft_of_turned takes them
    const float2* mirror;   // [CHANNELS] -j e^{-jπc/n}: [row][i][h][p][2], see by_butterfly in cuda_tables.py
    const float2* gains;    // [stream][CHANNELS] in the same order, times 1/2 for real samples, over the weights' scale
    const float4* spectra;  // [stream·groups·8][32]: 16 times Spectrum, see windows.cu
    unsigned long long* output_power;  // [stream][CHANNELS] sum of squares of quantized values
    unsigned long long* counters;      // [stream][2]: first, complex values clamped
    int groups, first_group;           // of each stream: all; the first of this launch
    int before;                        // group 0 starts with this number among the spectra wanted
    uint64_t first_index;              // of the first spectrum wanted, since sync
};

// A tile and how it comes.
struct Item {
    const float2* at;      // where it lies
    const void* from[3];   // its two rows, and what is to be known of the spectra
    const uint32_t* wait;  // what must come to `until` first, if the tile is still being made
    uint32_t until;
    uint32_t* read;    // what is to be counted up when it has been read
    int stream;        // or -1: there is nothing left to do
    int number, pair;  // of the tile, among those of this launch of its stream; of its rows
    int member;        // of TOGETHER streams that a team takes one after the other
    int last;          // whether other channels or another group follow
};
DEVICE int image_row(int pair) { return pair ? ROWS - pair : ROWS / 2; }

// Tiles that lie in memory, all of them. A team takes items that follow one another: the tiles of a group, whose power
// it can add up by itself, of one pair of rows after the other, so that all teams have their share of pair 0, which
// takes longer.
struct FromSlab {
    Slab slab;
    int groups;  // of this launch, of each stream
    int number, end;

    DEVICE void begin(int streams, int team, int teams) {
        const int64_t items = int64_t(groups) * TILES * (ROWS / 2) * (streams / TOGETHER);
        number = int(items * team / teams);
        end = int(items * (team + 1) / teams);
    }
    DEVICE bool any() const { return number < end; }
    DEVICE void next() { ++number; }
    DEVICE Item item(int member) const {
        const int unit = number / (TILES * (ROWS / 2)), tile = number % TILES, pair = number / TILES % (ROWS / 2);
        const int stream = unit / groups * TOGETHER + member, group = unit % groups;
        const int last = tile == TILES - 1 || number + 1 == end;
        return {slab.at(stream * groups + group, tile * TILE),
                {},
                nullptr,
                0,
                nullptr,
                stream,
                group * TILES + tile,
                pair,
                member,
                last};
    }
    static DEVICE void wait(const Item&) {}
    static DEVICE void was_read(const Item&) {}
};

#ifdef DEPTH
// Tiles that come through rings, in the order of their march. Some teams share the items of a march, or of TOGETHER
// marches side by side, which are numbered by tiles and pairs of rows; each has one pair if there are as many teams.
struct FromRing {
    Ring ring;
    int groups;
    int march;  // the first of TOGETHER
    int number, end, step;

    DEVICE void begin(int streams, int team, int teams) {
        const int sets = ring.marches / TOGETHER, most = teams / sets, marches = ring.marches;
        step = most >= ROWS / 2 ? most / (ROWS / 2) * (ROWS / 2) : most;
        march = team / most * TOGETHER;
        number = team % most;
        const int units = march < marches && number < step ? (groups * streams - march + marches - 1) / marches : 0;
        end = units * TILES * (ROWS / 2);
    }
    DEVICE bool any() const { return number < end; }
    DEVICE void next() { number += step; }
    DEVICE Item item(int member) const {
        const int tile = number / (ROWS / 2), pair = number % (ROWS / 2), after = number + step;
        const int unit =
            (tile / TILES * ring.marches + march) / TOGETHER;  // by groups, of TOGETHER streams side by side
        const int last = after >= end || after / (ROWS / 2) / TILES != tile / TILES || after % (ROWS / 2) != pair;
        const Ring::Place place = ring.place(march + member, tile / HALVES);
        return {ring.at(place.index) + tile % HALVES * (CHANNELS * TILE),
                {},
                (MIDDLE > 1 ? ring.turned : ring.written) + place.index,
                (place.turn + 1) * (CHANNELS / FILTER_THREADS),
                ring.read + place.index,
                unit / groups * TOGETHER + member,
                unit % groups * TILES + tile % TILES,
                pair,
                member,
                last};
    }
    // Wait until a tile has been written, as the copy engine then sees, too.
    static OUT_OF_LINE void wait(const Item& item) {
        wait_for(item.wait, item.until);
        show_copy_engine();
    }
    static DEVICE void was_read(const Item& item) { count_one(item.read); }
};
#endif

// What a team does and is to do, in shared memory, as registers are few; one thread sees to it.
template <class Source>
struct Todo {
    Given given;
    Source source;  // at the item that is described next
    int member;
    Item item[2];  // by turns

    OUT_OF_LINE void describe(int turn) {
        Item next = {};
        next.stream = -1;
        if (source.any()) next = source.item(member);
        auto row = [&](int k) { return next.at + (k % RADIX * MIDDLE + k / RADIX) * (POINTS * TILE); };
        const int64_t number =
            int64_t(next.stream * given.groups + given.first_group) * ryle::TILES + next.number / HALVES;
        next.from[0] = row(next.pair);
        next.from[1] = row(image_row(next.pair));
        next.from[2] = given.spectra + number * (ryle::TILE * 2);
        item[turn] = next;
        if (++member < TOGETHER) return;
        member = 0;
        source.next();
    }
};

}  // namespace ryle::fft
