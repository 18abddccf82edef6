"""Runs that write more than their disk has room for: what the disk has of old data is given back to it."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import h5py

from ryle.products.write_back import write_back

_LIBC = ctypes.CDLL(None, use_errno=True)
_HOLE = 0x01 | 0x02  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE


#: Where what is old lies in a file, after the first so many that were old before: how many are now, and (offset, size).
Old = Callable[[Path, int, int], tuple[int, list[tuple[int, int]]]]


def integrations(path: Path, first: int, keep: int) -> tuple[int, list[tuple[int, int]]]:
    """Say where all integrations but the last few lie in a UVH5 file that is being written.

    Chunks that follow each other are one place: a hole of a megabyte takes as long as one of many, and whoever writes
    waits for it. Between them lies what the file knows of all its chunks.
    """
    places: list[tuple[int, int]] = []
    try:
        with h5py.File(path, "r", locking=False) as file:
            times = int(file["Header/Ntimes"][()])
            last = max(first, times - keep)
            for name in ("visdata", "nsamples", "flags"):
                rows = file[f"Data/{name}"].shape[0] // max(1, times)

                def note(chunk: h5py.h5d.StoreInfo, low: int = first * rows, high: int = last * rows) -> None:
                    if low <= chunk.chunk_offset[0] < high and chunk.byte_offset is not None:
                        places.append((chunk.byte_offset, chunk.size))

                if last > first:  # one pass: to ask for a chunk by its place takes as long, each time
                    file[f"Data/{name}"].id.chunk_iter(note)
    except (OSError, KeyError, RuntimeError, ValueError):
        return first, []  # not there yet, or its index is being replaced at this moment
    joined: list[tuple[int, int]] = []
    for offset, size in sorted(places):
        if joined and sum(joined[-1]) == offset:
            joined[-1] = joined[-1][0], joined[-1][1] + size
        else:
            joined.append((offset, size))
    return last, joined


def pieces(size: int) -> Old:
    """Say where all pieces of a size but the last few lie in a plain file."""

    def old(path: Path, first: int, keep: int) -> tuple[int, list[tuple[int, int]]]:
        last = max(first, path.stat().st_size // size - keep)
        return last, [(first * size, (last - first) * size)] if last > first else []

    return old


class DiskRoom:
    """Makes holes of what is old in files that are being written, from ``with`` to its end.

    Nothing is given back that the disk does not have yet, so that all of it is written. What is left are files of
    full length, with zeros in place of what was old, which nobody can read any more.

    Parameters
    ----------
    files : callable
        Gives the files there are.
    keep : int
        Integrations, or pieces, to leave as they are; 0: all.
    old : callable
        Says where the others are.

    Attributes
    ----------
    given_back : int
        Bytes.
    problem : OSError or None
        What refused; nothing is given back from then on.
    """

    def __init__(self, files: Callable[[], Sequence[Path]], keep: int, old: Old = integrations) -> None:
        self._files, self._keep, self._old = files, keep, old
        self._done: dict[Path, int] = {}  # integrations, or pieces, that are holes
        self.given_back = 0
        self.problem: OSError | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="room", daemon=True)

    def __enter__(self) -> Self:
        if self._keep:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._keep:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.5) and self.problem is None:
            for path in self._files():
                try:
                    self._done[path], places = self._old(path, self._done.get(path, 0), self._keep)
                    self._holes(path, places)
                except OSError as error:
                    self.problem = error

    def _holes(self, path: Path, places: Sequence[tuple[int, int]]) -> None:
        if not places:
            return
        file = os.open(path, os.O_RDWR)
        try:
            for offset, size in places:
                write_back(file, offset, size)  # these alone: the whole file would take as long as to write the next
                if _LIBC.fallocate(file, _HOLE, ctypes.c_long(offset), ctypes.c_long(size)):
                    number = ctypes.get_errno()
                    raise OSError(number, f"{path}: no holes can be made: {os.strerror(number)}")
                self.given_back += size
        finally:
            os.close(file)


def to_disk(files: Sequence[Path]) -> float:
    """Wait until the disk has files; say how many seconds that takes."""
    began = time.monotonic()
    for path in files:
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.close(file)
    return time.monotonic() - began
