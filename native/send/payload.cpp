#include "payload.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "payload_body.h"

namespace ryle {

#if defined(__x86_64__)
void random_words_avx512(std::uint64_t key, std::uint64_t first, std::uint8_t* out, std::size_t words);
#endif

namespace {

using Words = void (*)(std::uint64_t, std::uint64_t, std::uint8_t*, std::size_t);

Words choose() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512vbmi"))
        return random_words_avx512;
#endif
    return random_words_body;
}

void random_words(std::uint64_t key, std::uint64_t first, std::uint8_t* out, std::size_t words) {
    static const Words best = choose();
    best(key, first, out, words);
}

// Bytes [from, from + n) of a payload; `from` is a multiple of 8.
void fill(Filling filling, std::uint64_t key, std::uint64_t packet, std::size_t from, std::uint8_t* out,
          std::size_t n) {
    if (filling == Filling::zeros) {
        std::memset(out, 0, n);
    } else if (filling == Filling::ramp) {
        for (std::size_t b = 0; b < n; ++b) out[b] = static_cast<std::uint8_t>(packet + from + b);
    } else {
        random_words(key, from / 8, out, n / 8);
        const std::uint64_t last = payload_word(key, from / 8 + n / 8);
        for (std::size_t b = n / 8 * 8; b < n; ++b) out[b] = static_cast<std::uint8_t>(last >> 8 * (b % 8));
    }
}

}  // namespace

void fill_payload(Filling filling, std::uint64_t seed, std::uint64_t stream, std::uint64_t packet, std::uint8_t* out,
                  std::size_t bytes, std::size_t from) {
    fill(filling, payload_key(seed, stream, packet), packet, from, out, bytes);
}

std::size_t payload_differs(Filling filling, std::uint64_t seed, std::uint64_t stream, std::uint64_t packet,
                            const std::uint8_t* payload, std::size_t bytes, std::size_t from) {
    const std::uint64_t key = payload_key(seed, stream, packet);
    alignas(64) std::uint8_t block[1024];
    for (std::size_t at = 0; at < bytes; at += sizeof block) {
        const std::size_t n = std::min(sizeof block, bytes - at);
        fill(filling, key, packet, from + at, block, n);
        if (std::memcmp(block, payload + at, n) == 0) continue;
        for (std::size_t b = 0;; ++b)
            if (block[b] != payload[at + b]) return at + b;
    }
    return bytes;
}

}  // namespace ryle
