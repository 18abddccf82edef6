"""Visibilities of CASPER X-engines, in 0x4b52 packets, as PAPER's sent them to its catcher (``casper_x``).

A dump of an X-engine is float32 (re, im), little-endian, [channel][baseline][polarization product], channels
contiguous from X-engine to X-engine: product of inputs i and j is the sum of x_i · conj(x_j), times
`CatcherTable.scale`. X-engines begin to integrate at any time, each at its own, and again after a restart. Source:
paper_gpu of 2012 (``paper_gpu_output_thread.c``), casper_correlator (``collate_buffer``).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import Integration, product_inputs
from ryle.config import Observation
from ryle.config.rates import DUMPS
from ryle.receive.assembly import Plan
from ryle.receive.assembly_plan import heap_parts
from ryle.stream.block import Block
from ryle.wire.description import Format

#: What the correlator's packets have as instrument.
INSTRUMENT = 4
#: Dumps by which one X-engine may be ahead of another.
_APART = 4
_TIME_BITS = 48


def baseline_order(antennas: int) -> NDArray[np.int64]:
    """List the pairs of antennas (i ≤ j) in the order in which a CASPER X-engine sends them, shape (baseline, 2)."""
    pairs: dict[tuple[int, int], None] = {}
    for wrapped in (False, True):
        for i in range(antennas):
            for distance in range(antennas // 2, -1, -1):
                k = (i - distance) % antennas
                pair = (i, k) if wrapped else (k, i)
                if (i < k) == wrapped:
                    pairs.setdefault(pair)
    return np.array(list(pairs), np.int64)


def dump_products(antennas: int, polarizations: int) -> NDArray[np.int64]:
    """List the inputs (i, j) of each product of a dump: xx, yy, xy, yx of one baseline after the other."""
    p = [(0, 0)] if polarizations == 1 else [(0, 0), (1, 1), (0, 1), (1, 0)]
    pairs = baseline_order(antennas)
    products: NDArray[np.int64] = (pairs[:, np.newaxis] * polarizations + np.array(p)).reshape(-1, 2)
    return products


class DumpMap:
    """Which packets of others' X-engines a catcher gets, and what a block of them is: a dump of each X-engine.

    Values that are given are divided by the scale; they are sums over `Integration.spectra` spectra, exact but for the
    rounding of the X-engine. What did not come counts nothing.

    Parameters
    ----------
    observation : Observation
        With ``catcher.packets``.
    waits : bool
        Whether the source can be held up (`ryle.receive.assembly.Plan.waits`).
    """

    unit = 1

    def __init__(self, observation: Observation, *, waits: bool = False) -> None:
        o = observation
        self._engines, self._channels, self._products = o.substreams, o.substream_channels, o.products
        self._spectra, self._step = o.integration_spectra, o.step
        self._unit, self._scale = o.catcher.stamp_samples, o.catcher.scale
        offset = o.catcher.stamp_offset
        self._offset = max(0, self._spectra - 1024) if offset is None else offset
        wire = dump_products(len(o.antennas), o.pols)
        place = np.full((o.n_inputs, o.n_inputs), -1, np.int64)
        place[wire[:, 0], wire[:, 1]] = np.arange(len(wire))
        i, j = o.wire_inputs[product_inputs(len(o.antennas), o.pols)].T
        swapped = place[i, j] < 0
        self._place = np.where(swapped, place[j, i], place[i, j])
        self._sign = np.where(swapped, -1.0, 1.0)
        step = self._spectra * self._step
        format = Format.load("casper_x").given(
            channels=self._channels, products=self._products, step=step, stamp_samples=self._unit
        )
        parts = heap_parts(8 * self._channels * self._products, o.catcher.packet_payload)
        self._cells = np.array([part.bytes // 8 for part in parts])
        self.plan = Plan(
            format,
            [(INSTRUMENT, engine) for engine in range(self._engines)],
            packets=1,
            chunks=DUMPS,
            window=step,  # packets may be out of order from one dump into the next
            skew=_APART * step,
            any_phase=True,
            linger=0.0,
            parts=parts,
            notes=("time",),
            waits=waits,
            silence=max(1.0, 2.5 * o.integration_time),
        )

    def given(self, block: Block) -> list[list[Integration]]:
        """Give the integrations that begin within a block, each a piece: one, if all X-engines began together.

        A dump whose time is between spectra, or before sync, is left out.
        """
        present = block.planes["present"].reshape(self._engines, -1) != 0
        there = np.repeat(present, self._cells, axis=1).reshape(self._engines, self._channels, self._products)
        begin = [self._first(block, e) if present[e].any() else None for e in range(self._engines)]
        firsts = sorted({first for first in begin if first is not None})
        values = block.data.view("<f4").reshape(self._engines, self._channels, self._products, 2)
        return [[self._integration(first, values, there, [b == first for b in begin])] for first in firsts]

    def _first(self, block: Block, engine: int) -> int | None:
        """First spectrum of an X-engine's dump."""
        stamp = int(block.planes["notes"][engine, 0, 0]) * self._unit
        # The count has 48 bits: which of the times that it can mean is within the block is known.
        at = block.start + (stamp - block.start) % (self._unit << _TIME_BITS) - self._offset * self._step
        return None if at < 0 or at % self._step else at // self._step

    def _integration(
        self, first: int, values: NDArray[np.float32], there: NDArray[np.bool_], engines: list[bool]
    ) -> Integration:
        band = self._engines * self._channels
        good = there & np.array(engines)[:, np.newaxis, np.newaxis]
        counts = good.reshape(band, -1)[:, self._place].astype(np.uint32) * np.uint32(self._spectra)
        whole = np.where(good[..., np.newaxis], values, 0).reshape(band, -1, 2)
        sums = whole[:, self._place].astype(np.float64) / self._scale
        sums[..., 1] *= self._sign
        return Integration(first, self._spectra, 0, sums, counts)
