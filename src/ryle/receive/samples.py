"""Packets of digitizers, of any described format: which an F-engine gets, and what a block of them is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ryle.chunk import SampleChunk
from ryle.config import Observation
from ryle.receive.ring_plan import SPARE, late_chunks, open_chunks, ring_plan, silence_after
from ryle.receive.windows import window_shape
from ryle.stream.block import Block
from ryle.wire.levels import DECODED_BITS

#: Bytes of which the address of a payload is a multiple that a GPU reads in place.
ALIGNMENT = 16

_SPAN = 2e-3  # seconds of signal that a block holds at least: Python runs a fixed number of times a block
#: Blocks of a trigger's, and seconds of signal, that may be on their way to the disk at least.
_WRITING = 4, 20e-3


class SampleMap:
    """Which packets of samples some antennas' F-engine gets, and where they go.

    A block is ``[input][packet][bytes]``, samples as they came. Those that the channelizer does not take so are decoded
    once, on their way to it.

    Parameters
    ----------
    observation : Observation
        Sizes, stream numbers and the format.
    antennas : sequence of int
        Consecutive antennas; input = position in this sequence · pols + pol.
    samples : int, optional
        Samples of an input that a block holds, about, and 2 ms at least; as many as the F-engine's batches if absent.
    waits : bool
        Whether the source can be held up (`ryle.receive.assembly.Plan.waits`).
    timed : bool
        Whether streams are apart by ``network.skew`` at most; else, with `waits`, by as much as memory allows.
    in_place : bool
        Whether payloads stay where they came to: blocks hold their addresses, 0 for one that is missing.
    keeps : bool
        Whether blocks are kept after use, as long as ``fengine.history`` says, for triggers.

    Attributes
    ----------
    history, held : int
        Blocks that are kept after use, and that triggers hold at most; 0 if none are kept. The ring has so many more.
    """

    unit = 1

    def __init__(
        self,
        observation: Observation,
        antennas: Sequence[int],
        samples: int | None = None,
        *,
        waits: bool = False,
        timed: bool = True,
        in_place: bool = False,
        keeps: bool = False,
    ) -> None:
        o = observation
        self.format = o.digitizer_format
        self._levels = o.levels
        self._size = o.digitizer.heap_samples
        rate = float(o.sample_rate)
        shape = window_shape(o)
        low, high = shape.span(0)  # what the F-engine holds on to, for spectra to come
        if samples is None:
            samples = shape.batch * shape.step
        packets = max(1, round(max(samples, _SPAN * rate) / self._size))
        span = packets * self._size
        apart = open_chunks(o.network.skew, span / rate)
        read = -((low - high) // span) + 1
        blocks, seconds = _WRITING
        self.history = math.ceil(o.fengine.history * rate / span) if keeps else 0
        self.held = self.history + max(blocks, math.ceil(seconds * rate / span)) if keeps else 0
        values = len(antennas) * o.pols * span * self.format.sample.parts
        late = late_chunks(span / rate, values * self.format.sample.bits // 8) if timed else 0
        #: Of decoded samples that are held at most: of blocks that spectra to come read, and of one that is new.
        self.decoded_bytes = 0 if self._levels is None else (read + 1) * values * DECODED_BITS // 8
        status = "status" in self.format.fields
        inputs = [a * o.pols + p for a in antennas for p in range(o.pols)]
        self.plan = ring_plan(
            self.format,
            [o.digitizer_head(i) for i in inputs],
            packets=packets,
            chunks=(2 if not timed else apart + 3 + late) + read + SPARE + self.held,
            span=span,
            apart=apart,
            rate=o.arrival_rate,
            silence=silence_after(o),
            waits=waits,
            timed=timed,
            notes=("status",) if status else (),
            pointers=in_place,
        )

    @property
    def in_place(self) -> bool:
        """Whether blocks hold addresses of payloads, at which the host does not look."""
        return self.plan.pointers

    @property
    def lent(self) -> bool:
        """Whether the samples given lie in the block's own memory: unless they are decoded."""
        return self._levels is None

    def given(self, block: Block) -> SampleChunk:
        """Give a block as the F-engine takes it; if the samples are `lent`, it must be held until they were used."""
        if self._levels is None:
            data, present = block.data, block.planes["present"]
            if self.in_place and (data % ALIGNMENT).any():  # of packets with other headers than the format's
                data = np.where(data % ALIGNMENT == 0, data, np.uint64(0))
                present = present & (data != 0)
            return SampleChunk(block.start, data, present, self._size)
        return SampleChunk(block.start, self._levels.decode(block.data), block.planes["present"].copy(), self._size)

    def saturated(self, block: Block) -> int:
        """Count the saturated samples that digitizers report in a block's packets (MeerKAT's status words)."""
        if not self.plan.notes:
            return 0
        status = block.planes["notes"][..., 0] * (block.planes["present"] != 0)
        return int(((status >> np.uint64(32)) & np.uint64(0xFFFF)).sum())
