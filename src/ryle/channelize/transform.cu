// Last part of the channelizer: the rest of the Fourier transform, and all that follows it: from the transform of pairs
// of real samples to that of real samples, delay and phase, gains, dither, quantization, saturation count, output power
// and the transposition to the layout asked for.
//
// What comes is ROWS rows of POINTS points; row k becomes the channels k + ROWS·k2. A block takes rows k and ROWS - k
// of TILE spectra, so that every channel c meets its mirror image n - c: in the last pass a thread owns LAST channels
// of one row and their images in the other, of WIDE neighbouring spectra, and needs nobody else's values. Four channels
// n/4 apart share a call of the dither's generator and lie in one butterfly.
//
// Rows 0 and ROWS/2 are their own images: there a thread owns two butterflies of one row. Butterflies 0 and P/2 of row
// 0 mirror themselves; these two (EDGE) are put aside and finished value by value.
//
// Of rows that are too long for two passes, one more lies between these, and a block takes half a tile's spectra at a
// time; it stores them together.
//
// Of heaps, a block takes TOGETHER inputs one after the other, the polarizations of an antenna, whose values lie side
// by side there: what it stores is whole sectors.
#include "quantize.cuh"
#include "ryle/gpu/device.cuh"
#include "second_pass.cuh"
#include "store.cuh"
#include "transform_shape.cuh"

using namespace ryle;

static_assert(Z_BYTES + TOGETHER * (OUT_BYTES + SUM_BYTES) + EDGE_BYTES + 2 * SPECTRA_BYTES + 16 == SHARED,
              "the host's plan and the kernel differ");

KERNEL(THREADS, BLOCKS_PER_SM)
transform(const float2* __restrict__ y,      // [stream·slab·128/TILE][TILE/SIDE][RADIX][MIDDLE][POINTS][SIDE]: row k1 +
                                             // RADIX·k2 at (k1, k2)
          const float2* __restrict__ turns,  // [P][LAST/2]: of a butterfly's inputs, as dft_of_turned takes them; then
                                             // [FIRST][SECOND/2] of the second pass's
          const float2* __restrict__ mirror,   // [CHANNELS] -j e^{-jπc/n}: [row][i][h][p][2], see by_butterfly in
                                               // cuda_tables.py
          const float2* __restrict__ gains,    // [stream][CHANNELS] in the same order, times 1/2 for real samples, over
                                               // the weights' scale
          const float4* __restrict__ spectra,  // [stream·groups·8][32]: 16 times Spectrum, see windows.cu
          void* __restrict__ out,              // K-blocks or rows, heaps, or complex float [stream][spectrum][CHANNELS]
          void* __restrict__ own,  // with OWN, where channels [own_first, own_end) of rows go in place of `out`
          unsigned long long* __restrict__ output_power,       // [stream][CHANNELS] sum of squares of quantized values
          unsigned long long* __restrict__ counters,           // [stream][2]: first, complex values clamped
          int groups, int first_group, int slab, int streams,  // groups of each stream: all; those of this launch
          int before, int count,  // group 0 starts with number `before` of `count` spectra wanted
          int heap, int pols,     // spectra of a heap, polarizations of an antenna
          int64_t channel_bytes, int64_t block_bytes, int64_t antenna_bytes,  // between rows of 64 spectra
          int own_first, int own_end, int64_t own_block_bytes, int64_t own_antenna_bytes,
          uint64_t key_0,  // of the dither's first round
          uint32_t first_low, uint32_t first_high, int first_input) {
    SHARED_BYTES(shared);
    float2* z = reinterpret_cast<float2*>(shared);  // [2][POINTS][SIDE]
    uint8_t* all_staged = shared + Z_BYTES;         // [TOGETHER][2 POINTS][2: re, im][TILE]
    uint32_t* all_sums =
        reinterpret_cast<uint32_t*>(all_staged + TOGETHER * OUT_BYTES);  // [TOGETHER][2 POINTS][2: re, im] of a group
    float2* edge = reinterpret_cast<float2*>(all_staged + TOGETHER * (OUT_BYTES + SUM_BYTES));  // [2][LAST][SIDE]
    uint8_t* described = reinterpret_cast<uint8_t*>(edge) + EDGE_BYTES;  // [2: by turns][TILE] Spectrum
    uint64_t* arrival = reinterpret_cast<uint64_t*>(described + 2 * SPECTRA_BYTES);
    const Destination to = {out, count,     pols,    channel_bytes,   block_bytes,       antenna_bytes,
                            own, own_first, own_end, own_block_bytes, own_antenna_bytes, heap};
    const DitherKeys keys = {RoundKeys::following(key_0), first_input};
    const int tid = threadIdx.x;
    const int tiles = slab * TILES, items = tiles * (ROWS / 2) * (streams / TOGETHER);

    // Tile, pair of rows and stream, the first of TOGETHER. A block takes items that follow one another: the tiles of a
    // group, whose power it can add up by itself, of one pair of rows after the other, so that all blocks have their
    // share of pair 0, which takes longer.
    struct Item {
        int tile, pair, stream;
    };
    const int begin = int(int64_t(items) * blockIdx.x / gridDim.x),
              end = int(int64_t(items) * (blockIdx.x + 1) / gridDim.x);
    const int begin_group = begin / (TILES * (ROWS / 2));
    Item item = {begin_group % slab * TILES + begin % TILES, begin / TILES % (ROWS / 2), begin_group / slab * TOGETHER};
    auto image_row = [&](int pair) { return pair ? ROWS - pair : ROWS / 2; };
    uint32_t parity = 0;
    auto prefetch = [&](const Item& item, int stream, int side, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
        if (tid > 0) return;  // one thread starts the copy engine
#endif
        const float2* from = y + (int64_t(stream) * tiles + item.tile) * (CHANNELS * TILE) + side * (CHANNELS * SIDE);
        auto row = [&](int k) { return from + (k % RADIX * MIDDLE + k / RADIX) * (POINTS * SIDE); };
        const float4* of = spectra + (int64_t(stream * groups + first_group) * TILES + item.tile) * (TILE * 2);
        fill<3>({z, z + POINTS * SIDE, described + parity * SPECTRA_BYTES},
                {row(item.pair), row(image_row(item.pair)), of}, {Z_BYTES / 2, Z_BYTES / 2, SPECTRA_BYTES}, arrival);
    };
    fill_init(arrival);
    for (int i = tid; i < TOGETHER * 4 * POINTS; i += THREADS) all_sums[i] = 0;
    __syncthreads();
    if (begin < end) prefetch(item, item.stream, 0, parity);

#pragma unroll 1
    for (int number = begin * STEPS; number < end * STEPS; ++number) {
        const int member = number / SIDES % TOGETHER, side = number % SIDES;
        Tile tile;
        tile.stream = item.stream + member;
        tile.pair = item.pair;
        tile.image = image_row(item.pair);
        tile.first = before + first_group * GROUP + item.tile * TILE;
        tile.first_index = (uint64_t(first_high) << 32 | first_low) + uint64_t(int64_t(tile.first));
        tile.spectra = reinterpret_cast<const float4*>(described + parity * SPECTRA_BYTES);
        tile.gains = gains + tile.stream * CHANNELS;
        tile.staged = all_staged + member * OUT_BYTES;
        fill_wait(arrival, parity);
        parity ^= 1;
        Item next = item;  // behind all of TOGETHER
        if (++next.tile % TILES == 0) {
            next.tile -= TILES;
            if (++next.pair == ROWS / 2) {
                next.pair = 0;
                next.tile += TILES;
                if (next.tile == tiles) {
                    next.tile = 0;
                    next.stream += TOGETHER;
                }
            }
        }
        const bool last_member = member == TOGETHER - 1, last_side = side == SIDES - 1;

        if constexpr (FIRST > 1) {
            constexpr int W = FIRST <= 16 ? 2 : 1;
#pragma unroll 1
            for (int task = tid; task < 2 * APART * (SIDE / W); task += THREADS) {
                const int s = task % (SIDE / W) * W, a = task / (SIDE / W) % APART, row = task / (SIDE / W) / APART;
                float2* at = z + (row * POINTS + a) * SIDE + s;
                float2 v[W][FIRST];
#pragma unroll
                for (int b = 0; b < FIRST; ++b) read_point(v, b, at + b * (APART * SIDE));
#pragma unroll
                for (int w = 0; w < W; ++w) dft(v[w]);
#pragma unroll
                for (int b = 0; b < FIRST; ++b) write_point(v, b, at + b * (APART * SIDE));
            }
            __syncthreads();
        }
        if constexpr (SECOND > 1) {
            second_pass<(SECOND > 1 ? SECOND : 2)>(z, turns + P * (LAST / 2));
            __syncthreads();
        }

        // Two butterflies (row, p) of outputs p + P·j. The second's output LAST-1-j is the image of the first's output
        // j.
        // Neighbouring lanes have every second spectrum, as they lie in `spectra`: in order they would share banks.
        const int at_side = SIDE == TILE ? tid % 8 * 2 + (WIDE == 1 ? tid / 8 % 2 : 0) : tid % LANES * WIDE,
                  s = side * SIDE + at_side, index = tid / LANES;
        static_assert(TILE == 16);
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
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int a = 0; a < LAST; ++a)
                read_point(v[half], a, z + (row[half] * POINTS + point_of(p[half], a)) * SIDE + at_side);
        __syncthreads();
        if (!last_side)
            prefetch(item, tile.stream, side + 1, parity);
        else if (!last_member)
            prefetch(item, tile.stream + 1, 0, parity);
        else if (number + 1 < end * STEPS)
            prefetch(next, next.stream, 0, parity);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float2 of_inputs[LAST / 2];
            if constexpr (FIRST > 1) read_table(of_inputs, turns + p[half] * (LAST / 2));
#pragma unroll
            for (int w = 0; w < WIDE; ++w) {
                if constexpr (FIRST > 1)
                    dft_of_turned<LAST, LAST>(v[half][w], of_inputs);
                else
                    dft(v[half][w]);
            }
        }

        int over = 0;
        if (index < P && edges) {
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
                for (int j = 0; j < LAST; ++j) write_point(v[half], j, edge + (half * LAST + j) * SIDE + at_side);
        } else if (index < P) {
            const Butterfly both[2] = {butterfly_of(tile, row[0], p[0], s), butterfly_of(tile, row[1], p[1], s)};
            unrolled<Q>([&](auto round) {
                finish_round<round.value>(v, both, s, tile, mirror, keys, static_cast<float2*>(out), count, over);
            });
        }
        __syncthreads();

        if (tile.pair == 0) {
            finish_edges(edge, side * SIDE, tile, mirror, keys, static_cast<float2*>(out), count, over);
            __syncthreads();
        }
        if (__any_sync(~0u, over)) {
            over = __reduce_add_sync(~0u, over);
            if (tid % 32 == 0) atomicAdd(counters + tile.stream * 2, static_cast<unsigned long long>(over));
        }

        if (last_side) {
            const bool last_of_channels = next.pair != item.pair || next.stream != item.stream ||
                                          number + STEPS - SIDES * member - side == end * STEPS;
            store_tile(tile, to, all_sums + member * (4 * POINTS), output_power + tile.stream * CHANNELS,
                       last_of_channels);
            if constexpr (OUTPUT == TO_HEAPS) {
                if (!in_one_heap(tile, to))
                    store_values(tile, to);
                else if (last_member)
                    store_in_heap(tile, to, all_staged);
            }
        }
        if constexpr (FIRST == 1) __syncthreads();
        if (last_side && last_member) item = next;
    }
}
