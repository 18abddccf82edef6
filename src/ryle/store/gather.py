"""Payloads of some heads of a chunk, wherever they lie, one behind the other in memory that a disk takes."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

from ryle.receive.assembly import Chunk
from ryle.store.chunk_file import Layout, StoredChunk, pages, record_header


@dataclass(frozen=True)
class _Room:
    """Memory of one chunk that begins on a page: marks, then payloads, each to whole pages."""

    marks: NDArray[np.uint8]
    body: NDArray[np.uint8]

    @classmethod
    def of(cls, layout: Layout) -> _Room:
        size = pages(layout.cells)
        memory = np.frombuffer(mmap.mmap(-1, size + pages(layout.data_bytes)), np.uint8)
        return cls(memory[:size], memory[size:])


class Gather:
    """Copies what is wanted of chunks. From any thread.

    Parameters
    ----------
    layout : Layout
        Of these heads alone; payloads as on the wire.
    rows : sequence of int
        Their places in the chunk.
    rooms : int
        Chunks that are copied at once, at most; more wait.
    """

    def __init__(self, layout: Layout, rows: Sequence[int], rooms: int) -> None:
        self._layout, self._rows = layout, list(rows)
        self._rooms: SimpleQueue[_Room] = SimpleQueue()
        for _ in range(rooms):
            self._rooms.put(_Room.of(layout))

    @contextmanager
    def of(self, chunk: Chunk) -> Iterator[tuple[bytes, list[NDArray[np.uint8]]]]:
        """Give the header of a chunk's record, and what is to be written behind it; in memory that is used again."""
        layout, room = self._layout, self._rooms.get()
        try:
            present = room.marks[: layout.cells].reshape(layout.marks_shape)
            data = room.body[: layout.data_bytes].reshape(layout.shape)
            present[...] = chunk.present[self._rows]
            if chunk.addresses.size:
                payloads_at(chunk.addresses[self._rows], data)
            else:
                np.take(chunk.data, self._rows, axis=0, out=data)
            part = StoredChunk(
                chunk.number, chunk.epoch, chunk.timestamp, int(np.count_nonzero(present)), data, present
            )
            yield record_header(part), [room.marks, room.body]
        finally:
            self._rooms.put(room)


def payloads_at(addresses: NDArray[np.uint64], out: NDArray[np.uint8]) -> None:
    """Copy payloads of equal length from where they lie in this process's memory.

    Parameters
    ----------
    addresses : ndarray of uint64, shape (head, packet)
        Where each begins; 0: it is missing, and zeros stand for it.
    out : ndarray of uint8, shape (head, packet, byte)
        Where they go.
    """
    there = addresses != 0
    out[~there] = 0
    if not there.any():
        return
    found, size = addresses[there], out.shape[-1]
    low, high = int(found.min()), int(found.max())
    # A view of all bytes between them, of which nobody reads any but the payloads'.
    memory = np.frombuffer((ctypes.c_uint8 * (high - low + size)).from_address(low), np.uint8)
    starts = np.lib.stride_tricks.sliding_window_view(memory, size)
    out[there] = starts[(found - np.uint64(low)).astype(np.intp)]
