// The last part of the channelizer as a kernel of its own; transform.cuh has all that it does.
#include "transform.cuh"

using namespace ryle;

KERNEL(TRANSFORM_THREADS, TRANSFORM_BLOCKS)
transform(const float2* __restrict__ y,  // [unit][TILES][RADIX][MIDDLE][POINTS][TILE]: row k1 + RADIX·k2 at (k1, k2)
          const float2* __restrict__ turns,    // [P][LAST/2]: of a butterfly's inputs, as dft_of_turned takes them
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
          int own_first, int own_end, int64_t own_block_bytes, int64_t own_antenna_bytes, uint32_t key0, uint32_t key1,
          uint64_t first_index, int first_input) {
    SHARED_BYTES(shared);
    const Team team = {int(threadIdx.x), TRANSFORM_THREADS, 1};
    fft::run(team, {turns, mirror, gains, spectra, output_power, counters, groups, first_group, before, first_index},
             fft::FromSlab{{const_cast<float2*>(y)}, slab}, streams, blockIdx.x, gridDim.x,
             {out, count, pols, channel_bytes, block_bytes, antenna_bytes, own, own_first, own_end, own_block_bytes,
              own_antenna_bytes, heap},
             {key0, key1, first_input}, shared);
}
