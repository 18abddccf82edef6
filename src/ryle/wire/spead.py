"""SPEAD heaps as data: item IDs, flavour and sizes of what passes between digitizers, F-engines, X-engines and catcher.

All are SPEAD-64-48 with every immediate repeated in every packet, as MeerKAT sends them. Timestamps are ADC samples
since sync of the first sample that the heap's first datum is stamped with.

============  =====================================================  =============================================
heap          immediates, in order                                   array items, in order
============  =====================================================  =============================================
digitizer     timestamp, digitiser_id, status                        adc_samples: packed big-endian samples
F (spectra)   timestamp, feng_id (antenna), frequency                feng_raw int8 [channel][spectrum][pol][re,im];
                                                                     feng_valid, if some spectra are invalid
X (native)    timestamp, frequency, spectra, begin, end              xeng_sums int64 [channel][product][re,im];
                                                                     xeng_counts uint32 [channel group][product]
X (MeerKAT)   timestamp, frequency                                   xeng_raw int32 [channel][product][re,im]
============  =====================================================  =============================================

frequency is the index in the whole band of the heap's first channel.
Numbers of more than a byte are big-endian (network order), but in xeng_raw, little-endian as katgpucbf's. With 4-bit
output feng_raw is uint8 [channel][spectrum][pol], the real part in the high nibble. feng_valid is uint8
[pol][spectra / 8], bit = spectrum, least significant first; readers that do not know it reject the heap by its length.
"""

from __future__ import annotations

import struct

import numpy as np
import spead2
import spead2.send
from numpy.typing import NDArray

TIMESTAMP = 0x1600
DIGITISER_ID = 0x3101
STATUS = 0x3102
ADC_SAMPLES = 0x3300
FENG_ID = 0x4101
FREQUENCY = 0x4103
SPECTRA = 0x4104
BEGIN = 0x4105
END = 0x4106
FENG_RAW = 0x4300
FENG_VALID = 0x4301
XENG_RAW = 0x1800
XENG_SUMS = 0x1801
XENG_COUNTS = 0x1802

#: SPEAD's own items, always present (but STREAM_CONTROL: 2 ends the stream).
HEAP_COUNT, HEAP_LENGTH, PAYLOAD_OFFSET, PAYLOAD_LENGTH, STREAM_CONTROL = 1, 2, 3, 4, 6

FLAVOUR = spead2.Flavour(4, 64, 48, 0)

#: MeerKAT's marker of a visibility to which nothing contributed.
MISSING = (-(2**31), 1)


def preamble(items: int) -> int:
    """Bytes before the payload of a packet that carries `items` items besides SPEAD's own four."""
    return 8 + 8 * (4 + items)


def immediate(item: int, value: NDArray[np.uint64]) -> spead2.Item:
    """Immediate item that reads `value` (0-d, dtype ``>u8``) when the heap is sent, so that heaps can be sent again."""
    if value.dtype != np.dtype(">u8") or value.shape != ():
        raise ValueError(f"an immediate needs a 0-d array of dtype >u8, not {value.dtype} {value.shape}")
    low = value.reshape(1).view(np.uint8)[2:]  # 48 bits
    return spead2.Item(item, "", "", shape=low.shape, dtype=low.dtype, value=low)


def array(item: int, value: NDArray[np.generic]) -> spead2.Item:
    """Array item that reads C-contiguous `value` when the heap is sent; never sent as an immediate, however short."""
    flat = value.reshape(-1).view(np.uint8)
    return spead2.Item(item, "", "", shape=(None,), format=[("u", 8)], value=flat)


def heap(items: list[spead2.Item]) -> spead2.send.Heap:
    """Heap of `items` whose packets all carry all item pointers."""
    made = spead2.send.Heap(FLAVOUR)
    made.repeat_pointers = True
    for item in items:
        made.add_item(item)
    return made


def end_heap(item: int, value: int) -> spead2.send.Heap:
    """Stop heap that says whose stream ends: immediate `item` = `value`."""
    made = heap([immediate(item, np.array(value, ">u8")), array(ADC_SAMPLES, np.zeros(8, np.uint8))])
    made.add_end()
    return made


def digitizer_packet(timestamp: int, stream: int, status: int, samples: bytes) -> bytes:
    """One digitizer heap as the one packet that it is on the wire, for capture files.

    Parameters
    ----------
    timestamp : int
        ADC sample count of the first sample.
    stream : int
        Digitiser ID.
    status : int
        Status word.
    samples : bytes
        Packed samples.
    """
    heap_count = (timestamp << 16 | stream) & (1 << 48) - 1  # only has to differ between heaps that are open at once
    immediates = [
        (HEAP_COUNT, heap_count), (HEAP_LENGTH, len(samples)), (PAYLOAD_OFFSET, 0), (PAYLOAD_LENGTH, len(samples)),
        (TIMESTAMP, timestamp), (DIGITISER_ID, stream), (STATUS, status),
    ]  # fmt: skip
    words = [1 << 63 | item << 48 | value for item, value in immediates] + [ADC_SAMPLES << 48]
    return struct.pack(f">BBBBHH{len(words)}Q", 0x53, 4, 2, 6, 0, len(words), *words) + samples


def read(packet: bytes | memoryview) -> tuple[dict[int, int], dict[int, int], memoryview]:
    """Read one SPEAD-64-48 packet.

    Returns
    -------
    immediates : dict
        Value of each immediate item, by ID.
    addresses : dict
        Offset in the heap's payload of each other item, by ID.
    payload : memoryview

    Raises
    ------
    ValueError
        If it is not such a packet, or not whole.
    """
    view = memoryview(packet)
    if len(view) < 8 or bytes(view[:4]) != b"\x53\x04\x02\x06":
        raise ValueError(f"not a SPEAD-64-48 packet: it begins with {bytes(view[:8]).hex()}")
    count = int.from_bytes(view[6:8], "big")
    if len(view) < 8 + 8 * count:
        raise ValueError(f"SPEAD packet of {len(view)} B is too short for its {count} items")
    immediates: dict[int, int] = {}
    addresses: dict[int, int] = {}
    for i in range(count):
        pointer = int.from_bytes(view[8 + 8 * i : 16 + 8 * i], "big")
        item, value = pointer >> 48, pointer & (1 << 48) - 1
        (immediates if item >> 15 else addresses)[item & 0x7FFF] = value
    payload = view[8 + 8 * count :]
    if immediates.get(PAYLOAD_LENGTH) != len(payload):
        raise ValueError(f"SPEAD packet has {len(payload)} B of payload, but says {immediates.get(PAYLOAD_LENGTH)}")
    return immediates, addresses, payload
