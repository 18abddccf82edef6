// Every payload byte of a chunk against what its sender must have written: native/send/payload.h has the rule.
#include "ryle/gpu/device.cuh"

constexpr uint64_t STEP = 0x9E3779B97F4A7C15;

DEVICE uint64_t mix(uint64_t z) {
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

// A warp looks at one packet of [head][packet][bytes] after the other; where packets are parts of heaps, at one part of
// `part` bytes (a multiple of 8; the last may be shorter), with a mark each. `found` gets packets, wrong packets and
// wrong bytes. WORDS: payloads are whole 64-bit words. FILLING: 0 random, 1 ramp, 2 zeros.
KERNEL(256, 4)
verify(const uint8_t* data, const uint8_t* present, const uint64_t* streams, unsigned long long* found, uint64_t seed,
       uint64_t first, uint64_t period, int64_t marks, int64_t packets, int64_t bytes, int64_t part) {
    const int64_t parts = (bytes + part - 1) / part;
    const int lane = threadIdx.x % 32;
    unsigned long long looked = 0, wrong_packets = 0, wrong_bytes = 0;
    for (int64_t mark = int64_t(blockIdx.x) * 8 + threadIdx.x / 32; mark < marks; mark += int64_t(gridDim.x) * 8) {
        if (!present[mark]) continue;
        const int64_t cell = mark / parts, from = mark % parts * part;
        const int64_t end = from + part < bytes ? from + part : bytes;
        const uint64_t sum = first + uint64_t(cell % packets), number = period ? sum % period : sum;
        const uint64_t key = mix(mix(mix(seed + STEP) ^ streams[cell / packets]) ^ number);
        const uint8_t* payload = data + cell * bytes;
        int wrong = 0;
        for (int64_t word = from / 8 + lane; word * 8 < end; word += 32) {
            uint64_t expected = 0;
            if (FILLING == 0) expected = mix(key + uint64_t(word + 1) * STEP);
            if (FILLING == 1)
                for (int k = 0; k < 8; k++) expected |= uint64_t(uint8_t(number + uint64_t(word * 8 + k))) << 8 * k;
#if WORDS
            uint64_t differs = expected ^ reinterpret_cast<const uint64_t*>(payload)[word];
#else
            uint64_t differs = 0;
            for (int k = 0; k < 8 && word * 8 + k < end; k++)
                differs |= uint64_t(uint8_t(payload[word * 8 + k] ^ uint8_t(expected >> 8 * k))) << 8 * k;
#endif
            for (; differs; differs >>= 8) wrong += (differs & 255) != 0;
        }
        for (int distance = 16; distance; distance /= 2) wrong += __shfl_xor_sync(0xFFFFFFFF, wrong, distance);
        looked++;
        wrong_packets += wrong != 0;
        wrong_bytes += uint64_t(wrong);
    }
    if (lane == 0 && looked) {
        atomicAdd(found, looked);
        if (wrong_packets) {
            atomicAdd(found + 1, wrong_packets);
            atomicAdd(found + 2, wrong_bytes);
        }
    }
}
