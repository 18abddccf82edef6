"""Captures to disk: rings of files of whole chunks, or of packets as they came (pcap).

Chunks go straight from the ring's memory to the disk, past the page cache (O_DIRECT) where the file system can, two at
a time. Files follow one another by size or time, and the oldest are removed if only some are to be kept.
"""

from __future__ import annotations

import errno
import itertools
import mmap
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.config.endpoints import Endpoint
from ryle.receive import _native
from ryle.receive.assembly import Assembler, Chunk
from ryle.receive.sources import Discard
from ryle.store.chunk_file import PAGE, Layout, file_header, pages, record_header
from ryle.store.gather import Gather
from ryle.store.pcap_write import headers

_IN_FLIGHT = 2


@dataclass(frozen=True, slots=True)
class Files:
    """Where to record, and when to begin another file.

    Parameters
    ----------
    stem : str
        Files are ``stem-000000.chunks`` (or ``.pcap``) and so on.
    bytes : int
        Begin another file before one gets longer; 0: never.
    seconds : float
        Begin another file after so long; 0: never.
    keep : int
        How many of the newest files to keep; 0: all.
    direct : bool
        Write past the page cache if the file system can.
    """

    stem: str
    bytes: int = 0
    seconds: float = 0.0
    keep: int = 0
    direct: bool = True

    def path(self, number: int, suffix: str) -> Path:
        """Name a file."""
        return Path(f"{self.stem}-{number:06d}.{suffix}")


def unused_stem(stem: str, *, overwrite: bool = False) -> str:
    """Give `stem`, or ``stem-2`` and so on if files of an earlier recording have it; these go if `overwrite`."""

    def files(stem: str) -> list[Path]:
        numbered = re.compile(re.escape(Path(stem).name) + r"-\d{6,}\.(chunks|pcap)")
        return [p for p in Path(stem).parent.glob("*") if numbered.fullmatch(p.name)]

    if overwrite:
        for path in files(stem):
            path.unlink()
        return stem
    stems = itertools.chain([stem], (f"{stem}-{count}" for count in itertools.count(2)))
    return next(s for s in stems if not files(s))


def _open(path: Path, direct: bool, present: int = os.O_EXCL) -> tuple[int, bool]:
    """Open a new file; whether it is written past the page cache. What is to become of one that is there, flags say."""
    flags = os.O_WRONLY | os.O_CREAT | present | os.O_CLOEXEC
    if direct:
        try:
            return os.open(path, flags | os.O_DIRECT, 0o644), True
        except OSError as error:
            if error.errno != errno.EINVAL:  # the file system has no such thing
                raise
    return os.open(path, flags, 0o644), False


def _write(descriptor: int, parts: list[memoryview], at: int) -> None:
    """Write all of some pieces of memory one behind the other."""
    parts = list(parts)
    while parts:
        done = os.pwritev(descriptor, parts, at)
        if done % PAGE and done < sum(map(len, parts)):
            raise OSError(errno.ENOSPC, "no room for all of it")
        at += done
        while parts and done >= len(parts[0]):
            done -= len(parts.pop(0))
        if parts and done:
            parts[0] = parts[0][done:]


class _File:
    """One file of chunks; closed when the last record that was begun is written."""

    def __init__(self, path: Path, layout: Layout, direct: bool) -> None:
        self.path = path
        self.descriptor, self.direct = _open(path, direct)
        head = file_header(layout)
        page = mmap.mmap(-1, len(head))
        page[:] = head
        self.began = time.monotonic()
        self.size = self._start = len(head)
        self._whole = len(head)  # up to here all records are written
        self._written: set[int] = set()
        self._record = layout.record_bytes
        self._pending = 0
        self._closing = False
        self._lock = threading.Lock()
        try:
            _write(self.descriptor, [memoryview(page)], 0)
        except OSError:
            os.close(self.descriptor)
            raise

    @property
    def begun(self) -> bool:
        """Whether it has records."""
        return self.size > self._start

    def begin(self) -> int:
        """Give the next record's place."""
        with self._lock:
            at = self.size
            self.size += self._record
            self._pending += 1
            return at

    def done(self, at: int | None) -> None:
        """Note that a record is written at `at`, or could not be (None)."""
        with self._lock:
            self._pending -= 1
            if at is not None:
                self._written.add(at)
                while self._whole in self._written:
                    self._written.remove(self._whole)
                    self._whole += self._record
            self._end()

    def close(self) -> None:
        """Close, once everything is written."""
        with self._lock:
            self._closing = True
            self._end()

    def _end(self) -> None:
        if self._closing and not self._pending and self.descriptor >= 0:
            os.ftruncate(self.descriptor, max([self._whole, *(at + self._record for at in self._written)]))
            os.close(self.descriptor)
            self.descriptor = -1


class ChunkRecorder:
    """Write chunks to files as they lie in the ring; used by one thread.

    Parameters
    ----------
    files : Files
        Where and how.
    layout : Layout
        What the chunks are, or what is written of them.
    assembler : Assembler
        Whose chunks they are.
    rows : sequence of int, optional
        Heads that are written, by their places; all if absent. Payloads of some, and those that lie where packets came
        to, are gathered.

    Attributes
    ----------
    chunks, files_begun, written : int
        Chunks written, files begun, bytes that the disk has.
    busy_seconds : float
        Time that the writing threads spent writing, added up.
    direct : bool
        Whether files are written past the page cache.
    """

    suffix = "chunks"

    def __init__(self, files: Files, layout: Layout, assembler: Assembler, rows: Sequence[int] | None = None) -> None:
        self._files, self._layout, self._assembler = files, layout, assembler
        self._gather: Gather | None = None
        if rows is not None or assembler.plan.pointers:
            every = range(len(assembler.plan.heads))
            self._gather = Gather(layout, every if rows is None else rows, _IN_FLIGHT)
        self.chunks = self.files_begun = self.written = 0
        self.busy_seconds = 0.0
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_IN_FLIGHT, "disk")
        self._headers = deque(mmap.mmap(-1, PAGE) for _ in range(_IN_FLIGHT))
        self._writing: deque[tuple[Future[None], Chunk, Callable[[Chunk], None]]] = deque()
        self._file = self._next_file()
        self.direct = self._file.direct

    def _next_file(self) -> _File:
        file = _File(self._files.path(self.files_begun, self.suffix), self._layout, self._files.direct)
        self.files_begun += 1
        if self._files.keep and self.files_begun > self._files.keep:
            self._files.path(self.files_begun - 1 - self._files.keep, self.suffix).unlink(missing_ok=True)
        return file

    @property
    def file(self) -> Path:
        """The newest file."""
        return self._file.path

    @property
    def fill(self) -> float:
        """Share of the writes that may be under way that are."""
        return len(self._writing) / _IN_FLIGHT

    def put(self, chunk: Chunk, done: Callable[[Chunk], None]) -> None:
        """Begin to write a chunk; `done` gets it when it is written, from a later call of this thread.

        Raises
        ------
        OSError
            If the disk takes no more; the file has been closed behind the last whole chunk. Chunks that were not
            written are given to `done` too.
        """
        self._collect(_IN_FLIGHT - 1)
        f, limit = self._file, self._files
        longer = limit.bytes and f.size + self._layout.record_bytes > limit.bytes
        older = limit.seconds and time.monotonic() - f.began >= limit.seconds
        if f.begun and (longer or older):
            f.close()
            self._file = self._next_file()
        at = self._file.begin()
        write = self._record if self._gather is None else self._gathered
        self._writing.append((self._pool.submit(write, self._file, at, chunk), chunk, done))

    def _record(self, file: _File, at: int, chunk: Chunk) -> None:
        slot = self._assembler.native.slot_bytes
        memory = self._assembler.memory[chunk.slot * slot : (chunk.slot + 1) * slot]
        body = pages(self._layout.data_bytes)
        self._write(file, at, record_header(chunk), [memory[body : body + pages(self._layout.cells)], memory[:body]])

    def _gathered(self, file: _File, at: int, chunk: Chunk) -> None:
        assert self._gather is not None
        with self._gather.of(chunk) as (header, parts):
            self._write(file, at, header, parts)

    def _write(self, file: _File, at: int, header: bytes, parts: list[NDArray[np.uint8]]) -> None:
        began = time.monotonic()
        with self._lock:
            page = self._headers.popleft()
        try:
            page[:] = header
            _write(file.descriptor, [p.data for p in parts], at + PAGE)
            _write(file.descriptor, [memoryview(page)], at)  # last: from now on the record counts
        except BaseException:
            file.done(None)
            raise
        finally:
            with self._lock:
                self._headers.append(page)
                self.busy_seconds += time.monotonic() - began
        file.done(at)
        with self._lock:
            self.chunks += 1
            self.written += self._layout.record_bytes

    def _collect(self, most: int) -> None:
        """Give back what is written; wait until at most so many are under way."""
        while self._writing and (len(self._writing) > most or self._writing[0][0].done()):
            future, chunk, done = self._writing.popleft()
            failure = future.exception()
            done(chunk)
            if failure is not None:
                self._give_up(failure)

    def _give_up(self, failure: BaseException) -> None:
        while self._writing:
            future, chunk, done = self._writing.popleft()
            future.exception()  # waits
            done(chunk)
        self._file.close()
        self._pool.shutdown()
        if not isinstance(failure, OSError):
            raise failure
        raise OSError(
            failure.errno,
            f"{self._file.path} takes no more: {failure.strerror}; what it holds is whole ({self.chunks} chunks)",
        )

    def poll(self) -> None:
        """Give back what is written by now."""
        self._collect(_IN_FLIGHT)

    def close(self) -> None:
        """Wait until everything is written and close the file."""
        try:
            self._collect(0)
        finally:
            self._file.close()
            self._pool.shutdown()

    def figures(self) -> dict[str, Any]:
        """Say how far it is."""
        return {
            "file": str(self.file),
            "files": self.files_begun,
            "chunks": self.chunks,
            "written": self.written,
            "direct": self.direct,
        }


class PacketRecorder:
    """Write packets to pcap files as they come, before they are assembled: a sink between a source and another.

    Files hold every packet that arrived, whatever it is; its source address is not kept. What finds both buffers full
    is not recorded, and counted.

    Parameters
    ----------
    files : Files
        Where and how.
    endpoints : sequence of Endpoint
        Where packets come to, as the source has them.
    sink : Assembler or Discard
        Gets all packets too.
    buffer_bytes : int
        Size of each of the buffers, a multiple of 4096.
    buffers : int
        How many.

    Attributes
    ----------
    native : Sink
        What native sources hand packets to.

    Raises
    ------
    OSError
        If the first file cannot be made.
    """

    suffix = "pcap"

    def __init__(
        self,
        files: Files,
        endpoints: Sequence[Endpoint],
        sink: Assembler | Discard,
        buffer_bytes: int = 16 << 20,
        buffers: int = 4,
    ) -> None:
        heads = [headers(e.host, e.port) for e in endpoints]
        os.close(_open(files.path(0, self.suffix), False, os.O_TRUNC)[0])  # its errors are Python's
        self.native = _native.Recorder(
            sink.native, files.stem, heads, files.bytes, files.seconds, files.keep, buffer_bytes, buffers, files.direct
        )

    @property
    def busy_seconds(self) -> float:
        """Time that the writing thread spent writing."""
        return float(self.native.counts()["busy_seconds"])

    def close(self) -> None:
        """Write what there is and close the file.

        Raises
        ------
        OSError
            If the disk took no more.
        """
        self.native.close()
        self.check()

    def check(self) -> None:
        """Raise OSError if the disk takes no more."""
        if why := self.native.counts()["error"]:
            raise OSError(f"{why}; it holds whole packets up to there, then part of one")

    def figures(self) -> dict[str, Any]:
        """Say how far it is."""
        counts = self.native.counts()
        return {k: counts[k] for k in ("file", "files", "packets", "unrecorded", "written", "direct", "fill")}
