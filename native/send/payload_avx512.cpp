#include "payload_body.h"

namespace ryle {
void random_words_avx512(std::uint64_t key, std::uint64_t first, std::uint8_t* out, std::size_t words) {
    random_words_body(key, first, out, words);
}
}  // namespace ryle
