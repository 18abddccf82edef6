"""Packets of X-heaps as the observation of tests/operator makes them, written out by hand."""

import struct

import numpy as np

CHANNELS, SUB, PRODUCTS, STEP, SPECTRA = 64, 32, 12, 128, 128  # of the file in conftest: two antennas
GROUPS = 4
PACKET = 2048  # network.packet_size: heaps that are cut otherwise are malformed
PARTS = -(-(SUB * PRODUCTS * 16 + GROUPS * PRODUCTS * 4) // PACKET)


def spead(immediates, arrays, payload):
    words = [1 << 63 | i << 48 | v for i, v in immediates] + [i << 48 | o for i, o in arrays]
    return struct.pack(f">BBBBHH{len(words)}Q", 0x53, 4, 2, 6, 0, len(words), *words) + payload


def heap(index, substream, value):
    """Packets of an X-heap whose sums are all `value`."""
    sums = np.full((SUB, PRODUCTS, 2), value, ">i8").tobytes()
    body = sums + np.full((GROUPS, PRODUCTS), SPECTRA, ">u4").tobytes()
    for offset in range(0, len(body), PACKET):
        part = body[offset : offset + PACKET]
        immediates = [
            (1, substream + 2 * index), (2, len(body)), (3, offset), (4, len(part)),
            (0x1600, index * SPECTRA * STEP), (0x4103, substream * SUB), (0x4104, SPECTRA),
        ]  # fmt: skip
        yield spead(immediates, [(0x1801, 0), (0x1802, len(sums))], part)
