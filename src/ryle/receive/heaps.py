"""MeerKAT's F-heaps: which an X-engine gets, placed packet by packet, where their samples lie and which are valid.

A lost packet costs its channel group; if the packet that holds ``feng_valid`` is lost, all of its heap is invalid,
because it is not known which spectra are not.
"""

from __future__ import annotations

import numpy as np

from ryle.chunk import BLOCK, PacketChunk, PacketOrder, valid_words
from ryle.config import Observation
from ryle.receive.assembly_plan import Part, heap_parts
from ryle.receive.ring_plan import SPARE, f_period, late_chunks, open_chunks, ring_plan, silence_after
from ryle.stream.block import Block
from ryle.wire.description import Format


class HeapMap:
    """Which F-heaps an X-engine gets, and what a block of them is.

    A block is ``[antenna][heap][payload]``, payloads ``[channel][spectrum][pol]`` with their validity behind them.

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
        self._pols, self._per_heap, self._step = o.pols, o.fengine.spectra_per_heap, o.step
        spectra = o.batch_spectra * batches
        nbytes, tail = o.spectra_heap_bytes, o.pols * self._per_heap // 8
        self._tail = slice(nbytes, nbytes + tail)
        format = Format.load("meerkat_f").given(
            channels=self.channels,
            spectra=self._per_heap,
            step=o.step * self._per_heap,
            bits=o.fengine.output_bits,
            pols=o.pols,
        )
        span = spectra * o.step
        seconds, size = span / float(o.sample_rate), len(o.antennas) * (spectra // self._per_heap) * (nbytes + tail)
        apart, late = open_chunks(o.network.skew, seconds), late_chunks(seconds, size)
        self.plan = ring_plan(
            format,
            [(antenna, self.first_channel) for antenna in range(len(o.antennas))],
            packets=spectra // self._per_heap,
            chunks=(2 if not timed else apart + 3 + late) + SPARE,
            span=span,
            apart=apart,
            rate=o.arrival_rate,
            silence=silence_after(o, f_period(o)),
            waits=waits,
            timed=timed,
            parts=(*heap_parts(nbytes, nbytes // o.groups), Part(nbytes, tail, nbytes, optional=True)),
            notes=("heap_length",),
        )
        heaps, slot = self.plan.shape[1:]
        sample, spectrum, inputs = o.value_bytes, np.arange(spectra), np.arange(o.n_inputs)
        column = self._per_heap * o.pols * sample
        self._order = PacketOrder(
            spectrum=spectrum // self._per_heap * slot + spectrum % self._per_heap * o.pols * sample,
            channel=np.arange(self.channels) * column,
            input=inputs // o.pols * heaps * slot + inputs % o.pols * sample,
            bits=o.fengine.output_bits,
            flip=0,
            swapped=False,
            conjugated=np.zeros(o.n_inputs, np.uint8),
        )

    def given(self, block: Block) -> PacketChunk:
        """View a block's heaps as the X-engine takes them; it must not be released before that was used."""
        came = block.planes["present"][..., :-1] != 0  # antenna, heap, group; the last packet is the tail's
        words = valid_words(np.repeat(came.swapaxes(1, 2), self._per_heap, axis=2))  # antenna, group, block
        valid = np.repeat(words.transpose(1, 2, 0), self._pols, axis=2)
        tailed = block.planes["notes"][..., 0] > self._tail.start
        if tailed.any():  # a tail that did not come is zeros: nothing of the heap is valid
            tails = np.where(tailed[..., np.newaxis], block.data[..., self._tail], np.uint8(0xFF))
            by_pol = tails.reshape(*tailed.shape, self._pols, -1).swapaxes(1, 2)  # antenna, pol, heap, byte
            valid &= by_pol.reshape(valid.shape[2], -1).view("<u8").T
        return PacketChunk(block.start // self._step // BLOCK, block.data, valid, self._order)
