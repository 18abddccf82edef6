"""What a sender puts into payloads, in plain integers: native/send/payload.h says the rule."""

import struct

MASK = (1 << 64) - 1
G = 0x9E3779B97F4A7C15


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def payload_of(seed, stream, packet, size):
    """Give the first bytes of a packet's or heap's payload."""
    key = mix(mix(mix((seed + G) & MASK) ^ stream) ^ packet)
    words = [mix((key + (w + 1) * G) & MASK) for w in range(-(-size // 8))]
    return struct.pack(f"<{len(words)}Q", *words)[:size]
