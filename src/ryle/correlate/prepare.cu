// What happens to spectra on the GPU before they are multiplied: what is invalid becomes zero, foreign layouts become
// K-blocks, and -128 (-8 in four bits), which has no negative, becomes -127 (-7) and is counted.
#include "ryle/gpu/device.cuh"

using namespace ryle;

constexpr uint32_t HIGH = 0x80808080u, LOW = 0x01010101u;

// 0xFF in the bytes whose bit of four is set.
DEVICE uint32_t byte_mask(uint32_t bits) {
    return ((bits & 1) | (bits & 2) << 7 | (bits & 4) << 14 | (bits & 8) << 21) * 0xFF;
}
// 0x80 in the bytes that are zero.
DEVICE uint32_t zero_bytes(uint32_t x) { return ~(((x & ~HIGH) + ~HIGH) | x | ~HIGH); }

// Bits of the four spectra that lane l holds of a row: bytes 4l .. 4l + 3 of [4][16 re | 16 im].
DEVICE uint32_t lane_mask(uint64_t valid) {
    const int lane = threadIdx.x % 32;
    return byte_mask(static_cast<uint32_t>(valid >> (16 * (lane / 8) + 4 * (lane % 4))) & 15);
}

DEVICE void count_clamped(uint64_t* clamped, uint32_t count) {
    count = __reduce_add_sync(~0u, count);
    if (threadIdx.x % 32 == 0 && count)
        atomicAdd(reinterpret_cast<unsigned long long*>(clamped), static_cast<unsigned long long>(count));
}

// Two spectra of packed rows: those of lane l are bytes 2l and 2l + 1.
struct Packed {
    using Word = uint16_t;
    static constexpr int ROW = 64;
    DEVICE static uint32_t mask(uint64_t valid) {
        return byte_mask(static_cast<uint32_t>(valid >> threadIdx.x % 32 * 2) & 3);
    }
    // -8 becomes -7 in each nibble; how many were.
    DEVICE static uint32_t clamp(uint32_t& x) {
        const uint32_t t = x ^ 0x8888, low = ~(((t & 0x7777) + 0x7777) | t | 0x7777) & 0x8888;
        x |= low >> 3;
        return __popc(low);
    }
};

// Four parts of rows [4][16 re | 16 im].
struct Bytes {
    using Word = uint32_t;
    static constexpr int ROW = 128;
    DEVICE static uint32_t mask(uint64_t valid) { return lane_mask(valid); }
    DEVICE static uint32_t clamp(uint32_t& x) {
        const uint32_t low = zero_bytes(x ^ HIGH);
        x |= low >> 7;
        return __popc(low);
    }
};

// Where the rows of a channel, block and antenna lie, in bytes; those of its polarizations follow one another.
struct Strides {
    int64_t channel, block, antenna;
};

template <typename Parts>
DEVICE void zero(const unsigned char* data, unsigned char* to, const uint64_t* valid, uint64_t* clamped, int inputs,
                 int pols, Strides lie, Strides laid, int all_blocks, int first_block, int blocks, int group_channels,
                 int clamp) {
    using Word = typename Parts::Word;
    const int64_t word = (int64_t(blockIdx.x) * 256 + threadIdx.x) / 32;
    if (word >= int64_t(blocks) * inputs) return;
    const bool apart = to != data;
    const uint64_t bits = valid[(blockIdx.z * int64_t(all_blocks) + first_block) * inputs + word];
    if (!clamp && !apart && bits == ~uint64_t(0)) return;
    const uint32_t mask = Parts::mask(bits);
    const int block = static_cast<int>(word / inputs), input = static_cast<int>(word % inputs);
    const int antenna = input / pols, within = input % pols * Parts::ROW;
    const unsigned char* from = data + (first_block + block) * lie.block + antenna * lie.antenna + within;
    to += (apart ? block : first_block + block) * laid.block + antenna * laid.antenna + within;
    uint32_t count = 0;
    for (int own = blockIdx.y; own < group_channels; own += gridDim.y) {
        const int64_t channel = int64_t(blockIdx.z) * group_channels + own;
        const uint32_t before = (reinterpret_cast<const Word*>(from + channel * lie.channel))[threadIdx.x % 32];
        uint32_t after = before & mask;
        if (clamp) count += Parts::clamp(after);
        if (apart || after != before)
            reinterpret_cast<Word*>(to + channel * laid.channel)[threadIdx.x % 32] = static_cast<Word>(after);
    }
    if (clamp) count_clamped(clamped, count);
}

// Zero what is invalid in rows of 128 bytes that lie at strides, and with `clamp` mend -128; one warp a word of
// valid [group][block][input], blockIdx.y and blockIdx.z share the group's channels and the groups. In place, if `to`
// is `data`: then, without `clamp`, rows that are wholly valid are not touched. Else all rows of the run are laid
// there, the run's first block first.
KERNEL(256, 1)
zero_invalid(const unsigned char* data, unsigned char* to, const uint64_t* valid, uint64_t* clamped, int inputs,
             int pols, int64_t channel, int64_t block, int64_t antenna, int64_t to_channel, int64_t to_block,
             int64_t to_antenna, int all_blocks, int first_block, int blocks, int group_channels, int clamp) {
    zero<Bytes>(data, to, valid, clamped, inputs, pols, {channel, block, antenna}, {to_channel, to_block, to_antenna},
                all_blocks, first_block, blocks, group_channels, clamp);
}

// The same for packed rows of 64 bytes and -8.
KERNEL(256, 1)
zero_invalid_packed(const unsigned char* data, unsigned char* to, const uint64_t* valid, uint64_t* clamped, int inputs,
                    int pols, int64_t channel, int64_t block, int64_t antenna, int64_t to_channel, int64_t to_block,
                    int64_t to_antenna, int all_blocks, int first_block, int blocks, int group_channels, int clamp) {
    zero<Packed>(data, to, valid, clamped, inputs, pols, {channel, block, antenna}, {to_channel, to_block, to_antenna},
                 all_blocks, first_block, blocks, group_channels, clamp);
}

// Zero what is invalid in samples of two bytes in another order, as zero_invalid does in K-blocks, without a look at
// what is valid. Sample (channel, spectrum, antenna, polarization) lies at the sum of those times their strides, in
// samples.
KERNEL(256, 1)
zero_samples(uint16_t* samples, const uint64_t* valid, int inputs, int pols, int64_t channel_stride,
             int64_t spectrum_stride, int64_t antenna_stride, int64_t pol_stride, int all_blocks, int first_block,
             int blocks, int group_channels) {
    const int64_t word = (int64_t(blockIdx.x) * 256 + threadIdx.x) / 32;
    if (word >= int64_t(blocks) * inputs) return;
    const int64_t at = int64_t(first_block) * inputs + word;
    const uint64_t bits = valid[int64_t(blockIdx.z) * all_blocks * inputs + at];
    if (bits == ~uint64_t(0)) return;
    const int input = static_cast<int>(word % inputs);
    for (int half = 0; half < 64; half += 32) {
        const int spectrum = half + threadIdx.x % 32;
        if (bits >> spectrum & 1) continue;
        uint16_t* row = samples + ((first_block + word / inputs) * 64 + spectrum) * spectrum_stride +
                        input / pols * antenna_stride + input % pols * pol_stride;
        for (int channel = blockIdx.y; channel < group_channels; channel += gridDim.y)
            row[(int64_t(blockIdx.z) * group_channels + channel) * channel_stride] = 0;
    }
}

// The signed values of four nibbles, one a byte.
DEVICE uint32_t extend_nibbles(uint32_t nibbles) { return (((nibbles ^ 8 * LOW) | HIGH) - 8 * LOW) ^ HIGH; }

// Make K-blocks of packed ones, [channel][block][input][64], one byte a spectrum, its real part in the high nibble; one
// warp a row, blockIdx.y the channel. A -8 becomes -7 and is counted where it is valid.
KERNEL(256, 1)
unpack(const unsigned char* packed, const uint64_t* valid, unsigned char* data, uint64_t* clamped, int rows,
       int group_channels) {
    const int row = (blockIdx.x * 256 + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const int64_t at = int64_t(blockIdx.y) * rows + row;
    const int word = 4 * (lane / 8) + lane % 4;  // of the packed row: the same four spectra
    const uint32_t both = reinterpret_cast<const uint32_t*>(packed + at * 64)[word];
    const uint32_t nibbles = (lane & 4 ? both : both >> 4) & 15 * LOW;
    const uint32_t mask = lane_mask(valid[int64_t(blockIdx.y / group_channels) * rows + row]);
    const uint32_t low = zero_bytes(nibbles ^ 8 * LOW) & mask;
    reinterpret_cast<uint32_t*>(data + at * 128)[lane] = extend_nibbles(nibbles + (low >> 7)) & mask;
    count_clamped(clamped, __popc(low));
}

// Make K-blocks of samples in another order: sample (channel, spectrum, antenna, polarization) lies at the sum of those
// times their strides, in samples: two bytes (re, im), or with `packed` one, the real part in the high nibble. A block
// of threads has 32 inputs of one K-block, blockIdx.y the block and blockIdx.z the channel. What is clamped is counted
// by zero_invalid, later; packed samples become -7 here and are counted here where they are valid.
KERNEL(256, 1)
arrange(const unsigned char* samples, const uint64_t* valid, unsigned char* data, uint64_t* clamped, int inputs,
        int pols, int64_t channel_stride, int64_t spectrum_stride, int64_t antenna_stride, int64_t pol_stride,
        int group_channels, int packed) {
    SHARED_BYTES(shared);  // 32 rows of 128 + 4 bytes
    constexpr int PITCH = 132;
    const int64_t base = blockIdx.z * channel_stride + int64_t(blockIdx.y) * 64 * spectrum_stride;
    const bool along_inputs = (pols > 1 ? pol_stride : antenna_stride) < spectrum_stride;
    uint32_t count = 0;
    for (int n = threadIdx.x; n < 64 * 32; n += 256) {
        const int spectrum = along_inputs ? n / 32 : n % 64, own = along_inputs ? n % 32 : n / 64;
        const int input = blockIdx.x * 32 + own;
        if (input >= inputs) continue;
        const int64_t at =
            base + spectrum * spectrum_stride + input / pols * antenna_stride + input % pols * pol_stride;
        int re, im;
        if (packed) {
            const int both = static_cast<signed char>(samples[at]);
            re = both >> 4;
            im = static_cast<signed char>(both << 4) >> 4;
            const uint64_t word =
                valid[(int64_t(blockIdx.z / group_channels) * gridDim.y + blockIdx.y) * inputs + input];
            if (word >> spectrum & 1) count += (re == -8) + (im == -8);
            re = re == -8 ? -7 : re;
            im = im == -8 ? -7 : im;
        } else {
            const uint16_t both = reinterpret_cast<const uint16_t*>(samples)[at];
            re = both & 255;
            im = both >> 8;
        }
        unsigned char* to = shared + own * PITCH + spectrum / 16 * 32 + spectrum % 16;
        to[0] = static_cast<unsigned char>(re);
        to[16] = static_cast<unsigned char>(im);
    }
    __syncwarp();
    if (packed) count_clamped(clamped, count);
    __syncthreads();
    const int64_t row = (int64_t(blockIdx.z) * gridDim.y + blockIdx.y) * inputs + blockIdx.x * 32;
    for (int n = threadIdx.x; n < 32 * 32; n += 256)
        if (blockIdx.x * 32 + n / 32 < inputs)
            reinterpret_cast<uint32_t*>(data + (row + n / 32) * 128)[n % 32] =
                *reinterpret_cast<const uint32_t*>(shared + n / 32 * PITCH + n % 32 * 4);
}

// Make K-blocks, as `arrange` does, of pairs of inputs whose samples are neighbours, 8 bits each and at even addresses:
// pair p = inputs 2p, 2p + 1. Strides in samples, all even. A block of threads has 32 pairs of one K-block.
KERNEL(256, 1)
arrange_pairs(const unsigned char* samples, unsigned char* data, int inputs, int64_t channel_stride,
              int64_t spectrum_stride, int64_t pair_stride) {
    SHARED_BYTES(shared);  // 64 rows of 128 + 4 bytes: those of even inputs, then those of odd ones
    constexpr int PITCH = 33;
    uint32_t* rows = reinterpret_cast<uint32_t*>(shared);
    const int64_t base = blockIdx.z * channel_stride + int64_t(blockIdx.y) * 64 * spectrum_stride;
    const bool along_pairs = pair_stride < spectrum_stride;
    for (int n = threadIdx.x; n < 32 * 16; n += 256) {
        const int pair = along_pairs ? n % 32 : n / 16, quad = along_pairs ? n / 32 : n % 16;
        const int input = (blockIdx.x * 32 + pair) * 2;
        if (input >= inputs) continue;
        const int64_t at = base + (blockIdx.x * 32 + pair) * pair_stride + 4 * quad * spectrum_stride;
        const uint32_t* from = reinterpret_cast<const uint32_t*>(samples + 2 * at);
        uint32_t w[4];  // spectra; bytes: re and im of one input, re and im of the other
#pragma unroll
        for (int i = 0; i < 4; ++i) w[i] = from[i * spectrum_stride / 2];
        const uint32_t even0 = __byte_perm(w[0], w[1], 0x5140), odd0 = __byte_perm(w[0], w[1], 0x7362);
        const uint32_t even1 = __byte_perm(w[2], w[3], 0x5140), odd1 = __byte_perm(w[2], w[3], 0x7362);
        uint32_t* to = rows + pair * PITCH + quad / 4 * 8 + quad % 4;
        to[0] = __byte_perm(even0, even1, 0x5410);
        to[4] = __byte_perm(even0, even1, 0x7632);
        to[32 * PITCH] = __byte_perm(odd0, odd1, 0x5410);
        to[32 * PITCH + 4] = __byte_perm(odd0, odd1, 0x7632);
    }
    __syncthreads();
    const int64_t row = (int64_t(blockIdx.z) * gridDim.y + blockIdx.y) * inputs + blockIdx.x * 64;
    for (int n = threadIdx.x; n < 64 * 32; n += 256)
        if (blockIdx.x * 64 + n / 32 < inputs)
            reinterpret_cast<uint32_t*>(data)[(row + n / 32) * 32 + n % 32] =
                rows[(n / 32 % 2 * 32 + n / 64) * PITCH + n % 32];
}
