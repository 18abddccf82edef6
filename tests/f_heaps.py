"""F-heaps written out by hand, and what an X-engine must make of them, by plain indexing."""

import struct

import numpy as np

from ryle.chunk import BLOCK, rows_from_parts


def values(rng, o, heaps, antennas=None):
    """Random samples of all channels, int8 [antenna][heap][channel][spectrum][pol][2]; of four bits uint8 without [2]."""
    shape = (antennas or len(o.antennas), heaps, o.fengine.channels, o.fengine.spectra_per_heap, o.pols)
    if o.value_bytes == 2:
        return rng.integers(-128, 128, (*shape, 2), dtype=np.int8)
    return rng.integers(0, 256, shape, dtype=np.uint8)


def reference(o, heaps, valid, substream):
    """K-blocks by fancy indexing: complex int8 [channel][block][input][128] and bits, invalid values zeroed.

    valid: bool [antenna][heap][channel group][spectrum][pol]
    """
    channels = slice(substream * o.substream_channels, (substream + 1) * o.substream_channels)
    h = heaps[:, :, channels]
    if o.value_bytes == 1:
        nibbles = np.stack([h >> 4, h & 15], axis=-1).astype(np.int16)
        h = ((nibbles + 8 & 15) - 8).astype(np.int8)
    v = np.repeat(valid, o.packet_channels, axis=2)
    h = h * v[..., None]
    antennas, count, c, spectra, pols, _ = h.shape
    blocks = count * spectra // BLOCK
    parts = h.transpose(2, 0, 4, 1, 3, 5).reshape(c, antennas * pols, blocks, BLOCK, 2)
    data = rows_from_parts(parts.swapaxes(1, 2))
    bits = valid.transpose(2, 0, 4, 1, 3).reshape(o.groups, antennas * pols, blocks, BLOCK).transpose(0, 2, 1, 3)
    words = (bits.astype(np.uint64) << np.arange(BLOCK, dtype=np.uint64)).sum(axis=-1, dtype=np.uint64)
    return data, words


def whole(o, heaps):
    """Validity, as of `reference`, of which nothing is missing."""
    return np.ones((len(o.antennas), heaps, o.groups, o.fengine.spectra_per_heap, o.pols), bool)


def by_packet(o, valid, heaps):
    """Valid [input][spectrum] as the reference wants it."""
    v = valid.reshape(len(o.antennas), o.pols, heaps, o.fengine.spectra_per_heap).transpose(0, 2, 3, 1)
    return np.repeat(v[:, :, None], o.groups, axis=2)


def by_hand(heap_id, timestamp, antenna, first_channel, payload, packet, tail=b""):
    """The packets of an F-heap put together from MeerKAT's packet definition (and ours, with `tail`)."""
    total = len(payload) + len(tail)
    out = []
    for at in [*range(0, len(payload), packet), *([len(payload)] if tail else [])]:
        part = (payload[at : at + packet] if at < len(payload) else b"") or tail
        items = [(1, heap_id), (2, total), (3, at), (4, len(part)), (0x1600, timestamp), (0x4101, antenna)]
        items.append((0x4103, first_channel))
        pointers = [(1 << 63) | (i << 48) | v for i, v in items] + [0x4300 << 48]
        if tail:
            pointers.append(0x4301 << 48 | len(payload))
        out.append(b"\x53\x04\x02\x06\0\0" + struct.pack(f">H{len(pointers)}Q", len(pointers), *pointers) + part)
    return out


def rows_of(chunk):
    """K-blocks of a `PacketChunk` by plain indexing, as `reference` has them: nothing is clamped, what is invalid is 0."""
    o, groups = chunk.order, len(chunk.valid)
    at = o.channel[:, None, None] + o.spectrum[:, None] + o.input
    payload = chunk.packets.reshape(-1)
    assert not o.flip and not o.swapped and not o.conjugated.any()
    if o.bits == 8:
        parts = np.stack([payload[at], payload[at + 1]], axis=-1).view(np.int8)
    else:
        nibbles = np.stack([payload[at] >> 4, payload[at] & 15], axis=-1)
        parts = (nibbles ^ 8).astype(np.int8) - 8
    channels, spectra, inputs, _ = parts.shape
    blocked = parts.reshape(channels, spectra // BLOCK, BLOCK, inputs, 2).swapaxes(2, 3)
    keep = chunk.valid[..., None] >> np.arange(BLOCK, dtype=np.uint64) & np.uint64(1)
    return rows_from_parts(blocked * np.repeat(keep, channels // groups, axis=0).astype(np.int8)[..., None])


def clamped(o, heaps):
    """Samples with the lowest value taken as the one above it, and where that is so, [...][2]."""
    if o.value_bytes == 2:
        return np.maximum(heaps, -127), heaps == -128
    nibbles = np.stack([heaps >> 4, heaps & 15], axis=-1)
    low = nibbles == 8
    nibbles[low] = 9
    return nibbles[..., 0] << 4 | nibbles[..., 1], low
