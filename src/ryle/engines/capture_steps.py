"""What a capture does to its blocks: count them, show them to other processes, verify them, store them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ryle.gpu.verify import GpuSink
from ryle.receive.assembly import Chunk
from ryle.receive.entrance import Entrance
from ryle.store.recording import ChunkRecorder
from ryle.store.ring_file import RingFile
from ryle.store.verify import PayloadRule, Verified, verify
from ryle.stream.block import Block
from ryle.stream.step import Step

_PATIENCE = 0.1  # seconds without a block after which what is under way is looked at


class EachChunk(Step):
    """A step that does one thing to every chunk with something in it.

    Parameters
    ----------
    name : str
        For people, and of the thread.
    entrance : Entrance
        Where blocks come from.
    """

    def __init__(self, name: str, entrance: Entrance) -> None:
        super().__init__(name)
        self._entrance, self._source = entrance, entrance.reader()
        #: Processor time of its thread, and when that was looked at, s.
        self.used = (0.0, 0.0)

    def run(self) -> None:
        """Use each chunk; look at what is under way when none comes."""
        while not self._source.ended:
            block = self._source.get(_PATIENCE)
            if block is None:
                self.pause()
            else:
                chunk = self._entrance.assembled(block)
                if chunk.void:  # there is nothing to keep, to look at or to verify
                    block.release()
                else:
                    self.use(chunk, block)
            self.used = time.thread_time(), time.monotonic()
        self.finish()

    def use(self, chunk: Chunk, block: Block) -> None:
        """Do it to a chunk; the block is released when that has been done, now or later."""
        block.release()

    def pause(self) -> None:
        """Nothing has come for a while."""

    def finish(self) -> None:
        """Do what is left to do when no more chunks come."""


class Count(EachChunk):
    """Let each chunk go by: the assembler has counted it.

    Parameters
    ----------
    entrance : Entrance
        Where blocks come from.
    """

    def __init__(self, entrance: Entrance) -> None:
        super().__init__("count", entrance)


class Show(EachChunk):
    """Let other processes see chunks, the newest of them also after everybody else has done with them.

    Parameters
    ----------
    entrance : Entrance
        Where blocks come from; its assembler is the ring's.
    ring : RingFile
        Where others look.
    """

    def __init__(self, entrance: Entrance, ring: RingFile) -> None:
        super().__init__("show", entrance)
        self._ring = ring

    def use(self, chunk: Chunk, block: Block) -> None:
        """Show it, and hide the oldest if there are enough."""
        self._ring.publish(chunk)
        self._ring.retire(chunk, block.release)

    def pause(self) -> None:
        """Hide the oldest if the assembler has no other memory."""
        self._ring.make_room()


class Verify(EachChunk):
    """Compare every payload byte with what it must be, on this processor.

    Parameters
    ----------
    entrance : Entrance
        Where blocks come from.
    rule : callable
        Gives what payloads must be; None while nobody wants to know.
    """

    def __init__(self, entrance: Entrance, rule: Callable[[], PayloadRule | None]) -> None:
        super().__init__("verify", entrance)
        self._rule = rule
        #: What was looked at, and what was wrong.
        self.verified = Verified()

    def use(self, chunk: Chunk, block: Block) -> None:
        """Look at it, if somebody wants to know."""
        with block:
            if (rule := self._rule()) is not None:
                verify(rule, chunk, self.verified)


class Store(EachChunk):
    """Write chunks to files.

    Parameters
    ----------
    entrance : Entrance
        Where blocks come from.
    recorder : ChunkRecorder
        What writes; several chunks at a time.
    """

    def __init__(self, entrance: Entrance, recorder: ChunkRecorder) -> None:
        super().__init__("store", entrance)
        self._recorder = recorder

    def use(self, chunk: Chunk, block: Block) -> None:
        """Begin to write it; it is released when it is written."""
        self._recorder.put(chunk, lambda _: block.release())

    def pause(self) -> None:
        """Release what is written."""
        self._recorder.poll()

    def finish(self) -> None:
        """Write what is left, and end the file."""
        self._recorder.close()


class ToGpu(EachChunk):
    """Copy chunks to GPUs, and verify them there.

    Parameters
    ----------
    entrance : Entrance
        Where blocks come from.
    sink : GpuSink
        What copies.
    rule : callable
        Gives what payloads must be; None while nobody wants to know.
    """

    def __init__(self, entrance: Entrance, sink: GpuSink, rule: Callable[[], PayloadRule | None]) -> None:
        super().__init__("gpu", entrance)
        self._sink, self._rule = sink, rule

    def use(self, chunk: Chunk, block: Block) -> None:
        """Enqueue it; it is released when it has been copied."""
        self._sink.put(chunk, lambda _: block.release(), self._rule())

    def pause(self) -> None:
        """Release what is copied."""
        self._sink.wait()

    def finish(self) -> None:
        """Wait for what is under way."""
        self._sink.wait()


def used(steps: Sequence[EachChunk]) -> tuple[float, float]:
    """Processor time of all steps together, and when that was looked at, s."""
    looked = [step.used for step in steps]
    return sum(cpu for cpu, _ in looked), max((at for _, at in looked), default=0.0)
