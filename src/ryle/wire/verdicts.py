"""What the parser says of packets: their header fields, whether they are valid, and why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.wire.description import Format
from ryle.wire.tables import Total, terms

#: What `Fields.header` says of an item that is not there and has no default.
ABSENT = (1 << 64) - 1


def summed(total: Total, header: Mapping[str, int]) -> int:
    """Give a sum of header fields, undivided."""
    return sum(int(header[name]) * factor for name, factor in terms(total).items()) + total.get("add", 0)


class Reason(IntEnum):
    """Why a packet is not valid."""

    VALID = 0
    SHORT = 1  # shorter than the header
    FIELD = 2  # a field has a value that the format does not allow
    LENGTH = 3  # not as long as its samples need
    STATED_LENGTH = 4  # not as long as its header says
    TIMESTAMP = 5  # the count is negative or does not fit 63 bits
    ITEM = 6  # an item is missing
    HEAP = 7  # its heap's length is not allowed, or its part does not lie in the heap
    CONTROL = 8  # no samples: it describes or steers the stream
    STOP = 9  # no samples: it ends the stream

    @property
    def foreign(self) -> bool:
        """Whether the packet is well-formed and only holds no samples."""
        return self in (Reason.CONTROL, Reason.STOP)


@dataclass(frozen=True, slots=True)
class Fields:
    """What the headers of many packets say.

    Parameters
    ----------
    header : structured ndarray of uint64, shape (packet,)
        Every header field by name, as it stands in the packet; zeros if the packet is shorter than the header, `ABSENT`
        for items that are missing.
    valid : ndarray of bool, shape (packet,)
        Whether the packet is of the format.
    reason : ndarray of uint8, shape (packet,)
        `Reason` for which it is not.
    timestamp : ndarray of int64, shape (packet,)
        Unwrapped count in the format's unit; 0 for invalid packets.
    antenna, input, channel : ndarray of int64, shape (packet,)
        First of the packet; -1 for invalid packets and where the format does not say.
    payload, bytes, offset : ndarray of int64, shape (packet,)
        Byte of the packet at which its samples begin, how many bytes they are, and where these lie in the payload of
        the packet's heap (0 if a packet is all); of valid packets.
    """

    header: NDArray[Any]
    valid: NDArray[np.bool_]
    reason: NDArray[np.uint8]
    timestamp: NDArray[np.int64]
    antenna: NDArray[np.int64]
    input: NDArray[np.int64]
    channel: NDArray[np.int64]
    payload: NDArray[np.int64]
    bytes: NDArray[np.int64]
    offset: NDArray[np.int64]
    _details: NDArray[np.int64]
    _format: Format

    def __len__(self) -> int:
        return len(self.reason)

    def explain(self, packet: int) -> str:
        """Say what is wrong with a packet; nothing if it is valid."""
        field_index, expected = (int(x) for x in self._details[packet, :2])
        match Reason(int(self.reason[packet])):
            case Reason.VALID:
                return ""
            case Reason.SHORT:
                return f"shorter than the header of {expected} bytes"
            case Reason.FIELD:
                field = self._format.header.field[field_index]
                value = int(self.header[field.name][packet])
                allowed = f"must be {field.low}" if field.low == field.high else f"must be {field.low} to {field.high}"
                return f"{field.name} = {value} (0x{value:x}), {allowed}"
            case Reason.LENGTH if expected < 0:
                return "an axis is empty or too large: " + ", ".join(
                    f"{size} = {int(self.header[size][packet])}"
                    for size in self._format.payload.size.values()
                    if isinstance(size, str)
                )
            case Reason.LENGTH:
                return f"must be {expected} bytes long"
            case Reason.STATED_LENGTH:
                return f"the header says {expected} bytes"
            case Reason.TIMESTAMP:
                return "the timestamp is negative or does not fit 63 bits"
            case Reason.ITEM:
                field = self._format.header.field[field_index]
                return f"has no {field.name} (item 0x{field.item or 0:04x})" + (field.remedy and f": {field.remedy}")
            case Reason.HEAP:
                return self._explain_heap(packet)
            case Reason.CONTROL:
                return "describes or steers the stream, holds no samples"
            case Reason.STOP:
                return "ends the stream"

    def _explain_heap(self, packet: int) -> str:
        heap, header = self._format.heap, self.header[packet]
        assert heap is not None
        known = " or ".join(str(n) for n in self._format.heap_bytes)
        offset, part = summed(heap.offset, header), summed(heap.bytes, header)
        whose = known if heap.length is None else f"{summed(heap.length, header)}"
        rule = f"heaps have {known} bytes" + (", in one packet" if heap.packets == "one" else "")
        step = f", in multiples of {heap.unit}" if heap.unit > 1 else ""
        return f"holds {part} bytes from byte {offset} of a heap of {whose}; {rule}{step}"
