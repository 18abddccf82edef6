// Last part of the channelizer: the rest of the Fourier transform, and all that follows it: from the transform of pairs
// of real samples to that of real samples, delay and phase, gains, dither, quantization, saturation count, output power
// and the transposition to the layout asked for.
//
// What comes is ROWS rows of POINTS points; row k becomes the channels k + ROWS·k2. A team takes rows k and ROWS - k
// of TILE spectra, so that every channel c meets its mirror image n - c: in the last pass a thread owns LAST channels
// of one row and their images in the other, of WIDE neighbouring spectra, and needs nobody else's values. Four channels
// n/4 apart share a call of the dither's generator and lie in one butterfly.
//
// Rows 0 and ROWS/2 are their own images: there a thread owns two butterflies of one row. Butterflies 0 and P/2 of row
// 0 mirror themselves; these two (EDGE) are put aside and finished value by value.
//
// Of heaps, a team takes TOGETHER inputs one after the other, the polarizations of an antenna, whose values lie side
// by side there: what it stores is whole sectors.
#pragma once
#include "quantize.cuh"
#include "ryle/gpu/device.cuh"
#include "store.cuh"
#include "tiles_in.cuh"

namespace ryle::fft {

// Begin to fetch a tile into the [2][POINTS][TILE] of `z`, and what is to be known of it, as soon as it is there.
template <class Source>
DEVICE void fetch_item(const Team& team, const Item& item, void* z, void* described, uint64_t* arrival) {
    Source::wait(item);
    fill<3>(team, {z, static_cast<uint8_t*>(z) + Z_BYTES / 2, described}, item.from,
            {Z_BYTES / 2, Z_BYTES / 2, SPECTRA_BYTES}, arrival);
}

// Transform the tiles of team `number` of `teams` and do all that follows. `shared`: SHARED bytes, 128-byte aligned,
// for this team alone.
template <class Source>
DEVICE void run(const Team& team, const Given& given, const Source& source, int streams, int number, int teams,
                const Destination& to, const DitherKeys& keys, unsigned char* shared) {
    float2* z = reinterpret_cast<float2*>(shared);  // [2][POINTS][TILE]
    uint8_t* all_staged = shared + Z_BYTES;         // [TOGETHER][2 POINTS][2: re, im][TILE]
    uint32_t* all_sums =
        reinterpret_cast<uint32_t*>(all_staged + TOGETHER * OUT_BYTES);  // [TOGETHER][2 POINTS][2: re, im] of a group
    float2* edge = reinterpret_cast<float2*>(all_staged + TOGETHER * (OUT_BYTES + SUM_BYTES));  // [2][LAST][TILE]
    uint8_t* described = reinterpret_cast<uint8_t*>(edge) + EDGE_BYTES;  // [2: by turns][16] Spectrum
    uint64_t* arrival = reinterpret_cast<uint64_t*>(described + 2 * SPECTRA_BYTES);
    const int tid = team.thread;
    auto* todo = reinterpret_cast<Todo<Source>*>(arrival + 2);
    static_assert(sizeof(*todo) <= TODO_BYTES);
    uint32_t parity = 0;
    // Begin to fetch the item of this turn; where the copy engine does it, one thread waits until it is there.
    auto fetch = [&] {
        if (todo->item[parity].stream < 0) return;
#if __CUDA_ARCH__ >= 900
        if (tid > 0) return;
#endif
        fetch_item<Source>(team, todo->item[parity], z, described + parity * SPECTRA_BYTES, arrival);
    };
    fill_init(team, arrival);
    for (int i = tid; i < TOGETHER * 4 * POINTS; i += THREADS) all_sums[i] = 0;
    if (tid == 0) {
        todo->given = given;
        todo->source = source;
        todo->source.begin(streams, number, teams);
        todo->member = 0;
        todo->describe(0);
    }
    sync(team);
    fetch();

#pragma unroll 1
    while (todo->item[parity].stream >= 0) {
        const Item& item = todo->item[parity];
        Tile tile;
        tile.stream = item.stream;
        tile.pair = item.pair;
        tile.image = image_row(item.pair);
        tile.first = given.before + given.first_group * GROUP + item.number * TILE;
        tile.first_index = given.first_index + uint64_t(int64_t(tile.first));
        tile.spectra = reinterpret_cast<const float4*>(described + parity * SPECTRA_BYTES) + item.number % HALVES * 4;
        tile.gains = given.gains + tile.stream * CHANNELS;
        tile.staged = all_staged + item.member * OUT_BYTES;
        fill_wait(team, arrival, parity);
        parity ^= 1;
        if (tid == 0) Source::was_read(item);

        if constexpr (FIRST > 1) {
            constexpr int W = FIRST <= 16 ? 2 : 1;
#pragma unroll 1
            for (int task = tid; task < 2 * LAST * (TILE / W); task += THREADS) {
                const int s = task % (TILE / W) * W, a = task / (TILE / W) % LAST, row = task / (TILE / W) / LAST;
                float2* at = z + (row * POINTS + a) * TILE + s;
                float2 v[W][FIRST];
#pragma unroll
                for (int b = 0; b < FIRST; ++b) read_point(v, b, at + b * (LAST * TILE));
#pragma unroll
                for (int w = 0; w < W; ++w) dft(v[w]);
#pragma unroll
                for (int b = 0; b < FIRST; ++b) write_point(v, b, at + b * (LAST * TILE));
            }
            sync(team);
        }
        // Now all threads are done with the item before, whose place this takes.
        if (tid == 0) todo->describe(parity);

        // Two butterflies (row, p) of outputs p + P·j. The second's output LAST-1-j is the image of the first's output
        // j.
        const int s = tid % LANES * WIDE, index = tid / LANES;
        int row[2] = {0, 1}, p[2] = {index, P - 1 - index};
        bool edges = false;
        if (tile.pair == 0) {
            if (index < P / 2) {
                row[0] = 1;
            } else {
                row[1] = 0;
                p[0] = index - P / 2;
                edges = p[0] == 0;
                p[1] = edges ? P / 2 : P - p[0];
                if (P == 1) row[1] = 1, p[1] = 0;
            }
        }
        if (index >= P) p[0] = p[1] = 0;  // nothing to do
        float2 v[2][WIDE][LAST];
#pragma unroll
        for (int side = 0; side < 2; ++side)
#pragma unroll
            for (int a = 0; a < LAST; ++a)
                read_point(v[side], a, z + ((row[side] * POINTS + p[side] * LAST) + a) * TILE + s);
        sync(team);
        fetch();
#pragma unroll
        for (int side = 0; side < 2; ++side) {
            float2 of_inputs[LAST / 2];
            if constexpr (FIRST > 1) read_table(of_inputs, given.turns + p[side] * (LAST / 2));
#pragma unroll
            for (int w = 0; w < WIDE; ++w) {
                if constexpr (FIRST > 1)
                    dft_of_turned<LAST, LAST>(v[side][w], of_inputs);
                else
                    dft(v[side][w]);
            }
        }

        int over = 0;
        if (index < P && edges) {
#pragma unroll
            for (int side = 0; side < 2; ++side)
#pragma unroll
                for (int j = 0; j < LAST; ++j) write_point(v[side], j, edge + (side * LAST + j) * TILE + s);
        } else if (index < P) {
            finish_butterflies(v, row, p, s, tile, given.mirror, keys, static_cast<float2*>(to.out), to.count, over);
        }
        sync(team);

        if (tile.pair == 0) {
            finish_edges(team, edge, tile, given.mirror, keys, static_cast<float2*>(to.out), to.count, over);
            sync(team);
        }
        if (__any_sync(~0u, over)) {
            over = __reduce_add_sync(~0u, over);
            if (tid % 32 == 0) atomicAdd(given.counters + tile.stream * 2, static_cast<unsigned long long>(over));
        }

        store_tile(team, tile, to, all_sums + item.member * (4 * POINTS), given.output_power + tile.stream * CHANNELS,
                   item.last);
        if constexpr (OUTPUT == TO_HEAPS) {
            if (!in_one_heap(tile, to))
                store_values(team, tile, to);
            else if (item.member == TOGETHER - 1)
                store_in_heap(team, tile, to, all_staged);
        }
        if constexpr (FIRST == 1) sync(team);
    }
}

}  // namespace ryle::fft
