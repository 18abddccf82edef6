"""What an F-engine counts of its inputs, whatever carries it out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ryle.config import Observation
from ryle.engines.statistics import AdcHistogram
from ryle.stream.metrics import Registry


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
    power, samples : ndarray, shape (input,)
        Sum of squares of the samples that valid spectra advanced over, and their number.
    adc : AdcHistogram
        How often each ADC value occurs.
    adc_saturated : int
        Saturated samples that digitizers reported in the packets received.
    position : int
        Sample count up to which spectra have been made.
    """

    def __init__(self, observation: Observation, inputs: int) -> None:
        self._channels, self._step = observation.fengine.channels, observation.step
        self.saturated = np.zeros(inputs, np.int64)
        self.values = np.zeros(inputs, np.int64)
        self.power = np.zeros(inputs, np.float64)
        self.samples = np.zeros(inputs, np.int64)
        self.adc = AdcHistogram(observation, inputs)
        self.position = self.adc_saturated = 0

    def totals(self) -> NDArray[np.int64]:
        """Give what was counted so far, shape (input, level + 4): the histogram, `ryle.wire.statistics.NUMBERS`."""
        numbers = (self.samples, np.rint(self.power).astype(np.int64), self.values, self.saturated)
        return np.concatenate((self.adc.counts, np.stack(numbers, axis=1)), axis=1)

    def count(
        self, first: int, valid: NDArray[np.bool_], saturated: NDArray[np.integer], power: NDArray[np.generic]
    ) -> None:
        """Add a batch: its first spectrum, validity (input, spectrum), values clamped and power (input,)."""
        spectra = valid.sum(axis=1, dtype=np.int64)
        self.saturated += saturated.astype(np.int64)
        self.values += spectra * self._channels
        self.power += power.astype(np.float64)
        self.samples += spectra * self._step
        self.position = (first + valid.shape[1]) * self._step


def measure(metrics: Registry, parts: Sequence[InputTotals]) -> None:
    """Add to an engine's metrics what is counted of its inputs, by one channelizer or several that share them."""

    def rms() -> list[float]:
        values = [np.sqrt(part.power / np.maximum(1, part.samples)).round(2) for part in parts]
        found: list[float] = np.concatenate(values).tolist()
        return found

    def saturated() -> float:
        return float(sum(p.saturated.sum() for p in parts) / max(1, sum(p.values.sum() for p in parts)))

    metrics.gauge("saturated", "", "share of spectra's values that saturated", saturated)
    metrics.gauge("input_rms", "ADC steps", "of each input", rms)
    metrics.counter("adc_saturated", "samples", "that digitizers reported", lambda: sum(p.adc_saturated for p in parts))
