"""What is wrong with a simulated array, ``[[simulate.defects]]``: which samples and packets it changes, and how.

A defect acts where it would in the field: on what a receiver hears, on a cable, on a digitizer, on its packets. All of
it follows from the observation and from sample counts, so that it is the same however time is cut into chunks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ryle.config import Observation
from ryle.config.defect_checks import named_inputs
from ryle.config.simulation import DefectTable
from ryle.simulate.noise import Stream, generator

_BLOCK = 4096  # packets whose losses are drawn together


def window(rate: Fraction, start: Fraction, stop: Fraction | None, first: int, samples: int) -> slice:
    """Find which of the samples ``[first, first + samples)`` lie between two times, s since sample 0; maybe none."""
    begin = max(0, math.ceil(start * rate) - first)
    end = samples if stop is None else max(0, min(samples, math.ceil(stop * rate) - first))
    return slice(min(begin, end), end)


@dataclass(frozen=True)
class Defect:
    """One defect of one input.

    Parameters
    ----------
    table : DefectTable
        What it is.
    input : int
        Whose.
    partner : int
        The input whose signal it gets instead, if it is exchanged; itself if not.
    """

    table: DefectTable
    input: int
    partner: int


class Defects:
    """All defects of an observation's array.

    Parameters
    ----------
    observation : Observation
        With a ``[simulate]`` table.
    """

    def __init__(self, observation: Observation) -> None:
        o, simulate = observation, observation.simulate
        assert simulate is not None
        self._rate, self._heap, self._inputs = o.sample_rate, o.digitizer.heap_samples, o.n_inputs
        self._seed = simulate.seed
        #: Gain that brings the receiver noise's rms to the end of the scale.
        self.full_scale = ((1 << (o.digitizer.bits - 1)) - 1) / simulate.rms
        self.all = [Defect(t, i, j) for t in simulate.defects for i, j in _of_inputs(o, t)]

    def of(self, *kinds: str) -> Iterator[Defect]:
        """Give those of some kinds, of each input."""
        return (d for d in self.all if d.table.kind in kinds)

    def when(self, defect: Defect, first: int, samples: int) -> slice:
        """Find which of the samples ``[first, first + samples)`` a defect changes; maybe none."""
        return window(self._rate, defect.table.start, defect.table.stop, first, samples)

    @property
    def delays(self) -> NDArray[np.float64]:
        """Delays that may be added to each input's, s, shape (case, input); the first case has none."""
        cases = [np.zeros(self._inputs)]
        for defect in self.of("delay"):
            case = np.zeros(self._inputs)
            case[defect.input] = defect.table.delay
            cases.append(case)
        return np.array(cases)

    def gain(self, defect: Defect) -> float:
        """Tell what the voltages of an input are multiplied by: 0 if it is dead."""
        if defect.table.kind == "dead":
            return 0.0
        return self.full_scale if defect.table.factor is None else defect.table.factor

    # -- packets ----------------------------------------------------------------------------------------------------

    def _packets(self, defect: Defect, first: int, packets: int) -> slice:
        """Find which packets from sample `first` on begin while a defect lasts."""
        when = self.when(defect, first, packets * self._heap)
        return slice(-(-when.start // self._heap), -(-when.stop // self._heap))

    def lose(self, inputs: list[int], first: int, present: NDArray[np.uint8]) -> None:
        """Mark the packets that are lost.

        Parameters
        ----------
        inputs : list of int
            Of the rows.
        first : int
            First sample of the first packet.
        present : ndarray of uint8, shape (input, packet)
            Is set to 0 where a packet is lost.
        """
        number, packets = first // self._heap, present.shape[1]
        for defect in self.of("loss"):
            if defect.input not in inputs:
                continue
            blocks = range(number // _BLOCK, (number + packets - 1) // _BLOCK + 1)
            drawn = [generator(self._seed, Stream.LOSS, defect.input, b).random(_BLOCK) for b in blocks]
            at = number - blocks.start * _BLOCK
            when = self._packets(defect, first, packets)
            share = defect.table.loss
            assert share is not None
            lost = np.concatenate(drawn)[at : at + packets][when] < share
            present[inputs.index(defect.input), when][lost] = 0

    def shifts(self, first: int, packets: int) -> NDArray[np.int64]:
        """Tell by how many samples the time stamps of packets are wrong, shape (input, packet)."""
        shift = np.zeros((self._inputs, packets), np.int64)
        for defect in self.of("jump"):
            shift[defect.input, self._packets(defect, first, packets)] += defect.table.samples or 0
        return shift

    @property
    def jump(self) -> bool:
        """Whether any time stamps are wrong."""
        return any(True for _ in self.of("jump"))


def _of_inputs(o: Observation, table: DefectTable) -> Iterator[tuple[int, int]]:
    """Give each input that a defect is of, and whose signal it gets."""
    named = [named_inputs(o, name) for name in table.names] or [list(range(o.n_inputs))]
    if table.kind == "exchanged":
        one, other = named
        yield from zip(one, other, strict=True)
        yield from zip(other, one, strict=True)
        return
    for inputs in named:
        for i in inputs:
            yield i, i ^ 1 if table.kind == "swapped" else i
