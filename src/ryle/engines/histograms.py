"""Histograms of ADC values for who watches (`ryle.products.histograms`), each second, made of what is counted anyway.

The thread that tells figures makes them; nobody else waits for it. Nobody watches: nothing is done at all.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ryle.config import ConfigError, Observation
from ryle.engines.statistics import AdcHistogram
from ryle.products.histograms import Histograms
from ryle.stream.audience import Audience

#: Seconds between histograms at least; share of the time of the thread that makes them which they may take.
APART, SHARE = 1.0, 0.05
_FEW_BITS = 3  # of an ADC, all of whose values are in use: its ends say nothing of overload
_CODES = 10  # bits of converters whose codes each have a level


class HistogramsLeft:
    """Makes histograms of an engine's inputs, lately and since the start, as long as somebody watches.

    Parameters
    ----------
    observation : Observation
        What is observed.
    parts : sequence of AdcHistogram
        What is counted, in the order of the inputs.
    first_input : int
        Number in the array of the first.
    audience : Audience
        Who watches.
    """

    def __init__(
        self, observation: Observation, parts: Sequence[AdcHistogram], first_input: int, audience: Audience
    ) -> None:
        o, levels = observation, parts[0].levels
        self._parts, self._first, self._audience = parts, first_input, audience
        bits = o.channelized_bits
        self._step = 1 << max(0, bits - _CODES) if bits < 32 else 1
        at_ends = np.abs(levels[clipping_levels(o, levels)])
        self._clips = int(at_ends.min()) * self._step if at_ends.size else 0
        self._bits = bits if o.levels is None and bits <= _CODES else 0
        self._before: NDArray[np.int64] | None = None
        self._lately = np.zeros((sum(len(p.counts) for p in parts), len(levels)), np.int64)
        self._due = 0.0

    def newest(self) -> bytes | None:
        """Give them if somebody watches and it is time; of lately from the second time on, when that is known."""
        if not self._audience.there:
            self._before = None
            return None
        now = time.monotonic()
        if self._before is not None and now < self._due:
            return None
        counts = np.concatenate([part.counts for part in self._parts])
        before, self._before = self._before, counts
        data = None
        if before is not None:
            grown = counts - before
            came = grown.any(axis=1)  # inputs are looked at in turn: of many, some take longer
            self._lately[came] = grown[came]
            position = max(part.position for part in self._parts)
            data = Histograms(
                position, self._first, self._step, self._clips, self._bits, self._lately, counts
            ).to_bytes()
        self._due = now + max(APART, (time.monotonic() - now) / SHARE)
        return data


def full_scale(o: Observation) -> float | None:
    """Peak of a full-scale sine wave, ADC steps; None if samples are no steps of a converter."""
    try:
        sample = o.digitizer_format.sample
    except ConfigError:  # a recording's frames may be longer than a packet
        return None
    return None if sample.bits == 32 or sample.levels == "vdif" else float(1 << (sample.bits - 1))


def clipping_levels(o: Observation, levels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark the levels of a histogram at which a converter clips: its ends, and a step less, where one side may end.

    None of converters with a few levels, which are all in use, nor where the histogram does not reach so far.
    """
    full, reach = full_scale(o), int(levels[-1])
    if full is None or o.digitizer.bits < _FEW_BITS:
        return np.zeros(len(levels), np.bool_)
    scale = 1 << max(0, o.channelized_bits - 10) if o.channelized_bits < 32 else 1
    end = full / scale
    return np.abs(levels) >= end - 1 if end <= reach else np.zeros(len(levels), np.bool_)
