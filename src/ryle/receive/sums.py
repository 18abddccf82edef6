"""X-heaps: the visibilities of all substreams, placed packet by packet, and integrations of the whole band of them.

A lost packet costs its own products only.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import Exposure, Integration
from ryle.config import Observation
from ryle.config.observation import SPARE_CHUNKS
from ryle.receive.assembly import Plan
from ryle.receive.assembly_plan import heap_parts
from ryle.receive.ring_plan import silence_after
from ryle.stream.block import Block
from ryle.wire.description import Format

#: Integrations by which X-engines may be apart, and seconds if these are more.
_APART, _SECONDS = 2, 1.0
#: Integrations that an X-engine has under way behind its ring: being summed, waiting, being sent.
_UNDER_WAY = 4
#: Packets after which a jump of all clocks is believed; until then they are kept (`ryle.receive.assembly`).
_VOTES = 8


def _burst(o: Observation) -> float:
    """Seconds of signal that an X-engine takes at a time: if they are several integrations, these come together."""
    return o.chunk_spectra() * o.step / float(o.sample_rate)


def _apart(o: Observation, timed: bool) -> int:
    """Integrations by which X-engines may be apart: in time, or at full speed by all that their rings hold."""
    if timed:
        return max(_APART, math.ceil((_SECONDS + _burst(o)) / o.integration_time))
    ring = 2 * (o.skew_chunks() + SPARE_CHUNKS) * o.chunk_spectra()
    return -(-ring // o.integration_spectra) + _UNDER_WAY


class SumMap:
    """Which X-heaps a catcher gets, and what a block of them is: an integration ``[substream][payload]``.

    Parameters
    ----------
    observation : Observation
        Sizes.
    substreams : range, optional
        Those that it gets; all if absent.
    waits : bool
        Whether the source can be held up (`ryle.receive.assembly.Plan.waits`).
    timed : bool
        Whether streams are not further apart than usual; else, with `waits`, by as much as memory allows.
    """

    unit = 1

    def __init__(
        self, observation: Observation, substreams: range | None = None, *, waits: bool = False, timed: bool = True
    ) -> None:
        o = observation
        mine = range(o.substreams) if substreams is None else substreams
        self._step, self._spectra = o.step, o.integration_spectra
        self._substreams, self._channels = len(mine), o.substream_channels
        self._groups, self._products = o.groups, o.products
        self._sum_bytes, count_bytes = 16 * self._channels * self._products, 4 * self._groups * self._products
        self._bytes = self._sum_bytes + count_bytes
        self._packet = o.network.packet_size
        format = Format.load("ryle_x").given(
            channels=self._channels, products=self._products, groups=self._groups, step=o.step * self._spectra
        )
        whole, apart = o.step * self._spectra, _apart(o, timed)
        heap = heap_parts(self._bytes, self._packet)
        self.plan = Plan(
            format,
            [(s * self._channels,) for s in mine],
            packets=1,
            chunks=apart + 5 + -(-_VOTES // (self._substreams * len(heap))),
            window=0,
            skew=apart * whole if timed else None,
            linger=0.0,
            parts=heap,
            notes=("begin", "end"),
            waits=waits,
            silence=silence_after(o, max(o.integration_time, _burst(o))) if timed else 0.0,
            rate=o.arrival_rate if timed else 0.0,
            cut=f"network.packet_size is {self._packet} B here: set it to the same where X-engines run and where "
            "they are received",
        )

    def given(self, block: Block) -> list[list[Integration]]:
        """Give a block's integration, one, in pieces, a substream each; of what did not come, counts are 0.

        Channels are counted from the first substream's that this map has. Sums lie where they came, in the wire's order
        of bytes, while the block is held. If packets are missing, a piece has sums of its own, and counts of each
        channel in place of each group.
        """
        data = block.data.reshape(self._substreams, -1)
        present = block.planes["present"].reshape(self._substreams, -1) != 0
        first = block.start // self._step
        parts = []
        for payload, there in zip(data, present, strict=True):
            sums = payload[: self._sum_bytes].view(">i8").reshape(self._channels, self._products, 2)
            counts = payload[self._sum_bytes : self._bytes].view(">u4").reshape(self._groups, self._products)
            parts.append(self._without_lost(sums, counts, there))
        most = max(int(counts.max()) for _, counts in parts)
        exposure = self._exposure(first, block.planes["notes"].reshape(self._substreams, 2), most)
        return [
            [
                Integration(first, self._spectra, n * self._channels, sums, counts, exposure)
                for n, (sums, counts) in enumerate(parts)
            ]
        ]

    def _exposure(self, first: int, notes: NDArray[np.uint64], most: int) -> Exposure | None:
        """Join what X-engines say that they summed; None if none says so, or no less than they counted."""
        said = notes[(notes[:, 0] < notes[:, 1]) & (notes[:, 1] <= self._spectra)].astype(np.int64)
        if not len(said) or (end := int(said[:, 1].max())) - (begin := int(said[:, 0].min())) < most:
            return None
        return Exposure.of(first + begin, first + end)

    def _without_lost(
        self, sums: NDArray[np.int64], counts: NDArray[np.uint32], present: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Take out the products of a substream that any lost packet held a part of."""
        counts = counts.astype(np.uint32)
        if present.all():
            return sums, counts
        if not present.any():
            return sums, np.zeros_like(counts)
        good = np.ones(self._channels * self._products, np.bool_)
        counted = np.ones(self._groups * self._products, np.bool_)
        for packet in np.flatnonzero(~present).tolist():
            first = packet * self._packet
            end = min(first + self._packet, self._bytes)
            good[first // 16 : -(-min(end, self._sum_bytes) // 16)] = False
            if end > self._sum_bytes:
                counted[max(0, first - self._sum_bytes) // 4 : -(-(end - self._sum_bytes) // 4)] = False
        group = self._channels // self._groups
        each = np.repeat(np.where(counted.reshape(counts.shape), counts, 0), group, axis=0)
        there = good.reshape(each.shape) & (each > 0)
        return np.where(there[..., np.newaxis], sums, 0), np.where(there, each, 0).astype(np.uint32)
