"""Steps: what an engine does to blocks. Each reads rings and writes rings, and owns none of the blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ryle.stream.block import Block
from ryle.stream.ring import Reader, Ring


class Step(ABC):
    """One thing that an engine does, in a thread of its own, or of those that only enqueue (`ryle.stream.chain`).

    Parameters
    ----------
    name : str
        For people, and of the thread.
    outputs : sequence of Ring
        What it writes; closed when it ends, so that whoever reads them ends too.
    """

    def __init__(self, name: str, outputs: Sequence[Ring] = ()) -> None:
        self.name = name
        self.outputs = list(outputs)
        #: What it reads.
        self.sources: list[Reader] = []

    def wake(self) -> None:  # noqa: B027 - most steps are awake
        """Get ready, a moment before the engine takes anything in: what has rested since it was made may be slow."""

    #: Whether it only enqueues work on a device, and waits for nothing but its inputs and room in its outputs.
    enqueues = False
    #: Whether whoever makes its inputs has taken the room for what it makes of them.
    has_room = False

    @abstractmethod
    def run(self) -> None:
        """Work until the inputs end; what is raised ends the engine."""

    def turn(self, timeout: float) -> bool:
        """Do what has come, at most one thing, and say whether anything had in so many seconds; if it enqueues."""
        raise NotImplementedError(f"{self.name} takes no turns")

    @property
    def ended(self) -> bool:
        """Whether no more will come."""
        return all(source.ended for source in self.sources)

    def finish(self) -> None:  # noqa: B027 - most have nothing left
        """Do what is left to do when no more comes."""

    def close(self) -> None:  # noqa: B027 - most steps have nothing to free
        """Free what it has; called once, after `run` has ended or where it never began."""


class EachBlock(Step):
    """A step that does one thing to each block of one ring, in order.

    Parameters
    ----------
    name : str
        For people, and of the thread.
    source : Reader
        Where blocks come from.
    outputs : sequence of Ring
        What it writes.
    waits : bool
        Whether blocks are waited for until they are ready; a step that only enqueues work on a device waits there.
    """

    def __init__(self, name: str, source: Reader, outputs: Sequence[Ring] = (), *, waits: bool = True) -> None:
        super().__init__(name, outputs)
        self.sources = [source]
        self._source, self._waits = source, waits

    def run(self) -> None:
        """Use each block; then what comes at the end."""
        for block in self._source:
            if self._waits and block.ready is not None:
                block.ready.synchronize()
            self.use(block)
        self.finish()

    def turn(self, timeout: float) -> bool:
        """Use a block, if one comes in time."""
        if (block := self._source.get(timeout)) is None:
            return False
        self.use(block)
        return True

    @abstractmethod
    def use(self, block: Block) -> None:
        """Do it to a block; whoever takes it releases it, now or later."""
