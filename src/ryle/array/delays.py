"""Delay models: what delay and phase an input is to be given at a sample count.

Positive delay: output time ``t`` reads input ``t − d``. A model is evaluated once a spectrum, at the centre of the PFB
window (`window_centres`). Times are integer sample counts, and only differences of them become floats, so that nothing
is lost at counts of 10¹⁵ (a week at 1.7 GHz). The terms are those of MeerKAT's ``?delays`` request.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ryle.array import _native

#: Models that are handed over as they are; of more, those in reach.
_FEW = 16


@dataclass(frozen=True, slots=True)
class Delays:
    """Delay and phase at some sample counts: of one input, shape (spectrum,), or of several, (input, spectrum).

    Parameters
    ----------
    coarse : ndarray of int64
        Whole samples: the delay rounded to even.
    fine : ndarray of float64
        The rest, in samples, −½ to ½.
    phase : ndarray of float64
        Total phase wanted at band centre, radians; not reduced modulo 2π.
    """

    coarse: NDArray[np.int64]
    fine: NDArray[np.float64]
    phase: NDArray[np.float64]

    @classmethod
    def zero(cls, inputs: int, spectra: int) -> Delays:
        """No delay and no phase, for several inputs."""
        shape = (inputs, spectra)
        return cls(np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape))


def window_centres(first_spectrum: int, spectra: int, channels: int, taps: int, real: bool = True) -> NDArray[np.int64]:
    """Sample counts at the centres of PFB windows, where delays are evaluated.

    Spectrum ``m`` of ``n`` channels and ``T`` taps covers ``[2nm, 2nm + 2nT)`` of real input, centre ``2nm + nT``;
    half of that of complex input, centre ``nm + nT/2`` (rounded down).

    Returns
    -------
    ndarray of int64, shape (spectra,)
    """
    step = 2 * channels if real else channels
    return np.arange(first_spectrum, first_spectrum + spectra, dtype=np.int64) * step + step * taps // 2


class DelayModel(ABC):
    """Delay and phase of one input as functions of the sample count."""

    @abstractmethod
    def evaluate_exact(self, counts: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Delay in samples and phase in radians at sample counts, shape (count,)."""

    def evaluate(self, counts: ArrayLike) -> Delays:
        """Delay, split into whole samples and the rest, and phase at sample counts, shape (count,)."""
        delay, phase = self.evaluate_exact(np.asarray(counts, np.int64))
        coarse = np.rint(delay)
        return Delays(coarse.astype(np.int64), delay - coarse, phase)


@dataclass(frozen=True, slots=True)
class LinearDelayModel(DelayModel):
    """Delay and phase that change linearly, from a sample count on.

    Parameters
    ----------
    start : int
        Sample count from which the model holds and at which `delay` and `phase` are reached.
    sample_rate : float
        Samples a second.
    delay : float
        Seconds; positive delays the input.
    rate : float
        Seconds a second, between −1 and 1.
    phase : float
        Total phase at band centre, radians.
    phase_rate : float
        Radians a second.

    Raises
    ------
    ValueError
        If a value is not finite, ``|rate| >= 1``, or ``start`` is negative.
    """

    start: int
    sample_rate: float
    delay: float = 0.0
    rate: float = 0.0
    phase: float = 0.0
    phase_rate: float = 0.0

    def __post_init__(self) -> None:
        for name in ("sample_rate", "delay", "rate", "phase", "phase_rate"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"delay model: {name} is {getattr(self, name)!r}; it must be finite")
        if self.sample_rate <= 0:
            raise ValueError(f"delay model: sample_rate {self.sample_rate!r} Hz must be positive")
        if abs(self.rate) >= 1:
            raise ValueError(f"delay model: rate {self.rate!r} s/s must lie between −1 and 1 (is it in ns/s?)")
        if self.start < 0:
            raise ValueError(f"delay model: start {self.start} lies before sync_time; give a sample count of 0 or more")

    def moved(self, start: int) -> LinearDelayModel:
        """Give the same delay and phase, valid from another sample count on."""
        seconds = (start - self.start) / self.sample_rate
        delay, phase = self.delay + self.rate * seconds, self.phase + self.phase_rate * seconds
        return replace(self, start=start, delay=delay, phase=phase)

    def evaluate_exact(self, counts: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Delay in samples and phase in radians at sample counts (see `DelayModel`)."""
        samples = (counts - np.int64(self.start)).astype(np.float64)
        seconds = samples / self.sample_rate
        return self.delay * self.sample_rate + self.rate * samples, self.phase + self.phase_rate * seconds


class DelaySchedule(DelayModel):
    """Linear models in order of their start, each valid until the next one starts.

    Before the first one the delay and the phase are zero. The queue is replaced as a whole, never changed in place, so
    that one thread (or task) may add models while others evaluate.

    Parameters
    ----------
    models : sequence of LinearDelayModel
        Models to begin with, added in turn.
    """

    def __init__(self, models: Sequence[LinearDelayModel] = ()) -> None:
        self._models: tuple[LinearDelayModel, ...] = ()
        self._numbers = _Numbers.of(self._models)
        for model in models:
            self.add(model)

    @property
    def models(self) -> tuple[LinearDelayModel, ...]:
        """The models queued, in order of their start."""
        return self._models

    def add(self, model: LinearDelayModel) -> None:
        """Queue a model; queued models that start at or after it are dropped (MeerKAT's rule)."""
        models = self._models
        self._models = (*models[: bisect_left(models, model.start, key=lambda m: m.start)], model)

    def extend(self, models: Sequence[LinearDelayModel]) -> None:
        """Queue models that are already in order of their start, in one step.

        Raises
        ------
        ValueError
            If the starts do not increase.
        """
        if any(a.start >= b.start for a, b in pairwise(models)):
            raise ValueError("delay models must be given in increasing order of start")
        if models:
            queued = self._models
            self._models = (*queued[: bisect_left(queued, models[0].start, key=lambda m: m.start)], *models)

    def prune(self, before: int) -> None:
        """Forget models that no sample count at or after `before` needs."""
        models = self._models
        if gone := max(bisect_right(models, before, key=lambda m: m.start) - 1, 0):
            self._models = models[gone:]

    def numbers(self, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Give starts and numbers (see `_Numbers`) of the models in reach of the counts from `first` to `last`."""
        found = self._numbers
        if found.models is not self._models:
            found = self._numbers = _Numbers.of(self._models)
        if len(found.starts) <= _FEW:
            return found.starts, found.numbers
        low, high = np.searchsorted(found.starts, [first, last], side="right")
        here = slice(max(int(low) - 1, 0), int(high))
        return found.starts[here], found.numbers[here]

    def evaluate_exact(self, counts: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Delay in samples and phase in radians at sample counts (see `DelayModel`)."""
        delay, phase = np.zeros(counts.shape), np.zeros(counts.shape)
        if not counts.size or not self._models:
            return delay, phase
        models = self._models
        index = np.searchsorted(np.array([m.start for m in models], np.int64), counts, side="right") - 1
        for i in np.unique(index[index >= 0]).tolist():
            here = index == i
            delay[here], phase[here] = models[i].evaluate_exact(counts[here])
        return delay, phase


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Models as arrays: starts, and (model, 5) of delay in samples, rate, phase, phase rate and samples a second."""

    models: tuple[LinearDelayModel, ...]
    starts: NDArray[np.int64]
    numbers: NDArray[np.float64]

    @classmethod
    def of(cls, models: tuple[LinearDelayModel, ...]) -> _Numbers:
        """Make them."""
        rows = [(m.delay * m.sample_rate, m.rate, m.phase, m.phase_rate, m.sample_rate) for m in models]
        return cls(models, np.array([m.start for m in models], np.int64), np.array(rows, np.float64).reshape(-1, 5))


def evaluate_inputs(models: Sequence[DelayModel], counts: ArrayLike, out: Delays | None = None) -> Delays:
    """Evaluate the models of several inputs at the same sample counts.

    Parameters
    ----------
    models : sequence of DelayModel
        One an input.
    counts : array_like of int, shape (count,)
        Sample counts.
    out : Delays, optional
        What is written to, C-contiguous.

    Returns
    -------
    Delays
        Of shape (input, count), `out` if given.
    """
    times = np.ascontiguousarray(counts, np.int64)
    if out is None:
        out = Delays.zero(len(models), times.size)
    if not times.size or not models:
        return out
    if not all(isinstance(model, DelaySchedule) for model in models):
        for i, model in enumerate(models):
            one = model.evaluate(times)
            out.coarse[i], out.fine[i], out.phase[i] = one.coarse, one.fine, one.phase
        return out
    # An array of inputs has hundreds of thousands of values in a batch: native code makes them, and Python goes on.
    low, high = int(times.min()), int(times.max())
    found = [model.numbers(low, high) for model in models if isinstance(model, DelaySchedule)]
    ends = np.cumsum([len(starts) for starts, _ in found])
    starts, numbers = (np.concatenate(each) for each in zip(*found, strict=True))
    _native.evaluate(times, starts, numbers, ends, out.coarse, out.fine, out.phase)
    return out
