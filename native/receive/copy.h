// Copies of payloads into memory that no cache holds.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ryle {

// As memcpy, but what is written goes past the caches, which spares fetching it first; `next`, of the same size, is
// fetched meanwhile. Measured on Zen 5 with 8 KiB payloads and a ring of 200 MB: 1.2 to 1.35 times memcpy.
inline void copy_past_cache(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes, const std::uint8_t* next) {
#if defined(__SSE2__)
    std::size_t at = 0;
    if (reinterpret_cast<std::uintptr_t>(to) % 16 == 0) {
        for (; at + 64 <= bytes; at += 64) {
            __builtin_prefetch(next + at, 0, 2);
            const __m128i* in = reinterpret_cast<const __m128i*>(from + at);
            const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
            const __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
            __m128i* out = reinterpret_cast<__m128i*>(to + at);
            _mm_stream_si128(out, a);
            _mm_stream_si128(out + 1, b);
            _mm_stream_si128(out + 2, c);
            _mm_stream_si128(out + 3, d);
        }
        _mm_sfence();  // whoever is told that the payload is there must see it
    }
    std::memcpy(to + at, from + at, bytes - at);
#else
    static_cast<void>(next);
    std::memcpy(to, from, bytes);
#endif
}

}  // namespace ryle
