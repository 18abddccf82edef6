// The first half of the channelizer as a kernel of its own; filter.cuh has all that it does.
#include "filter.cuh"

using namespace ryle;

KERNEL(FILTER_THREADS, FILTER_BLOCKS)
filter(const void* __restrict__ samples,        // uint8 [stream][stride]; or const uint8* [stream][packets]
       const float2* __restrict__ weights,      // [TAPS][CHANNELS] of the two values of a complex point
       const float2* __restrict__ radix_turns,  // [POINTS][RADIX] W_n^(point·k1)
       const Pass* __restrict__ passes,         // [unit][MOST_PASSES]
       const uint8_t* __restrict__ conjugated,  // [stream], for complex samples
       float2* __restrict__ y,                  // [unit][TILES][HALVES][RADIX][POINTS][SIDE]
       fir::Power* __restrict__ counters,       // [stream][2]: second, sum of squares of samples
       int64_t stride, int64_t bytes,           // of a stream: distance (in packets with POINTERS) and size
       int units) {
    SHARED_BYTES(shared);
    const Team team = {int(threadIdx.x), FILTER_THREADS, 1};
    // Neighbouring blocks work on neighbouring strips of the same groups at the same time, so that what they fetch from
    // the same lines is read from memory once.
    const int blocks = gridDim.x, strips = min(fir::STRIPS, blocks), parts = blocks / strips;
    const int part = blockIdx.x / strips;
    const fir::Units own = {int(int64_t(units) * part / parts), int(int64_t(units) * (part + 1) / parts), 1};
    fir::run<fir::ToSlab>(team, {samples, stride, bytes, weights, radix_turns, passes, conjugated, counters}, Slab{y},
                          own, blockIdx.x % strips, strips, shared);
}
