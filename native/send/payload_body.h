// Words of a random payload: one body, compiled for several instruction sets.
#pragma once
#include <bit>
#include <cstring>

#include "payload.h"

static_assert(std::endian::native == std::endian::little, "words are stored with the lowest byte first");

namespace ryle {
namespace {

void random_words_body(std::uint64_t key, std::uint64_t first, std::uint8_t* out, std::size_t words) {
    std::size_t w = 0;
    for (; w + 8 <= words; w += 8) {
        std::uint64_t block[8];
        for (std::size_t i = 0; i < 8; ++i) block[i] = payload_word(key, first + w + i);
        std::memcpy(out + 8 * w, block, sizeof block);
    }
    for (; w < words; ++w) {
        const std::uint64_t word = payload_word(key, first + w);
        std::memcpy(out + 8 * w, &word, sizeof word);
    }
}

}  // namespace
}  // namespace ryle
