#include "verify.h"

#include <algorithm>
#include <vector>

namespace ryle {

Verified verify_payloads(Filling filling, std::uint64_t seed, std::span<const std::uint64_t> streams,
                         std::uint64_t first, std::uint64_t period, const std::uint8_t* data,
                         const std::uint8_t* present, std::size_t packets, std::size_t bytes, std::size_t part) {
    Verified found;
    const std::size_t most = part ? part : bytes;
    std::vector<std::uint8_t> expected(std::min(most, bytes));
    for (std::size_t head = 0; head < streams.size(); ++head) {
        for (std::size_t p = 0; p < packets; ++p, data += bytes) {
            const std::uint64_t number = period ? (first + p) % period : first + p;
            for (std::size_t from = 0; from < bytes; from += most, ++present) {
                if (!*present) continue;
                ++found.packets;
                const std::size_t n = std::min(most, bytes - from);
                if (payload_differs(filling, seed, streams[head], number, data + from, n, from) == n) continue;
                fill_payload(filling, seed, streams[head], number, expected.data(), n, from);
                for (std::size_t i = 0; i < n; ++i) found.wrong_bytes += data[from + i] != expected[i];
                if (found.wrong_packets++ == 0) {
                    found.first_head = static_cast<std::int64_t>(head);
                    found.first_packet = static_cast<std::int64_t>(p);
                }
            }
        }
    }
    return found;
}

}  // namespace ryle
