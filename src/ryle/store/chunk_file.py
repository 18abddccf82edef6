"""Chunks outside the memory of the process that assembled them: their layout, and files of them.

A file is a page of 4096 bytes with the layout as JSON, then one record a chunk, all of equal length::

    page        number, epoch, timestamp, placed; written last
    marks       one byte a packet, 1 where it arrived, to a multiple of 4096 bytes
    payloads    as in the ring, to a multiple of 4096 bytes

A record counts only once its first page is there, so a file of a killed process opens and holds whole chunks only.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ryle.receive.assembly import Plan
from ryle.store.pieces import equal_pieces

PAGE = 4096
#: What a file, and each record in it, begins with.
MAGIC = b"RYLECHNK"
_RECORD = struct.Struct("<8s4q")  # magic, number, epoch, timestamp, placed; then a CRC-32 of these
_NUMBERS = np.dtype(
    {
        "names": ["magic", "number", "epoch", "timestamp", "placed", "check"],
        "formats": ["S8", "<i8", "<i8", "<i8", "<i8", "<u4"],
        "offsets": [0, 8, 16, 24, 32, _RECORD.size],
        "itemsize": _RECORD.size + 4,
    }
)
_STAMP = 24  # bytes of a record before its time stamp
_SETTLED = 2.0  # seconds after which a file that was written to is written to at another time


def pages(nbytes: int) -> int:
    """Round up to whole pages."""
    return -(-nbytes // PAGE) * PAGE


@dataclass(frozen=True)
class Layout:
    """What the bytes of a chunk are.

    Parameters
    ----------
    format : str
        Name of the packet format.
    heads : tuple of tuple of int
        The streams, as `ryle.receive.assembly.Plan.heads`.
    fields : tuple of str
        What the numbers of a head are.
    packets : int
        Packets of each head in a chunk.
    shape : tuple of int
        Shape of the payloads, uint8.
    step : int
        Timestamp from one packet of a head to the next.
    origin : int
        Timestamp at which a chunk begins.
    unit : str
        Of timestamps.
    parts : int
        Packets of a cell: 1, or those of a heap of several.
    about : dict of str to object
        What whoever wrote it says of it, ready for JSON.
    """

    format: str
    heads: tuple[tuple[int, ...], ...]
    fields: tuple[str, ...]
    packets: int
    shape: tuple[int, ...]
    step: int
    origin: int
    unit: str
    parts: int = 1
    about: dict[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Give the layout of a plan's chunks."""
        fields = (*plan.format.timestamp.stream, *(("port",) if plan.by_port else ()))
        return cls(
            plan.format.name,
            tuple(tuple(head) for head in plan.heads),
            fields,
            plan.packets,
            plan.shape,
            plan.step,
            plan.origin,
            plan.format.timestamp.unit,
            max(1, len(plan.parts)),
        )

    def of_heads(self, rows: Sequence[int]) -> Layout:
        """Give the layout of some heads alone, by their places; of payloads that lie one behind the other."""
        return replace(self, heads=tuple(self.heads[row] for row in rows), shape=(len(rows), *self.shape[1:]))

    @property
    def data_bytes(self) -> int:
        """Bytes of a chunk's payloads."""
        return math.prod(self.shape)

    @property
    def cells(self) -> int:
        """Packets of a chunk."""
        return len(self.heads) * self.packets * self.parts

    @property
    def marks_shape(self) -> tuple[int, ...]:
        """Shape of `AnyChunk.present`."""
        cells = len(self.heads), self.packets
        return (*cells, self.parts) if self.parts > 1 else cells

    @property
    def record_bytes(self) -> int:
        """Bytes of a chunk's record in a file."""
        return PAGE + pages(self.cells) + pages(self.data_bytes)

    def to_json(self) -> str:
        """Write it down."""
        found = asdict(self)
        if not self.about:  # as files of before have it
            del found["about"]
        return json.dumps(found)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` wrote."""
        d: dict[str, Any] = json.loads(text)
        d |= {"heads": tuple(tuple(h) for h in d["heads"]), "fields": tuple(d["fields"]), "shape": tuple(d["shape"])}
        return cls(**d)


class AnyChunk(Protocol):
    """What chunks have wherever they lie."""

    @property
    def number(self) -> int:
        """Place in time: ``(timestamp − origin) / (packets · step)``."""

    @property
    def epoch(self) -> int:
        """Counts the times that the clock was taken to have moved."""

    @property
    def timestamp(self) -> int:
        """Of the first packets."""

    @property
    def placed(self) -> int:
        """Packets that arrived."""

    @property
    def data(self) -> NDArray[np.uint8]:
        """Payloads, zeros where packets are missing."""

    @property
    def present(self) -> NDArray[np.uint8]:
        """1 where a packet arrived, shape (head, packet), or (head, packet, part)."""


@dataclass(frozen=True)
class StoredChunk:
    """A chunk out of a file or of another process's ring: an `AnyChunk`."""

    number: int
    epoch: int
    timestamp: int
    placed: int
    data: NDArray[np.uint8]
    present: NDArray[np.uint8]


def file_header(layout: Layout) -> bytes:
    """Give what a file begins with."""
    text = layout.to_json().encode()
    size = pages(len(MAGIC) + 8 + len(text))
    return (MAGIC + struct.pack("<II", size, len(text)) + text).ljust(size, b"\0")


def record_header(chunk: AnyChunk) -> bytes:
    """Give the page that makes a record count."""
    head = _RECORD.pack(MAGIC, chunk.number, chunk.epoch, chunk.timestamp, chunk.placed)
    return (head + struct.pack("<I", zlib.crc32(head))).ljust(PAGE, b"\0")


def write_chunk(path: str | os.PathLike[str], layout: Layout, chunk: AnyChunk) -> None:
    """Write one chunk to a file of its own."""
    parts = [np.ascontiguousarray(chunk.present), np.ascontiguousarray(chunk.data)]
    with Path(path).open("wb") as file:
        file.write(file_header(layout))
        file.write(record_header(chunk))
        for part in parts:
            file.write(part.data)
            file.write(bytes(pages(part.nbytes) - part.nbytes))


def _layout(path: Path, text: bytes) -> Layout:
    """Read a layout out of a file that anybody may have written, before anything is made of its size."""
    try:
        layout = Layout.from_json(text)
        sizes = (layout.packets, layout.parts, *layout.shape)
        if not all(type(n) is int and 0 < n < 1 << 40 for n in sizes) or not isinstance(layout.about, dict):
            raise ValueError
        if not layout.heads or math.prod(sizes[2:]) >= 1 << 46 or len(layout.heads) * math.prod(sizes[:2]) >= 1 << 46:
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{path} is no file of chunks: its header makes no sense") from None
    return layout


@lru_cache(32)
def _stamps(path: Path, _version: tuple[int, int, int], records: range) -> NDArray[np.int64]:
    """Give what stands in a file's records where time stamps are: read once, if pieces of it are worked on in turn."""
    with path.open("rb") as file:
        return equal_pieces(path, file.fileno(), np.array(records, np.int64) + _STAMP, 8).view("<i8")[:, 0]


class ChunkFile:
    """Read a file of chunks; iterating gives them in the order in which they were written.

    Parameters
    ----------
    path : path
        The file.
    between : (int, int), optional
        Time stamps: only chunks that have something from the first on and before the second; of all others nothing but
        their time stamps is read.

    Attributes
    ----------
    layout : Layout
        What the chunks are.
    damaged : int
        Records that are not whole, of chunks that were being written when the process was killed; of all that were
        wanted.
    file : BinaryIO
        The open file.
    at : ndarray of int64, shape (chunk,)
        Bytes at which records begin.
    timestamps, epochs : ndarray of int64, shape (chunk,)
        Of the chunks.

    Raises
    ------
    ValueError
        If it is no file of chunks.
    OSError
        If it cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str], between: tuple[int, int] | None = None) -> None:
        self.path = Path(path)
        self.file = self.path.open("rb")
        try:
            self._open(between)
        except BaseException:
            self.file.close()
            raise

    def _open(self, between: tuple[int, int] | None) -> None:
        path, file = self.path, self.file
        size = os.fstat(file.fileno()).st_size
        if size < PAGE or file.read(len(MAGIC)) != MAGIC:
            raise ValueError(f"{path} is no file of chunks")
        start, length = struct.unpack("<II", file.read(8))
        if not len(MAGIC) + 8 + length <= start <= size or start % PAGE:
            raise ValueError(f"{path} is no file of chunks: its header goes beyond its end")
        self.layout = _layout(path, file.read(length))
        record = self.layout.record_bytes
        records = self._records = range(start, size - record + 1, record)
        wanted = np.array(records if between is None else self._between(records, *between), np.int64)
        whole, numbers = self._headers(wanted)
        self.at, self._numbers = wanted[whole], numbers[whole]
        self.timestamps, self.epochs = self._numbers["timestamp"], self._numbers["epoch"]
        self.damaged = (-(-(size - start) // record) if between is None else len(wanted)) - len(self.at)

    def _headers(self, at: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.void]]:
        """Read what records at these bytes begin with; say which are whole."""
        heads = equal_pieces(self.path, self.file.fileno(), at, _NUMBERS.itemsize)
        numbers = heads.view(_NUMBERS)[:, 0]
        checks = np.fromiter((zlib.crc32(head[: _RECORD.size]) for head in heads), np.uint32, len(heads))
        return (numbers["magic"] == MAGIC) & (numbers["check"] == checks), numbers

    def _between(self, records: range, low: int, high: int) -> list[int]:
        """Choose the records whose time stamps say so, right or not."""
        if not records:
            return []
        stamps = self._stamps(records)
        reaches = (stamps > low - self.layout.packets * self.layout.step) & (stamps < high)
        return [records[i] for i in np.flatnonzero(reaches).tolist()]

    def _stamps(self, records: range) -> NDArray[np.int64]:
        """Give what stands in records where time stamps are."""
        about = self.path.stat()
        file = self.path.absolute(), (about.st_ino, about.st_size, about.st_mtime_ns), records
        # What has just been written to may be again, at what is the same time to the file system.
        return _stamps(*file) if about.st_mtime < time.time() - _SETTLED else _stamps.__wrapped__(*file)

    def ends(self) -> tuple[int, int] | None:
        """Find the first and the last time stamp of all whole records, wanted or not; None if there are none."""
        if not self._records:
            return None
        order = np.argsort(self._stamps(self._records), kind="stable")
        # Records that are not whole may have any time stamp: others are looked for from both ends inwards.
        found = [
            next((t for i in way.tolist() if (t := self._time(i)) is not None), None) for way in (order, order[::-1])
        ]
        return None if found[0] is None or found[1] is None else (found[0], found[1])

    def _time(self, record: int) -> int | None:
        """Give the time stamp of a record, if it is whole."""
        whole, numbers = self._headers(np.array([self._records[record]], np.int64))
        return int(numbers["timestamp"][0]) if whole[0] else None

    def marks(self, chunks: NDArray[np.int64] | slice) -> NDArray[np.uint8]:
        """Read which packets of some chunks arrived.

        Parameters
        ----------
        chunks : ndarray of int64, or slice
            Their places.

        Returns
        -------
        ndarray of uint8, shape (chunk, head, packet) or (chunk, head, packet, part)
            1 where one did.
        """
        found = equal_pieces(self.path, self.file.fileno(), self.at[chunks] + PAGE, self.layout.cells)
        return found.reshape(-1, *self.layout.marks_shape)

    @property
    def bodies(self) -> NDArray[np.int64]:
        """Bytes at which payloads begin, shape (chunk,)."""
        return self.at + PAGE + pages(self.layout.cells)

    @cached_property
    def _bytes(self) -> NDArray[np.uint8]:
        return np.frombuffer(mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)

    def __len__(self) -> int:
        return len(self.at)

    def __getitem__(self, index: int) -> StoredChunk:
        layout = self.layout
        marks, data = int(self.at[index]) + PAGE, int(self.bodies[index])
        present = self._bytes[marks : marks + layout.cells].reshape(layout.marks_shape)
        body = self._bytes[data : data + layout.data_bytes].reshape(layout.shape)
        _, number, epoch, timestamp, placed, _ = self._numbers[index].item()
        return StoredChunk(number, epoch, timestamp, placed, body, present)

    def __iter__(self) -> Iterator[StoredChunk]:
        for index in range(len(self)):
            yield self[index]
