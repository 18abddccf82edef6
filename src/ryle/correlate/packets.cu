// Others' packets and F-heaps to K-blocks on the GPU: the CUDA form of native/correlate/packets.cpp.
#include "ryle/gpu/device.cuh"

using namespace ryle;

// Sample (channel, spectrum, input) lies at the sum of their entries in the tables, in bytes: one byte, the first part
// in its high nibble, or with `bits` 8 two. A block of threads has 32 inputs of one K-block, blockIdx.y the block and
// blockIdx.z the channel; with `along_time` threads of a warp have spectra of one input, else inputs of one spectrum:
// what lies closer together. The lowest value, which has no negative, becomes the one above it, and is counted where it
// is valid.
KERNEL(256, 1)
arrange_packets(const unsigned char* packets, const uint64_t* valid, const int64_t* spectrum_at,
                const int64_t* channel_at, const int64_t* input_at, const unsigned char* conjugated,
                unsigned char* data, uint64_t* clamped, int inputs, int group_channels, int bits, int flip, int swapped,
                int along_time) {
    SHARED_BYTES(shared);  // 32 rows of 128 + 4 bytes
    constexpr int PITCH = 132;
    const int lowest = bits == 4 ? -8 : -128, first_input = blockIdx.x * 32;
    const unsigned char* base = packets + channel_at[blockIdx.z];
    uint32_t count = 0;
    for (int n = threadIdx.x; n < 64 * 32; n += 256) {
        const int spectrum = along_time ? n % 64 : n / 32, own = along_time ? n / 64 : n % 32;
        const int input = first_input + own;
        if (input >= inputs) continue;
        const unsigned char* from = base + spectrum_at[blockIdx.y * 64 + spectrum] + input_at[input];
        const int high = static_cast<signed char>(from[0] ^ flip);
        int first = high, second;
        if (bits == 4) {
            first = high >> 4;
            second = static_cast<signed char>(high << 4) >> 4;
        } else {
            second = static_cast<signed char>(from[1] ^ flip);
        }
        int re = swapped ? second : first, im = swapped ? first : second;
        const uint64_t word = valid[(int64_t(blockIdx.z / group_channels) * gridDim.y + blockIdx.y) * inputs + input];
        if (word >> spectrum & 1) count += (re == lowest) + (im == lowest);
        re += re == lowest;
        im += im == lowest;
        if (conjugated[input]) im = -im;
        unsigned char* to = shared + own * PITCH + spectrum / 16 * 32 + spectrum % 16;
        to[0] = static_cast<unsigned char>(re);
        to[16] = static_cast<unsigned char>(im);
    }
    __syncwarp();
    count = __reduce_add_sync(~0u, count);
    if (threadIdx.x % 32 == 0 && count)
        atomicAdd(reinterpret_cast<unsigned long long*>(clamped), static_cast<unsigned long long>(count));
    __syncthreads();
    const int64_t row = (int64_t(blockIdx.z) * gridDim.y + blockIdx.y) * inputs + first_input;
    for (int n = threadIdx.x; n < 32 * 32; n += 256)
        if (first_input + n / 32 < inputs)
            reinterpret_cast<uint32_t*>(data + (row + n / 32) * 128)[n % 32] =
                *reinterpret_cast<const uint32_t*>(shared + n / 32 * PITCH + n % 32 * 4);
}
