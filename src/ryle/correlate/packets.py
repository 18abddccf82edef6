"""Others' packets and F-heaps made into K-blocks on the CPU; `ryle.correlate.packets_cuda` does so on the GPU.

Samples lie anywhere that `ryle.chunk.PacketOrder` can say, so nothing is copied between the packets as they were
received and the K-blocks. A -8 of four bits, or -128, which Ryle's own F-engine never makes, becomes -7, or -127, and
is counted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import BLOCK, PacketChunk, SpectraChunk
from ryle.correlate import _native
from ryle.correlate.correlator import CorrelatorConfig

#: Bytes of K-blocks that packets are made into at a time: sums are read and written once for each such piece.
_UNPACKED_BYTES = 1 << 24


def unpacked_blocks(channels: int, inputs: int) -> int:
    """Say how many K-blocks are made at a time: of 64 spectra of all channels and inputs, 128 bytes each."""
    return max(1, _UNPACKED_BYTES // (channels * inputs * 2 * BLOCK))


def check_packets(config: CorrelatorConfig, chunk: PacketChunk) -> None:
    """Refuse a chunk that a correlator of this size cannot take.

    Raises
    ------
    ValueError
        Naming what does not fit.
    """
    order = chunk.order
    found = order.channel.size, order.input.size, len(chunk.valid)
    if found != (config.channels, config.inputs, config.groups):
        raise ValueError(
            f"the chunk has {found[0]} channels of {found[1]} inputs in {found[2]} groups; this correlator takes "
            f"{config.channels} of {config.inputs} in {config.groups}: make both from the same configuration"
        )


class Unpacker:
    """Makes K-blocks, in memory that is used again."""

    def __init__(self) -> None:
        self._scratch: NDArray[np.int8] | None = None
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
        shape = order.channel.size, count, order.input.size, 2 * BLOCK
        if self._scratch is None or self._scratch.shape != shape:
            self._scratch = np.empty(shape, np.int8)
        valid = np.ascontiguousarray(chunk.valid[:, first_block : first_block + count])
        self.clamped += _native.unpack_packets(
            chunk.packets.reshape(-1),
            valid,
            order.spectrum[first_block * BLOCK : (first_block + count) * BLOCK],
            order.channel,
            order.input,
            order.conjugated,
            order.bits,
            order.flip,
            order.swapped,
            self._scratch,
        )
        return SpectraChunk(chunk.first_block + first_block, self._scratch, valid)
