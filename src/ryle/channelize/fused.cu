// Both halves of the channelizer at once, without an intermediate array in the device's memory: of each block, some
// threads filter and the others transform, and tiles go from these to those through rings that stay in the L2 cache.
// All blocks must be on the device at the same time, as they wait for each other: the launch is a cooperative one.
#include "filter.cuh"
#include "transform.cuh"

using namespace ryle;

static_assert(MIDDLE == 1 || SIDE == TILE, "the pass between the halves takes 16 spectra");
static_assert(FILTER_TEAMS * FILTER_THREADS == TRANSFORM_THREADS, "a block is [2: filter, transform][threads]");

KERNEL(2 * TRANSFORM_THREADS, 1)
fused(const void* __restrict__ samples,         // uint8 [stream][stride]; or const uint8* [stream][packets]
      const float2* __restrict__ weights,       // [TAPS][CHANNELS] of the two values of a complex point
      const float2* __restrict__ radix_turns,   // [POINTS][RADIX] W_n^(point·k1)
      const Pass* __restrict__ passes,          // [unit][MOST_PASSES]
      const uint8_t* __restrict__ conjugated,   // [stream], for complex samples
      float2* y,                                // [march][DEPTH][RADIX][POINTS][TILE], the rings
      uint32_t* progress,                       // [3: written, turned, read][march][DEPTH], zeros
      const float2* __restrict__ middle_turns,  // [points of a row][MIDDLE] as in middle.cu
      const float2* __restrict__ turns,         // [P][LAST/2]: of a butterfly's inputs, as dft_of_turned takes them
      const float2* __restrict__ mirror,        // [CHANNELS] as in transform.cu
      const float2* __restrict__ gains,         // [stream][CHANNELS] in the same order
      const float4* __restrict__ spectra,       // [stream·groups·8][32]: 16 times Spectrum, see windows.cu
      void* __restrict__ out,  // K-blocks or rows, heaps, or complex float [stream][spectrum][CHANNELS]
      void* __restrict__ own,  // with OWN, where channels [own_first, own_end) of rows go
      unsigned long long* __restrict__ output_power,  // [stream][CHANNELS] sum of squares of quantized values
      fir::Power* __restrict__ counters,              // [stream][2]: complex values clamped, sum of squares of samples
      int64_t stride, int64_t bytes,                  // of a stream: distance (in packets with POINTERS) and size
      int groups, int streams, int marches, int before,
      int count,           // group 0 starts with number `before` of `count` spectra wanted
      int heap, int pols,  // spectra of a heap, polarizations of an antenna
      int64_t channel_bytes, int64_t block_bytes, int64_t antenna_bytes,  // between rows of 64 spectra
      int own_first, int own_end, int64_t own_block_bytes, int64_t own_antenna_bytes, uint32_t key0, uint32_t key1,
      uint64_t first_index, int first_input) {
    SHARED_BYTES(shared);
    const int places = marches * DEPTH;
    const Ring ring = {y, progress, progress + places, progress + 2 * places, marches};
    const int thread = threadIdx.x;
    if (threadIdx.y == 0) {
        const int of_block = FILTER_TEAMS == 1 ? 0 : thread / FILTER_THREADS;
        const Team team = {thread - of_block * FILTER_THREADS, FILTER_THREADS, 1 + of_block};
        const int number = int(blockIdx.x) * FILTER_TEAMS + of_block, march = number / fir::STRIPS;
        if (march >= marches) return;
        fir::run<fir::ToRing>(team, {samples, stride, bytes, weights, radix_turns, passes, conjugated, counters},
                              {ring, middle_turns, march}, {march, groups * streams, marches}, number % fir::STRIPS,
                              fir::STRIPS, shared + of_block * fir::SHARED);
    } else {
        const Team team = {thread, TRANSFORM_THREADS, 1 + FILTER_TEAMS};
        fft::run(team,
                 {turns, mirror, gains, spectra, output_power, reinterpret_cast<unsigned long long*>(counters), groups,
                  0, before, first_index},
                 fft::FromRing{ring, groups}, streams, blockIdx.x, gridDim.x,
                 {out, count, pols, channel_bytes, block_bytes, antenna_bytes, own, own_first, own_end, own_block_bytes,
                  own_antenna_bytes, heap},
                 {key0, key1, first_input}, shared + FILTER_TEAMS * fir::SHARED);
    }
}
