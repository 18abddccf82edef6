"""Packets of others' F-engines made into K-blocks on the CPU; `ryle.correlate.cuda` does so on the GPU.

Samples lie anywhere that `ryle.chunk.PacketOrder` can say, so nothing is copied between the packets as they were
received and the K-blocks. A -8 of four bits, or -128, which Ryle's own F-engine never makes, becomes -7, or -127, and
is counted.
"""

from __future__ import annotations

import numpy as np

from ryle.chunk import BLOCK, PacketChunk, SpectraChunk
from ryle.correlate import _native
from ryle.correlate.correlator import CorrelatorConfig


def check_packets(config: CorrelatorConfig, chunk: PacketChunk) -> None:
    """Refuse a chunk that a correlator of this size cannot take.

    Raises
    ------
    ValueError
        Naming what does not fit.
    """
    order = chunk.order
    found = order.channel_rows.size, order.input_rows.size, order.groups
    if found != (config.channels, config.inputs, config.groups):
        raise ValueError(
            f"the chunk has {found[0]} channels of {found[1]} inputs in {found[2]} groups; this correlator takes "
            f"{config.channels} of {config.inputs} in {config.groups}: make both from the same configuration"
        )


class Unpacker:
    """Makes K-blocks, in memory that is used again."""

    def __init__(self) -> None:
        self._scratch: SpectraChunk | None = None
        #: Valid parts that had the lowest value and were taken as the one above it.
        self.clamped = 0

    def unpack(self, chunk: PacketChunk, first_block: int = 0, blocks: int | None = None) -> SpectraChunk:
        """Make K-blocks of a run of a chunk's blocks.

        Parameters
        ----------
        chunk : PacketChunk
            Packets.
        first_block : int
            First block, counted from the chunk's first.
        blocks : int, optional
            Number of blocks; by default all that follow.

        Returns
        -------
        SpectraChunk
            Good until the next call.

        Raises
        ------
        ValueError
            If the order points outside the packets.
        """
        order = chunk.order
        count = chunk.blocks - first_block if blocks is None else blocks
        channels, inputs = order.channel_rows.size, order.input_rows.size
        shapes = (channels, count, inputs, 2 * BLOCK), (order.groups, count, inputs)
        if self._scratch is None or (self._scratch.data.shape, self._scratch.valid.shape) != shapes:
            self._scratch = SpectraChunk(0, np.empty(shapes[0], np.int8), np.empty(shapes[1], np.uint64))
        out = self._scratch
        self.clamped += _native.unpack_packets(
            chunk.packets,
            chunk.present,
            order.spectrum_rows,
            order.spectrum_bytes,
            order.channel_rows,
            order.channel_bytes,
            order.input_rows,
            order.input_bytes,
            order.conjugated,
            order.groups,
            order.bits,
            order.flip,
            order.swapped,
            first_block,
            out.data,
            out.valid,
        )
        out.first_block = chunk.first_block + first_block
        return out
