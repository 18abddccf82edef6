"""One recording that somebody triggered: blocks of samples to a file, in a thread that the disk may hold up."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from ryle.config import show
from ryle.receive.assembly import Chunk
from ryle.store.recording import ChunkRecorder
from ryle.stream.block import Block

_PATIENCE = 0.1  # seconds without a block after which what is written is given back
_RESERVE = 1 << 30, 20  # bytes that are left to others, or this part of the disk if that is less


@dataclass(slots=True, eq=False)
class Held:
    """A block of samples that is kept; whether it is on its way to the disk."""

    block: Block
    chunk: Chunk
    writing: bool = False


@dataclass(frozen=True)
class Wanted:
    """What is to be written.

    Parameters
    ----------
    name : str
        What whoever triggered calls it.
    sample, end : int
        First time stamp, and the one behind the last, of whole blocks.
    stem : str
        Of the file's name, with its directory.
    """

    name: str
    sample: int
    end: int
    stem: str


def room(directory: Path) -> int:
    """Give the bytes that recordings may take of a directory's disk: the visibilities need some as well."""
    disk = shutil.disk_usage(directory)
    return max(0, disk.free - min(_RESERVE[0], disk.total // _RESERVE[1]))


class Recording:
    """Writes blocks as they come, from `start` to `end`.

    Parameters
    ----------
    wanted : Wanted
        What.
    make : callable
        Makes the recorder, and with it the file, when there is something to write.
    give_back : callable
        Gets each block when it has been written, or is not going to be; from the thread that writes.
    """

    def __init__(self, wanted: Wanted, make: Callable[[], ChunkRecorder], give_back: Callable[[Held], None]) -> None:
        self.wanted, self.stop_at = wanted, wanted.end
        self._make, self._give_back = make, give_back
        self._waiting: SimpleQueue[Held | None] = SimpleQueue()
        self._recorder: ChunkRecorder | None = None
        self._taken = self._missed = 0  # blocks that came for it, and those that found no memory
        self._ended = False  # no more blocks will come
        #: Why it could not go on; empty if it could.
        self.failure = ""
        self._thread = threading.Thread(target=self._write, name="trigger", daemon=True)
        self._started = self._over = False

    def start(self) -> None:
        """Begin to write."""
        self._started = True
        self._thread.start()

    def put(self, held: Held) -> None:
        """Write a block; it is given back then."""
        held.writing = True
        self._taken += 1
        self._waiting.put(held)

    def miss(self, blocks: int = 1) -> None:
        """Count blocks that are lost, as the disk has not given back the memory that is there for them."""
        self._missed += blocks

    def end(self, at: int | None = None) -> None:
        """Say that nothing more comes, and where that is if it is not the end that was wanted."""
        if not self._ended:
            self._ended = True
            self.stop_at = self.stop_at if at is None else max(self.wanted.sample, min(self.stop_at, at))
            self._waiting.put(None)

    def join(self, timeout: float) -> None:
        """Wait until all is written; give up a disk that takes nothing for so long."""
        if self._started:
            self._thread.join(timeout)
            if self._thread.is_alive():
                self.failure, self._over = f"the disk had not taken it {timeout:g} s after the end", True

    @property
    def open(self) -> bool:
        """Whether blocks are still to come."""
        return not self._ended and not self.failure

    @property
    def over(self) -> bool:
        """Whether all that will be written is."""
        return self._over

    @property
    def written(self) -> int:
        """Bytes of blocks that the disk has."""
        return 0 if self._recorder is None else self._recorder.written

    @property
    def lost(self) -> int:
        """Blocks that were there, and are not in the file."""
        blocks = 0 if self._recorder is None else self._recorder.chunks
        return self._missed + (self._taken - blocks if self._over else 0)

    def figures(self) -> dict[str, Any]:
        """Say what it does, or did."""
        recorder, wanted = self._recorder, self.wanted
        over = "failed" if self.failure else "done"
        return {
            "state": over if self._over else "writing" if self._taken else "waiting",
            "name": wanted.name,
            "sample": wanted.sample,
            "end": self.stop_at,
            "file": file_of(wanted.stem) if recorder is None else str(recorder.file),
            "blocks": 0 if recorder is None else recorder.chunks,
            "lost": self.lost,
            "bytes": self.written,
            "failure": self.failure,
        }

    def _write(self) -> None:
        under_way: set[Held] = set()

        def written(held: Held, _: Chunk) -> None:
            under_way.discard(held)
            self._give_back(held)

        recorder: ChunkRecorder | None = None
        try:
            while True:
                try:
                    held = self._waiting.get(timeout=_PATIENCE)
                except Empty:
                    if recorder is not None:
                        recorder.poll()
                    continue
                if held is None:
                    break
                under_way.add(held)
                if recorder is None:
                    self._recorder = recorder = self._make()
                if not room(Path(recorder.file).parent):
                    raise OSError(errno.ENOSPC, f"{recorder.file}: {os.strerror(errno.ENOSPC)}")
                recorder.put(held.chunk, partial(written, held))
            if recorder is not None:
                recorder.close()
            self._over = True
        except Exception as error:  # whatever it is, it is no reason to end the engine
            self.failure = str(error) or repr(error)
            self._close()
            self._over = True
            for left in under_way:
                self._give_back(left)
            while (held := self._waiting.get()) is not None:  # nobody puts more, who sees that it failed
                self._give_back(held)

    def _close(self) -> None:
        if self._recorder is not None:
            with suppress(OSError):  # it has been told what was wrong first
                self._recorder.close()


def file_of(stem: str) -> str:
    """Name the file that a recording writes."""
    return f"{stem}-000000.{ChunkRecorder.suffix}"


def too_long(needed: int, directory: Path) -> str | None:
    """Say why a recording does not fit on a disk; None if it does."""
    if needed <= (free := room(directory)):
        return None
    return (
        f"it takes {show(needed, 'B')}, and {directory} has {show(free, 'B')} for it: ask for fewer samples or inputs"
    )
