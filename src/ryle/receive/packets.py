"""Packets of F-engines, others' or rows of Ryle's: from the network or a capture to blocks for the X-engine.

Everything about time, loss and order is `ryle.receive.assembly`'s. What is added here is which streams an observation
has, and where in a chunk each input, channel and spectrum lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from ryle.chunk import BLOCK, PacketChunk, PacketOrder, valid_words
from ryle.config import Observation
from ryle.receive.ring_plan import spectra_plan
from ryle.receive.rows import RowMap
from ryle.stream.block import Block
from ryle.wire.spectra import SpectraLayout


class PacketMap:
    """Which packets an observation's X-engines get, and where their samples go.

    Parameters
    ----------
    observation : Observation
        With ``fengine.packets``.
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
        o, layout = observation, observation.packets
        assert layout is not None
        self.layout: SpectraLayout = layout
        self.first_channel = substreams[0] * o.substream_channels
        self.channels = len(substreams) * o.substream_channels
        self.senders = layout.senders(o.wire_inputs)
        self._inputs = o.wire_inputs
        self._order: PacketOrder | None = None
        self._conjugated = np.array([s.conjugate for s in o.streams])
        stream = layout.format.timestamp.stream
        self.heads: list[tuple[int, ...]] = []
        for sender, channel in product(self.senders.tolist(), range(0, self.channels, layout.channels)):
            fields = layout.header(0, sender * layout.inputs, self.first_channel + channel)
            low = {field.name: field.low for field in layout.format.header.field}
            self.heads.append(tuple((low | fields)[name] for name in stream))
        if len(set(self.heads)) < len(self.heads):
            raise ValueError(
                f"{layout.format.name}: timestamp.stream = {stream} does not tell the packets of different inputs and "
                "channels apart; add the fields that place them"
            )
        self.plan = spectra_plan(
            o,
            layout.format,
            self.heads,
            channels=self.channels,
            packet_spectra=layout.spectra,
            waits=waits,
            timed=timed,
        )

    def given(self, block: Block) -> PacketChunk:
        """View a block of packets as the X-engine takes it; it must not be released before that was used."""
        packets, pitch = block.data.shape[1:]
        if self._order is None:
            self._order = self.order(packets, pitch)
        words = valid_words(np.repeat(block.planes["present"] != 0, self.layout.spectra, axis=1))
        of_sender = words.reshape(len(self.senders), self.channels // self.layout.channels, -1)
        sender = np.searchsorted(self.senders, self._inputs // self.layout.inputs)
        return PacketChunk(block.start // BLOCK, block.data, of_sender[sender].transpose(1, 2, 0), self._order)

    def order(self, packets: int, pitch: int) -> PacketOrder:
        """Say where samples lie in a chunk [sender][channel group][packet][`pitch` bytes]."""
        row, groups = packets * pitch, self.channels // self.layout.channels
        return self.layout.order(
            packets * self.layout.spectra,
            self.channels,
            self._inputs,
            self._conjugated,
            (pitch, row, row * groups),
        )


def packet_map(
    observation: Observation, substreams: Sequence[int], *, waits: bool = False, timed: bool = True
) -> PacketMap | RowMap:
    """Say which packets some substreams' X-engines get, of whichever kind the observation's F-engines send."""
    kind = PacketMap if observation.packets is not None else RowMap
    return kind(observation, substreams, waits=waits, timed=timed)
