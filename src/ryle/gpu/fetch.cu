// Rows of page-locked host memory to columns of an array of the GPU's, read over the bus by threads.
#include "ryle/gpu/device.cuh"

constexpr int LOADS = 4;  // that a thread has under way: the bus is far away

// `rows` rows of `width` words, `from_pitch` and `to_pitch` words apart. No cache is asked: the host writes.
template <class Word>
DEVICE void fetch_words(void* to, uint64_t from, int64_t rows, int64_t width, int64_t from_pitch, int64_t to_pitch) {
    const volatile Word* source = reinterpret_cast<const volatile Word*>(from);
    Word* target = static_cast<Word*>(to);
    const int64_t threads = int64_t(gridDim.x) * blockDim.x, words = rows * width;
    for (int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; at < words; at += LOADS * threads) {
        Word found[LOADS];
        for (int i = 0; i < LOADS; i++) {
            const int64_t word = at + i * threads;
            if (word < words) found[i] = source[word / width * from_pitch + word % width];
        }
        for (int i = 0; i < LOADS; i++) {
            const int64_t word = at + i * threads;
            if (word < words) target[word / width * to_pitch + word % width] = found[i];
        }
    }
}

// All sizes are in bytes. WORDS: all are multiples of 8, as both addresses are.
KERNEL(256, 1)
fetch(uint8_t* to, uint64_t first, uint64_t host, int64_t rows, int64_t width, int64_t from_pitch, int64_t to_pitch) {
#if WORDS
    fetch_words<uint64_t>(to + first, host, rows, width / 8, from_pitch / 8, to_pitch / 8);
#else
    fetch_words<uint8_t>(to + first, host, rows, width, from_pitch, to_pitch);
#endif
}
