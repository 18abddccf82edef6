"""Packets of rows from Ryle's own F-engines: which an X-engine gets, and where in its ring they lie.

A chunk is ``[block][antenna][channel][pol][128]``: a packet is one piece of it, copied once. The X-engine reads rows
where they lie, and their validity where the assembler notes it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ryle.chunk import BLOCK, SpectraChunk
from ryle.config import Observation
from ryle.receive.assembly import Placing
from ryle.receive.ring_plan import spectra_plan
from ryle.stream.block import Block
from ryle.wire.description import Format

#: The packets' description.
FORMAT = "ryle_rows"


class RowMap:
    """Which packets of rows an observation's X-engines get, and where their rows go.

    Parameters
    ----------
    observation : Observation
        With ``fengine.sends = "rows"``.
    substreams : sequence of int
        Which shares of the band, contiguous.
    waits : bool
        Whether the source can be held up (`ryle.receive.assembly.Plan.waits`).
    timed : bool
        Whether F-engines are apart by ``network.skew`` at most; else, with `waits`, by as much as memory allows.
    """

    unit = 1

    def __init__(
        self, observation: Observation, substreams: Sequence[int], *, waits: bool = False, timed: bool = True
    ) -> None:
        o = observation
        self.first_channel = substreams[0] * o.substream_channels
        self.channels = len(substreams) * o.substream_channels
        self._antennas, self._pols, self._per_packet = len(o.antennas), o.pols, o.packet_channels
        starts = range(self.first_channel, self.first_channel + self.channels, self._per_packet)
        #: Antenna and first channel of each head, antennas the faster.
        self.heads = [(antenna, channel) for channel in starts for antenna in range(self._antennas)]
        channel = o.pols * 2 * BLOCK  # bytes
        antenna = self.channels * channel
        blocks = o.chunk_spectra(len(substreams)) // BLOCK
        self.plan = spectra_plan(
            o,
            Format.load(FORMAT),
            self.heads,
            channels=self.channels,
            packet_spectra=BLOCK,
            waits=waits,
            timed=timed,
            sizes={"channels": self._per_packet, "pols": o.pols},
            notes=("valid_0", "valid_1")[: o.pols],
            placing=Placing(
                (blocks, self._antennas, self.channels, o.pols, 2 * BLOCK),
                [a * antenna + (first - self.first_channel) * channel for a, first in self.heads],
                self._antennas * antenna,
            ),
        )

    @property
    def groups(self) -> int:
        """Channel groups: runs of channels that share packets."""
        return self.channels // self._per_packet

    def given(self, block: Block) -> SpectraChunk:
        """View a block of packets as the X-engine takes it; it must not be released before that was used."""
        blocks = block.data.shape[0]
        words = block.planes["notes"].reshape(self.groups, self._antennas, blocks, self._pols)
        rows = block.data.view(np.int8).transpose(2, 0, 1, 3, 4)
        return SpectraChunk(block.start // BLOCK, rows, words.transpose(0, 2, 1, 3))
