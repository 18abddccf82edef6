// The pass between the two halves as a kernel of its own; middle.cuh has what it does.
#include "middle.cuh"

using namespace ryle;

KERNEL(256, MIDDLE > 8 ? 2 : 4)
middle(float2* __restrict__ y,            // [tile][RADIX][MIDDLE][POINTS][TILE]
       const float2* __restrict__ turns,  // [POINTS][MIDDLE] W_LENGTH^(a·k2)
       int tiles) {
    const int64_t task = int64_t(blockIdx.x) * 256 + threadIdx.x, tile = task / mid::TASKS;
    if (tile < tiles) mid::turn_points(y + tile * (CHANNELS * TILE), turns, int(task % mid::TASKS));
}
