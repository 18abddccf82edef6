"""What an F-engine counts of its inputs, whatever carries it out."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import SampleChunk
from ryle.config import Observation
from ryle.engines.histograms import HistogramsLeft, clipping_levels, full_scale
from ryle.engines.statistics import AdcHistogram
from ryle.monitor.page_files import HISTOGRAMS
from ryle.products.observed import input_labels
from ryle.receive.entrance import Entrance
from ryle.stream.engine import Inlet
from ryle.stream.metrics import Registry

#: Seconds that "lately" lasts at least; within how many of another look nothing is looked at again.
_LATELY, _SAME = 1.0, 0.05


class InputTotals:
    """Counts of an F-engine's inputs so far.

    Parameters
    ----------
    observation : Observation
        What is observed.
    inputs : int
        How many.

    Attributes
    ----------
    saturated, values : ndarray of int64, shape (input,)
        Output values that saturated, and all valid ones.
    power, samples : ndarray of int64, shape (input,)
        Sum of squares of the samples that valid spectra advanced over, and their number. Of 32-bit samples each
        batch's sum is rounded, so that parts of an observation add up to the whole.
    spectra : int
        Spectra that were made, whatever was valid.
    adc : AdcHistogram
        How often each ADC value occurs.
    adc_saturated : int
        Saturated samples that digitizers reported in the packets received.
    position : int
        Sample count up to which spectra have been made.
    """

    def __init__(self, observation: Observation, inputs: int) -> None:
        self._channels, self._step, self._wanted = observation.fengine.channels, observation.step, observation.spectra
        self._counting = threading.Lock()  # so that who reads finds all of a batch, or nothing
        self.saturated = np.zeros(inputs, np.int64)
        self.values = np.zeros(inputs, np.int64)
        self.power = np.zeros(inputs, np.int64)
        self.samples = np.zeros(inputs, np.int64)
        self.adc = AdcHistogram(observation, inputs)
        self._ends = clipping_levels(observation, self.adc.levels)
        self.position = self.adc_saturated = self.spectra = 0

    def look(self, chunk: SampleChunk) -> None:
        """Count the ADC values of a chunk, unless it begins where another part of the observation does."""
        if chunk.timestamp // self._step in self._wanted:
            self.adc.add(chunk)

    def totals(self) -> NDArray[np.int64]:
        """Give what was counted so far, shape (input, level + 4): the histogram, `ryle.wire.statistics.NUMBERS`."""
        numbers = (self.samples, self.power, self.values, self.saturated)
        return np.concatenate((self.adc.counts, np.stack(numbers, axis=1)), axis=1)

    def count(
        self, first: int, valid: NDArray[np.bool_], saturated: NDArray[np.integer], power: NDArray[np.generic]
    ) -> None:
        """Add a batch: its first spectrum, validity (input, spectrum), values clamped and power (input,).

        One that begins before the spectra that are correlated is another part's.
        """
        if first not in self._wanted:
            return
        spectra = valid.sum(axis=1, dtype=np.int64)
        with self._counting:
            self.saturated += saturated.astype(np.int64)
            self.values += spectra * self._channels
            self.power += np.rint(power).astype(np.int64)
            self.samples += spectra * self._step
            self.spectra += valid.shape[1]
            self.position = (first + valid.shape[1]) * self._step

    def numbers(self) -> NDArray[np.float64]:
        """Give, of one moment, `NUMBERS` of each input, shape (number, input)."""
        with self._counting:
            counts = self.adc.counts
            clipped = counts[:, self._ends].sum(axis=1)
            made = np.full(len(self.samples), self.spectra * self._channels)
            each = self.samples, self.power, self.values, self.saturated, made, counts.sum(axis=1), clipped
            return np.stack([number.astype(np.float64) for number in each])


#: What `InputTotals.numbers` gives: "made" is what `values` would be if all were valid.
NUMBERS = ("samples", "power", "values", "saturated", "made", "looked_at", "clipped")


class Lately:
    """What counts have grown by over the last second or so; read by the status thread alone.

    Parameters
    ----------
    totals : callable
        Gives them, shape (number, input).
    """

    def __init__(self, totals: Callable[[], NDArray[np.float64]]) -> None:
        self._totals = totals
        self._past: deque[tuple[float, NDArray[np.float64]]] = deque([(-np.inf, totals())])
        self._grown = np.zeros_like(self._past[0][1])

    def grown(self) -> NDArray[np.float64]:
        """Give the growth since a second ago or longer; if nothing has grown since, what it was before."""
        now = time.monotonic()
        if now - self._past[-1][0] > _SAME:
            self._past.append((now, self._totals()))
            while len(self._past) > 2 and now - self._past[1][0] >= _LATELY:
                self._past.popleft()
            grown = self._past[-1][1] - self._past[0][1]
            if grown.any():
                self._grown = grown
        return self._grown


def measure(
    metrics: Registry,
    parts: Sequence[InputTotals],
    observation: Observation,
    antennas: Sequence[int],
    entrance: Inlet | None = None,
) -> None:
    """Add to an engine's metrics what is counted of its inputs, by one channelizer or several that share them.

    Parameters
    ----------
    metrics : Registry
        Where to.
    parts : sequence of InputTotals
        In the order of the inputs.
    observation : Observation
        What is observed.
    antennas : sequence of int
        Consecutive; whose inputs these are.
    entrance : Inlet, optional
        Whose heads are the inputs.
    """
    o = observation
    labels = input_labels(o)[antennas[0] * o.pols : (antennas[-1] + 1) * o.pols]
    lately = Lately(lambda: np.concatenate([part.numbers() for part in parts], axis=1))

    def ratio(above: str, below: str, digits: int = 6) -> list[float | None]:
        grown = dict(zip(NUMBERS, lately.grown(), strict=True))
        return _listed(grown[above], grown[below], digits)

    def rms() -> list[float | None]:
        parts_of_sample = 2 if o.digitizer.complex else 1  # of each part, as converters make them
        return [None if v is None else round((v / parts_of_sample) ** 0.5, 2) for v in ratio("power", "samples", 12)]

    def saturated() -> float:
        return float(sum(p.saturated.sum() for p in parts) / max(1, sum(p.values.sum() for p in parts)))

    def clipped() -> list[float | None]:
        if told:  # inputs are looked at in turn
            ends[:] = [
                old if new is None else new for old, new in zip(ends, ratio("clipped", "looked_at"), strict=True)
            ]
        return list(ends)

    ends: list[float | None] = [None] * len(labels)
    full, told = full_scale(o), bool(clipping_levels(o, parts[0].adc.levels).any())
    m = metrics
    left = HistogramsLeft(o, [part.adc for part in parts], antennas[0] * o.pols, m.audience(o.products))
    m.beside[HISTOGRAMS] = left.newest
    m.gauge("saturated", "", "share of spectra's values that saturated", saturated)
    m.gauge("first_input", "", "number in the array of the first input", lambda: antennas[0] * o.pols)
    m.gauge("inputs", "", "antenna and polarization of each input", lambda: labels)
    m.gauge("full_scale", "ADC steps", "peak of a full-scale sine wave", lambda: full)
    m.gauge("input_rms", "ADC steps", "of each input's samples over the last second, each part of complex ones", rms)
    m.gauge("input_clipped", "", "share lately of each input's ADC values that stood at an end of the range", clipped)
    m.gauge("input_saturated", "", "share lately of each input's spectra's values that saturated",
            lambda: ratio("saturated", "values"))  # fmt: skip
    m.gauge("input_present", "", "share lately of each input's spectra that were valid",
            lambda: ratio("values", "made"))  # fmt: skip
    m.counter("adc_saturated", "samples", "that digitizers reported", lambda: sum(p.adc_saturated for p in parts))
    if isinstance(entrance, Entrance) and len(entrance.assembler.plan.heads) == len(labels):
        assembler = entrance.assembler

        def placed() -> NDArray[np.float64]:
            counts = assembler.head_counts()
            return np.stack([counts.placed, counts.expected]).astype(np.float64)

        heads = Lately(placed)
        m.gauge("input_placed", "", "share lately of each input's packets that came in time",
                lambda: _listed(*heads.grown()))  # fmt: skip


def _listed(above: NDArray[Any], below: NDArray[Any], digits: int = 6) -> list[float | None]:
    """Divide; None where there is nothing to divide by."""
    return [None if b <= 0 else round(float(a / b), digits) for a, b in zip(above, below, strict=True)]
