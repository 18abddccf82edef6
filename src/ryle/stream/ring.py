"""Rings: a fixed number of blocks between a step that writes them and steps that read them.

Every reader gets every block, in order, and holds it until it releases it. With no block free the writer waits, or the
newest data is dropped and counted, as the ring's policy says: in a live engine only the entrance drops, so a step that
is too slow is seen there, as packets that found no memory, and nowhere else.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Literal

from ryle.stream.block import Block, Event, Together

_TURN = 0.1  # seconds between two looks at whether a wait is still wanted
_IDLE = 1.0  # seconds after which a thread that had no block to wait for ends


class Aborted(Exception):  # noqa: N818 - not an error of whoever gets it: another step has failed
    """The engine ends at once; what was under way is given up."""


class Readable(ABC):
    """What steps read blocks from: a ring, or an assembler at an engine's entrance.

    Parameters
    ----------
    name : str
        Of what flows in it, for people.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._changed = threading.Condition()
        self._readers: list[Reader] = []
        self._holders: dict[int, int] = {}  # block -> readers that have not released it
        self._ended = self._aborted = False
        #: Blocks that readers have been given.
        self.given = 0
        self._kept: SimpleQueue[Block] = SimpleQueue()  # released, but work on a device still reads them
        self._keeper: threading.Thread | None = None

    def reader(self, *, asks: bool = True) -> Reader:
        """Add a reader, before the first block is put in; it gets all blocks.

        Parameters
        ----------
        asks : bool
            Whether it asks for more when it has nothing. One that looks on gets what others ask for: an assembler that
            waits (`ryle.receive.assembly`) takes whoever asks for somebody who has done with all that he was given.
        """
        reader = Reader(self, asks)
        self._readers.append(reader)
        return reader

    def abort(self) -> None:
        """Wake everybody who waits here, with `Aborted`."""
        with self._changed:
            self._aborted = True
            self._changed.notify_all()

    @property
    def fill(self) -> int:
        """Blocks that wait for their slowest reader."""
        with self._changed:
            return max((len(r.waiting) for r in self._readers), default=0)

    def _spread(self, block: Block) -> None:
        """Give a block to all readers; under the lock."""
        self.given += 1
        if not self._readers:
            self._free(block)
            return
        self._holders[id(block)] = len(self._readers)
        block._release = self._released
        for reader in self._readers:
            reader.waiting.append(block)
        self._changed.notify_all()

    def _released(self, block: Block, after: Event | None) -> None:
        with self._changed:
            left = self._holders[id(block)] - 1
            self._holders[id(block)] = left
            if after is not None:  # streams of devices wait for one event at a time
                block.after.extend(after.events if isinstance(after, Together) else (after,))
            if left:
                return
            del self._holders[id(block)]
            block._release = None
            if block.after and not self._waits_itself:
                self._keep(block)
                return
        self._free(block)

    #: Whether the writer works on a device, and waits there for `Block.after`.
    _waits_itself = False

    @abstractmethod
    def _free(self, block: Block) -> None:
        """Take a block back that nobody holds any more; takes the lock where it needs it, and not for long."""

    def _keep(self, block: Block) -> None:
        """Have a block given back when devices are done with it; under the lock."""
        self._kept.put(block)
        if self._keeper is None:
            self._keeper = threading.Thread(target=self._wait_for_devices, name=f"keeper {self.name}", daemon=True)
            self._keeper.start()

    def _wait_for_devices(self) -> None:
        while True:
            try:
                block = self._kept.get(timeout=_IDLE)
            except Empty:
                with self._changed:
                    if self._kept.empty():
                        self._keeper = None
                        return
                continue
            for event in block.after:
                event.synchronize()
            block.after.clear()
            self._free(block)

    def _fetch(self, timeout: float) -> None:
        """Wait for something new, at most so long; under the lock."""
        self._changed.wait(timeout)


class Reader:
    """One reader's view of a ring: iterate, and release each block when it has been used."""

    def __init__(self, ring: Readable, asks: bool = True) -> None:
        self.ring, self._asks = ring, asks
        self.waiting: deque[Block] = deque()

    def get(self, timeout: float | None = None) -> Block | None:
        """Wait for the next block.

        Parameters
        ----------
        timeout : float, optional
            Seconds; as long as it takes if absent.

        Returns
        -------
        Block or None
            None if there was none in time, or at the end (`ended`).

        Raises
        ------
        Aborted
            If the engine ends at once.
        """
        ring = self.ring
        deadline = None if timeout is None else time.monotonic() + timeout
        with ring._changed:
            while True:
                if ring._aborted:
                    raise Aborted(ring.name)
                if self.waiting:
                    return self.waiting.popleft()
                if ring._ended:
                    return None
                left = _TURN if deadline is None else min(_TURN, deadline - time.monotonic())
                if left <= 0:
                    return None
                if self._asks:
                    ring._fetch(left)
                else:
                    ring._changed.wait(left)

    @property
    def ended(self) -> bool:
        """Whether no more blocks will come."""
        with self.ring._changed:
            return self.ring._ended and not self.waiting

    def __iter__(self) -> Iterator[Block]:
        """Go through all blocks; whoever gets one releases it."""
        while (block := self.get()) is not None:
            yield block


class Ring(Readable):
    """Blocks of memory that is allocated once.

    Parameters
    ----------
    name : str
        Of what flows in it.
    make : callable
        Makes a block with its memory.
    blocks : int
        How many.
    policy : "wait" or "drop_newest"
        What a writer does that finds none free.
    device_writer : bool
        The writer works on a device and waits for `Block.after` there. If not, a thread of the ring's waits for it
        before the block counts as free.

    Attributes
    ----------
    dropped : int
        Blocks that there was no memory for.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Block],
        blocks: int,
        policy: Literal["wait", "drop_newest"] = "wait",
        *,
        device_writer: bool = False,
    ) -> None:
        if blocks < 1:
            raise ValueError(f"ring {name!r} has {blocks} blocks; it needs at least 1")
        super().__init__(name)
        self.blocks = blocks
        self.dropped = 0
        self._policy, self._waits_itself = policy, device_writer
        self._spare: deque[Block] = deque(make() for _ in range(blocks))

    def room(self) -> Block | None:
        """Take a block to write to; it is then `put`, or given back by `unused`.

        Returns
        -------
        Block or None
            None if the ring drops and none is free.

        Raises
        ------
        Aborted
            If the engine ends at once.
        """
        with self._changed:
            while not self._spare:
                if self._aborted:
                    raise Aborted(self.name)
                if self._policy == "drop_newest":
                    self.dropped += 1
                    return None
                self._changed.wait(_TURN)
            if self._aborted:
                raise Aborted(self.name)
            return self._spare.popleft()

    def put(self, block: Block) -> None:
        """Let readers have a block."""
        with self._changed:
            self._spread(block)

    def unused(self, block: Block) -> None:
        """Give back a block that nothing was written to."""
        with self._changed:
            self._spare.append(block)
            self._changed.notify_all()

    def close(self) -> None:
        """Say that nothing more will come; readers end behind what is there."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def free(self) -> int:
        """Blocks that can be written to."""
        with self._changed:
            return len(self._spare)

    def _free(self, block: Block) -> None:
        with self._changed:
            block.ready = None
            self._spare.append(block)
            self._changed.notify_all()
