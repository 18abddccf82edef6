"""A live ring of chunks that other processes map: to follow it, or to copy a chunk out of it.

The assembler's memory is the file, so nothing is copied to share it. A record for each slot says which chunk lies
there; it is withdrawn before the slot is filled anew. Readers only read: they hold nothing, can be killed at any
moment and never make the capture wait. Who reads a chunk while its slot is taken back finds out from the record
afterwards (`RingChunk.intact`); who is too slow loses chunks, which `RingReader.lost` counts.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ryle.receive.assembly import Assembler, Chunk, Plan
from ryle.store.chunk_file import PAGE, Layout, StoredChunk, pages
from ryle.store.shared import open_shared

_MAGIC = b"RYLERING"
_HEAD = struct.Struct("<8s6Q")  # magic, bytes of JSON, slots, at: records, memory; slot bytes; at in a slot: marks
_RECORD = struct.Struct("<Q4qI")  # order (0: withdrawn), number, epoch, timestamp, placed, CRC-32 of these
_RECORD_BYTES = 64


class RingFile:
    """The ring of a capture, in a file that others may map.

    Parameters
    ----------
    path : Path
        The file; it should lie in shared memory.
    plan : Plan
        What chunks look like.
    hold : int
        Chunks that stay readable after use, as long as the assembler has others.

    Attributes
    ----------
    assembler : Assembler
        Fills the ring.

    Raises
    ------
    OSError
        If there is not enough shared memory; the message says how much is needed.
    """

    def __init__(self, path: Path, plan: Plan, hold: int = 4) -> None:
        self.path = path
        text = Layout.of(plan).to_json().encode()
        records = pages(_HEAD.size + len(text))
        memory = records + pages(plan.chunks * _RECORD_BYTES)
        size = memory + Assembler.memory_bytes(plan)
        with path.open("xb+") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, size)  # a mapping without memory behind it would kill the process
            except OSError as error:
                path.unlink()
                raise OSError(
                    error.errno,
                    f"the ring takes {size / 2**20:.0f} MiB of shared memory in {path.parent}: {error.strerror}; "
                    "choose fewer or smaller chunks, or make it larger (mount -o remount,size=… /dev/shm)",
                ) from None
            self._map = mmap.mmap(file.fileno(), size)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._map.madvise(mmap.MADV_HUGEPAGE)
        whole = np.frombuffer(self._map, np.uint8)
        self.assembler = Assembler(plan, whole[memory:])
        slot = self.assembler.native.slot_bytes
        self._map[_HEAD.size : _HEAD.size + len(text)] = text
        self._records = records
        self._orders = whole[records:memory].view(np.uint64).reshape(-1, _RECORD_BYTES // 8)[:, 0]
        self._order = 0
        self._held: deque[tuple[Chunk, Callable[[], None]]] = deque()
        self._hold = hold
        self._map[: _HEAD.size] = _HEAD.pack(
            _MAGIC, len(text), plan.chunks, records, memory, slot, pages(Layout.of(plan).data_bytes)
        )

    def publish(self, chunk: Chunk) -> None:
        """Let others see a chunk, from now until some time after `retire`."""
        self._order += 1
        body = _RECORD.pack(self._order, chunk.number, chunk.epoch, chunk.timestamp, chunk.placed, 0)[:-4]
        at = self._records + chunk.slot * _RECORD_BYTES
        self._map[at + 8 : at + _RECORD.size] = (body + struct.pack("<I", zlib.crc32(body)))[8:]
        self._orders[chunk.slot] = self._order  # last, and at once

    def retire(self, chunk: Chunk, release: Callable[[], None] | None = None) -> None:
        """Give a chunk back when there are enough newer ones, or when the assembler has no other memory.

        Parameters
        ----------
        chunk : Chunk
            One that was published.
        release : callable, optional
            Gives it back; `Chunk.release` if absent.
        """
        self._held.append((chunk, release or chunk.release))
        while len(self._held) > self._hold:
            self._hide()
        self.make_room()

    def make_room(self) -> None:
        """Give chunks back that were retired, but for the newest, if the assembler has no other memory."""
        while len(self._held) > 1 and self.assembler.counts().free == 0:
            self._hide()

    def _hide(self) -> None:
        chunk, release = self._held.popleft()
        self._orders[chunk.slot] = 0
        release()

    @property
    def held(self) -> int:
        """Chunks that are readable although they are used."""
        return len(self._held)

    def clear(self) -> None:
        """Give all chunks back."""
        while self._held:
            self._hide()


@dataclass(frozen=True)
class RingChunk(StoredChunk):
    """A chunk in another process's ring, which may be taken back at any moment."""

    order: int
    intact: Callable[[], bool]
    """Whether all that was read so far was this chunk's."""


class RingReader:
    """Read the ring of another process.

    Parameters
    ----------
    path : path
        Its file: ``ring`` in the directory of a capture's status page.

    Attributes
    ----------
    layout : Layout
        What the chunks are.
    lost : int
        Chunks that were gone before they could be read.

    Raises
    ------
    ValueError
        If it is no ring.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        with open_shared(self._path) as file:  # in shared memory, where anybody may have put it
            self._inode = os.fstat(file.fileno()).st_ino
            if os.fstat(file.fileno()).st_size < PAGE:
                raise ValueError(f"{path} is no ring of chunks, or is just being made")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if self._map[: len(_MAGIC)] != _MAGIC:
            raise ValueError(f"{path} is no ring of chunks, or is just being made")
        _, text, self._slots, self._records, self._memory, self._slot_bytes, self._marks = _HEAD.unpack_from(self._map)
        end = self._records + self._slots * _RECORD_BYTES
        try:
            if self._memory + self._slots * self._slot_bytes > len(self._map) or end > self._memory:
                raise ValueError
            self.layout = Layout.from_json(self._map[_HEAD.size : _HEAD.size + text])
            if (
                self._slots < 1
                or self._marks + self.layout.cells > self._slot_bytes
                or self.layout.data_bytes > self._marks
            ):
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(f"{path} is no ring of chunks: its sizes contradict each other") from None
        self._bytes = np.frombuffer(self._map, np.uint8)
        self._orders = self._bytes[self._records : end].view(np.uint64).reshape(-1, _RECORD_BYTES // 8)[:, 0]
        self._next = 1
        self.lost = 0

    def _chunk(self, slot: int) -> RingChunk | None:
        at = self._records + slot * _RECORD_BYTES
        head = self._map[at : at + _RECORD.size]
        order, number, epoch, timestamp, placed, check = _RECORD.unpack(head)
        if order == 0 or check != zlib.crc32(head[:-4]):
            return None
        layout, start = self.layout, self._memory + slot * self._slot_bytes
        data = self._bytes[start : start + layout.data_bytes].reshape(layout.shape)
        marks = self._bytes[start + self._marks :][: layout.cells].reshape(layout.marks_shape)
        return RingChunk(number, epoch, timestamp, placed, data, marks, order, lambda: self._orders[slot] == order)

    def chunks(self) -> list[RingChunk]:
        """Give all chunks that can be read now, the oldest first."""
        found = (self._chunk(slot) for slot in range(self._slots))
        return sorted((c for c in found if c is not None), key=lambda c: c.order)

    def copy(self, number: int | None = None, patience: float = 5.0) -> StoredChunk:
        """Copy a chunk, whole.

        Parameters
        ----------
        number : int, optional
            Its number; the newest if absent.
        patience : float
            Seconds to wait for the first chunk, or for one that was not taken back meanwhile.

        Raises
        ------
        LookupError
            If there is no such chunk, or none in time; says which there are.
        """
        deadline = time.monotonic() + patience
        while True:
            found = [c for c in self.chunks() if number in (None, c.number)]
            if found:
                c = found[-1]
                copy = StoredChunk(c.number, c.epoch, c.timestamp, c.placed, c.data.copy(), c.present.copy())
                if c.intact():
                    return copy
            elif number is not None:
                there = [c.number for c in self.chunks()]
                held = f"it holds {there[0]} to {there[-1]}" if there else "it holds none"
                raise LookupError(f"chunk {number} is not in the ring: {held}")
            if time.monotonic() > deadline:
                raise LookupError(f"no chunk within {patience:g} s: does anything arrive?")
            time.sleep(0.005)

    def follow(self, alive: Callable[[], bool] = lambda: True) -> Iterator[RingChunk]:
        """Give every chunk once, in order, as it comes; look at `RingChunk.intact` after use.

        Parameters
        ----------
        alive : callable
            Whether more may come; when it gives False and all was given, iteration ends.
        """
        while True:
            more = alive() and self._there()
            new = [c for c in self.chunks() if c.order >= self._next]
            for c in new:
                self.lost += c.order - self._next
                self._next = c.order + 1
                yield c
            if not new and not more:
                return
            if not new:
                time.sleep(0.001)

    def _there(self) -> bool:
        try:
            return self._path.stat().st_ino == self._inode
        except OSError:
            return False
