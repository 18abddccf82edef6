"""Integrations as frames in a stream of bytes: how they begin, what they say, and where their arrays lie.

A frame is a preamble of 24 bytes, a header in JSON and a payload, which holds the arrays that the header names, one
behind the other. ``docs/reference/visibility-stream.md`` says it byte by byte.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import Exposure, Integration

#: What frames begin with: magic and version, bytes of the header, bytes of the payload; little-endian.
PREAMBLE = struct.Struct("<8sQQ")
MAGIC = b"RYLEVIS1"
#: Longest header and payload that a reader believes.
_LONGEST = 64 << 20, 1 << 40
_ARRAYS = "visibilities", "counts"
_TYPES = "<i8", ">i8", "<f8", "<u4"


class StreamError(OSError):
    """A stream of visibilities is none, or was cut; the message says where."""


@dataclass(frozen=True)
class Frame:
    """One frame.

    Parameters
    ----------
    header : dict
        What it says; ``kind`` is ``"observation"``, ``"integration"`` or ``"end"``.
    payload : bytes-like
        Its arrays.
    """

    header: dict[str, Any]
    payload: memoryview

    def pieces(self) -> list[Integration]:
        """Give the integration, in pieces whose channels follow each other; arrays lie in the payload.

        Raises
        ------
        StreamError
            If the header does not say one that fits into the payload.
        """
        h, at, made = self.header, 0, []
        try:
            exposure = Exposure(int(h["exposure"]["spectra"]), int(h["exposure"]["moment"]))
            for piece in h["pieces"]:
                arrays: list[NDArray[Any]] = []
                for name in _ARRAYS:
                    shape, kind = tuple(map(int, piece[name]["shape"])), str(piece[name]["dtype"])
                    if kind not in _TYPES or min(shape) < 1:
                        raise ValueError(f"{name} of {kind} and shape {shape}")
                    count = int(np.prod(shape, dtype=object))
                    arrays.append(np.frombuffer(self.payload, kind, count, at).reshape(shape))
                    at += arrays[-1].nbytes
                spectra = int(h["first_spectrum"]), int(h["spectra"])
                made.append(Integration(*spectra, int(piece["first_channel"]), arrays[0], arrays[1], exposure))
        except (KeyError, TypeError, ValueError) as error:
            raise StreamError(f"a frame of the stream does not hold the integration that it says: {error!r}") from None
        return made


def preamble(header: dict[str, Any], payload_bytes: int) -> bytes:
    """Make a frame's first bytes: preamble and header, padded so that the payload begins at a multiple of 8."""
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(PREAMBLE.size + len(text)) % 8)
    return PREAMBLE.pack(MAGIC, len(text), payload_bytes) + text


def integration_header(number: int, pieces: Sequence[Integration]) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Say what a frame of an integration says, and the arrays that its payload is made of, in order."""
    first, listed = pieces[0], []
    arrays: list[NDArray[Any]] = []
    for piece in pieces:
        two: dict[str, NDArray[Any]] = dict(zip(_ARRAYS, (piece.visibilities, piece.counts), strict=True))
        said = {name: {"dtype": each.dtype.str, "shape": list(each.shape)} for name, each in two.items()}
        listed.append({"first_channel": piece.first_channel} | said)
        arrays += two.values()
    header = {
        "kind": "integration",
        "number": number,
        "first_spectrum": first.first_spectrum,
        "spectra": first.spectra,
        "exposure": {"spectra": first.exposed.spectra, "moment": first.exposed.moment},
        "pieces": listed,
    }
    return header, arrays


def read_frame(take: Callable[[memoryview], int]) -> Frame | None:
    """Read a frame.

    Parameters
    ----------
    take : callable
        Fills a buffer, or a part of it, and says with how many bytes; 0 at the end of the stream.

    Returns
    -------
    Frame or None
        None if the stream ended before it, as it should after a frame of kind ``"end"``.

    Raises
    ------
    StreamError
        If the stream is none of visibilities, of another version, or ends within a frame.
    """
    start = bytearray(PREAMBLE.size)
    if not _fill(memoryview(start), take, may_end=True):
        return None
    magic, header_bytes, payload_bytes = PREAMBLE.unpack(start)
    if magic[:7] != MAGIC[:7]:
        raise StreamError(f"the stream begins with {bytes(magic)!r}: it is none of Ryle's visibilities")
    if magic != MAGIC:
        raise StreamError(f"the stream has version {magic[7:8].decode(errors='replace')}; this reader knows 1")
    if header_bytes > _LONGEST[0] or payload_bytes > _LONGEST[1]:
        raise StreamError(f"a frame says that it has {header_bytes} + {payload_bytes} bytes, which nobody sends")
    text, payload = bytearray(header_bytes), np.empty(payload_bytes, np.uint8).data
    _fill(memoryview(text), take)
    _fill(payload, take)
    try:
        header = json.loads(text)
        header["kind"]
    except (ValueError, KeyError, TypeError):
        raise StreamError("a frame of the stream has a header that is no JSON with a kind") from None
    return Frame(header, payload)


def _fill(view: memoryview, take: Callable[[memoryview], int], *, may_end: bool = False) -> bool:
    """Fill a buffer; say whether the stream went on to its end."""
    size = len(view)
    while view:
        got = take(view)
        if got == 0:
            if may_end and len(view) == size:
                return False
            raise StreamError("the stream ended within a frame: who sent it was stopped, or dropped this reader")
        view = view[got:]
    return True
