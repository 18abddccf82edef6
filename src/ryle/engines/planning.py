"""What a GPU is to do with a stream of samples, planned ahead in a thread of its own: delays, validity, places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ryle.array.delays import Delays
from ryle.channelize.validity import whole_windows
from ryle.chunk import SampleChunk
from ryle.engines.steering import Steering
from ryle.engines.totals import InputTotals
from ryle.receive.windows import Batches, WindowShape
from ryle.stream.block import Block
from ryle.stream.ring import Reader, Ring
from ryle.stream.step import EachBlock


class Samples(Protocol):
    """What blocks of samples are."""

    @property
    def in_place(self) -> bool:
        """Whether blocks hold addresses of payloads that a GPU reads, in place of samples."""

    @property
    def lent(self) -> bool:
        """Whether the samples lie in the block's own memory, which must be held while they are needed."""

    def given(self, block: Block) -> SampleChunk:
        """View a block as the F-engine takes it."""

    def saturated(self, block: Block) -> int:
        """Count the saturated samples that are reported of it."""


class SomeInputs:
    """What blocks hold of some of their inputs.

    Parameters
    ----------
    samples : Samples
        What they are.
    inputs : slice
        Which.
    """

    def __init__(self, samples: Samples, inputs: slice) -> None:
        self._samples, self._inputs = samples, inputs

    @property
    def in_place(self) -> bool:
        """As of all."""
        return self._samples.in_place

    @property
    def lent(self) -> bool:
        """As of all."""
        return self._samples.lent

    def given(self, block: Block) -> SampleChunk:
        """View the part of a block."""
        return self._samples.given(self._part(block))

    def saturated(self, block: Block) -> int:
        """Count what is reported of these inputs."""
        return self._samples.saturated(self._part(block))

    def _part(self, block: Block) -> Block:
        inputs, planes = self._inputs, {n: block.planes[n] for n in ("present", "notes") if n in block.planes}
        chunk = block.data
        if isinstance(chunk, SampleChunk):
            part: Any = SampleChunk(chunk.timestamp, chunk.data[inputs], chunk.present[inputs], chunk.packet_samples)
        else:
            part = chunk[inputs]
        return Block(
            part, {n: plane[inputs] for n, plane in planes.items()}, block.place, block.epoch, block.start, block.span
        )


@dataclass(frozen=True, slots=True)
class Restart:
    """Samples begin anew, with a packet since sync."""

    packet: int


@dataclass(frozen=True, slots=True)
class Skip:
    """So many packets are missing; `needed` is the first that is still read."""

    packets: int
    needed: int


@dataclass(frozen=True, slots=True)
class Append:
    """Packets [first, end) of a chunk follow; `needed` is the first, since sync, that is still read."""

    chunk: SampleChunk
    first: int
    end: int
    needed: int


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of spectra can be made, of the packets [low, high) since sync; later ones read none before `needed`."""

    first: int
    low: int
    high: int
    needed: int


@dataclass(slots=True)
class Tables:
    """Arrays of a batch, page-locked where a GPU takes them; they lie one behind the other in `memory`.

    Parameters
    ----------
    memory : ndarray of uint8
        All of them.
    coarse, fine, phase : ndarray, shape (input, spectrum)
        Delays: int64, float64, float64.
    counters : ndarray of uint64, shape (input, 2)
        What the GPU counts: values clamped and input power.
    """

    memory: NDArray[np.uint8]
    coarse: NDArray[np.int64]
    fine: NDArray[np.float64]
    phase: NDArray[np.float64]
    counters: NDArray[np.uint64]

    @classmethod
    def make(cls, inputs: int, spectra: int, allocate: Callable[[int], NDArray[np.uint8]]) -> Tables:
        """Allocate them."""
        size = 8 * inputs * spectra
        memory = allocate(3 * size + 16 * inputs)
        each = memory[: 3 * size].reshape(3, -1)
        shape = inputs, spectra
        coarse = each[0].view(np.int64).reshape(shape)
        fine, phase = (part.view(np.float64).reshape(shape) for part in each[1:])
        return cls(memory, coarse, fine, phase, memory[3 * size :].view(np.uint64).reshape(inputs, 2))


@dataclass(slots=True)
class Planned:
    """What to do next, in this order: `moves`, then the batch if there is one.

    Parameters
    ----------
    tables : Tables
        Of the batch.
    moves : list of Restart, Skip or Append
        What happens to the samples on the GPU.
    batch : Batch or None
        What is made then.
    source : Block or None
        Samples that are not needed on the host any more when the moves have been made.
    gains : ndarray of complex64, shape (input, channel), or None
        Of this batch and those to come, if they are others than before.
    """

    tables: Tables
    moves: list[Restart | Skip | Append] = field(default_factory=list)
    batch: Batch | None = None
    source: Block | None = None
    gains: NDArray[np.complex64] | None = None


class PlanBatches(EachBlock):
    """Blocks of samples to what a GPU is to do with them, at most a batch at a time.

    Parameters
    ----------
    source : Reader
        Of blocks of samples.
    samples : Samples
        What the blocks are.
    shape : WindowShape
        How batches lie in time.
    steering : Steering
        Gives delays and gains.
    totals : InputTotals
        Where ADC values are counted.
    out : Ring
        Of `Planned`.
    piece : int
        Packets of an input that move at once at most.
    """

    def __init__(
        self,
        source: Reader,
        samples: Samples,
        shape: WindowShape,
        steering: Steering,
        totals: InputTotals,
        out: Ring,
        piece: int,
    ) -> None:
        super().__init__("plan", source, [out])
        self._samples, self._shape, self._steering, self._totals = samples, shape, steering, totals
        self._out, self._piece = out, piece
        self._batches = Batches(shape)
        self._size = 0  # samples of a packet
        self._first, self._present = 0, np.zeros((0, 0), np.uint8)  # packets that batches still read: which are there
        self._moves: list[Restart | Skip | Append] = []

    def use(self, block: Block) -> None:
        """Plan what a block makes possible."""
        chunk = self._samples.given(block)
        self._totals.adc_saturated += self._samples.saturated(block)
        if not self._samples.in_place:  # else only the GPU looks at samples, and nobody counts their values
            self._totals.look(chunk)
        self._size, start = chunk.packet_samples, chunk.timestamp // chunk.packet_samples
        if self._batches.parts(chunk.timestamp):
            self.finish()
        if self._batches.needed is None:
            self._moves.append(Restart(start))
            self._first, self._present = start, np.zeros((chunk.inputs, 0), np.uint8)
        elif start > self._end:
            self._skip(start - self._end)
        packets, a = chunk.present.shape[1], 0
        while a < packets:
            ahead = self._complete - start - a
            b = min(a + (min(ahead, self._piece) if ahead > 0 else self._piece), packets)
            self._moves.append(Append(chunk, a, b, self._needed))
            self._add(chunk.present[:, a:b])
            self._make(self._batches.add((start + a) * self._size, (start + b) * self._size))
            a = b
        self._put(None, block)

    def finish(self) -> None:
        """Plan the batches that are left; what they lack is missing."""
        self._make(self._batches.end())

    @property
    def _end(self) -> int:
        """Packet since sync behind the last."""
        return self._first + self._present.shape[1]

    @property
    def _needed(self) -> int:
        """First packet since sync that batches to come read, of those that came."""
        needed = self._batches.needed
        return self._end if needed is None else max(needed // self._size, self._first)

    @property
    def _complete(self) -> int:
        """Packet since sync with which the next batch is complete: of those behind it, little before is needed."""
        complete = self._batches.complete
        return self._end + self._piece if complete is None else -(-complete // self._size)

    def _add(self, present: NDArray[np.uint8]) -> None:
        needed = self._needed
        self._present = np.concatenate((self._present[:, needed - self._first :], present), axis=1)
        self._first = needed

    def _skip(self, packets: int) -> None:
        while packets > 0:
            some = min(packets, self._piece)
            self._moves.append(Skip(some, self._needed))
            self._add(np.zeros((len(self._present), some), np.uint8))
            packets -= some

    def _make(self, firsts: Iterator[int]) -> None:
        for first in firsts:
            low, high = self._shape.span(first)
            high = -(-high // self._size)
            self._skip(high - self._end)
            needed = self._shape.span(first + self._shape.batch)[0] // self._size
            self._put(Batch(first, low // self._size, high, needed))

    def _put(self, batch: Batch | None, source: Block | None = None) -> None:
        room = self._out.room()
        assert room is not None
        plan = Planned(room.data.tables, self._moves, batch, source)
        room.data, self._moves = plan, []
        if batch is not None:
            room.start, room.span = batch.first, self._shape.batch
            room.planes["valid"] = self._fill(plan.tables, batch.first)
            plan.gains = self._steering.new_gains(batch.first)
        self._out.put(room)

    def _fill(self, tables: Tables, first: int) -> NDArray[np.bool_]:
        """Write a batch's delays; give which of its spectra are valid, (input, spectrum)."""
        self._steering.delays(first, Delays(tables.coarse, tables.fine, tables.phase))
        step, window, size = self._shape.step, self._shape.window, self._size
        return whole_windows(tables.coarse, first, step, window, self._present, size, self._first * size)


def plan_ring(inputs: int, spectra: int, blocks: int, allocate: Callable[[int], NDArray[Any]]) -> Ring:
    """Make a ring of plans."""
    return Ring("plans", lambda: Block(Planned(Tables.make(inputs, spectra, allocate))), blocks)


def ring_packets(shape: WindowShape, packet_samples: int) -> tuple[int, int]:
    """Say how many packets of an input move at once at most, and for how many the ring on the GPU has room.

    A window, and three batches beside it: while one is read, the next are copied.
    """
    low, high = shape.span(0)
    window = (high - low) // packet_samples + 3  # packets of a batch, as they fall
    batch = shape.batch * shape.step // packet_samples
    piece = max(1, batch)
    return piece, max(2 * window, window + 3 * (batch + 1)) + piece
