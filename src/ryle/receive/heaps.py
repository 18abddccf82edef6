"""MeerKAT's F-heaps: which an X-engine gets, placed packet by packet, and K-blocks of them.

A lost packet costs its channel group; if the packet that holds ``feng_valid`` is lost, all of its heap is invalid,
because it is not known which spectra are not.
"""

from __future__ import annotations

import numpy as np

from ryle.chunk import BLOCK, SpectraChunk
from ryle.config import Observation
from ryle.receive._native import to_kblocks
from ryle.receive.assembly_plan import Part, heap_parts
from ryle.receive.ring_plan import SPARE, arrival_rate, f_period, open_chunks, ring_plan, silence_after
from ryle.stream.block import Block
from ryle.wire.description import Format

_PLAIN, _TAILED = 1, 2  # kinds of heaps, as native code knows them


class HeapMap:
    """Which F-heaps an X-engine gets, and what a block of them is.

    A block is ``[antenna][heap][payload]``, payloads with their validity behind them.

    Parameters
    ----------
    observation : Observation
        Sizes.
    substream : int
        Which share of the band.
    batches : int
        Length of a block in batches of lcm(64, spectra per heap) spectra.
    waits : bool
        Whether the source can be held up (`ryle.receive.assembly.Plan.waits`).
    timed : bool
        Whether streams are not further apart than usual; else, with `waits`, by as much as memory allows.
    """

    def __init__(
        self, observation: Observation, substream: int, batches: int, *, waits: bool = False, timed: bool = True
    ) -> None:
        o = observation
        self.unit = 1
        self.first_channel, self.channels = substream * o.substream_channels, o.substream_channels
        self._antennas, self._pols, self._groups = len(o.antennas), o.pols, o.groups
        self._value_bytes, self._per_heap, self._step = o.value_bytes, o.fengine.spectra_per_heap, o.step
        spectra = o.batch_spectra * batches
        self._blocks = spectra // BLOCK
        nbytes, tail = o.spectra_heap_bytes, o.pols * self._per_heap // 8
        self._plain_bytes = nbytes
        format = Format.load("meerkat_f").given(
            channels=self.channels,
            spectra=self._per_heap,
            step=o.step * self._per_heap,
            bits=o.fengine.output_bits,
            pols=o.pols,
        )
        span = spectra * o.step
        apart = open_chunks(o.network.skew, span / float(o.sample_rate))
        slot = -(-(nbytes + tail) // 64) * 64
        self.plan = ring_plan(
            format,
            [(antenna, self.first_channel) for antenna in range(self._antennas)],
            packets=spectra // self._per_heap,
            chunks=(2 if not timed else apart + 3) + SPARE,
            span=span,
            apart=apart,
            rate=arrival_rate(o),
            silence=silence_after(o, f_period(o)),
            waits=waits,
            timed=timed,
            parts=(*heap_parts(nbytes, nbytes // o.groups), Part(nbytes, tail, nbytes, optional=True)),
            notes=("heap_length",),
        )
        self._slot = slot
        shape = (self.channels, self._blocks, o.n_inputs, 2 * BLOCK)
        self._data = np.ones(shape, np.int8)  # written: pages are there
        self._valid = np.ones((self._groups, self._blocks, o.n_inputs), np.uint64)

    def given(self, block: Block) -> SpectraChunk:
        """Arrange a block's heaps as K-blocks, in memory that the next call writes to again."""
        present = block.planes["present"]
        length = block.planes["notes"][..., 0]
        kind = np.where(length > self._plain_bytes, _TAILED, _PLAIN).astype(np.uint8)
        kind[~present.any(axis=2)] = 0
        to_kblocks(block.data, present, kind, self._per_heap, self._pols, self._value_bytes, self._data, self._valid)
        return SpectraChunk(block.start // self._step // BLOCK, self._data, self._valid)
