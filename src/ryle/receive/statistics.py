"""Packets of F-engines' statistics: which the catcher gets, and what a block of them is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ryle.config import Observation
from ryle.receive.assembly import Plan, grid
from ryle.receive.ring_plan import SPARE
from ryle.stream.block import Block
from ryle.wire.description import Format
from ryle.wire.statistics import FORMAT, LEVELS, NUMBERS, histogram_levels, parts

#: Intervals that F-engines may be apart: they are simulated at different speeds. A packet has 1 KiB.
_APART = 16


@dataclass(frozen=True, slots=True)
class InputStatistics:
    """What some intervals tell of all inputs.

    Parameters
    ----------
    counts : ndarray of int64, shape (input, level)
        How often each ADC value occurred.
    numbers : ndarray of int64, shape (input, 4)
        `ryle.wire.statistics.NUMBERS` of each.
    """

    counts: NDArray[np.int64]
    numbers: NDArray[np.int64]


class StatisticsMap:
    """Packets of every input's statistics; a block is an interval.

    Parameters
    ----------
    observation : Observation
        Inputs and digitizer.
    """

    unit = 1

    def __init__(self, observation: Observation) -> None:
        o = observation
        self._inputs, self._parts = o.n_inputs, parts(o.channelized_bits)
        self._levels = len(histogram_levels(o.channelized_bits))
        format = Format.load(FORMAT)
        self.plan = Plan(
            format,
            grid(format, input=range(self._inputs), level=range(0, self._parts * LEVELS, LEVELS)),
            packets=1,
            chunks=_APART + SPARE,
            window=1,
            skew=_APART,
            linger=0.0,
            sizes={},
            notes=NUMBERS,
        )

    def given(self, block: Block) -> InputStatistics:
        """Read a block; what is missing counts nothing."""
        there = (block.planes["present"].reshape(self._inputs, self._parts) != 0)[:, :, np.newaxis]
        payload = block.data.reshape(self._inputs, self._parts, 4 * LEVELS).view(">u4")
        counts = np.where(there, payload, 0).reshape(self._inputs, -1)[:, : self._levels]
        notes = block.planes["notes"].reshape(self._inputs, self._parts, len(NUMBERS))
        numbers = np.where(there, notes, 0).max(axis=1)  # every packet of an input says the same
        return InputStatistics(counts.astype(np.int64), numbers.astype(np.int64))
