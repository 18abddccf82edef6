"""Histograms of ADC values at an instant: what live views draw of converters, in a file.

While somebody watches, an engine that channelizes leaves one beside its status page each second, of its inputs, in the
place of the one before. Levels are ADC values in steps of the converter: level k of n stands for
(k - n // 2) · ``step``, the outermost for all beyond them too. Of complex samples, real and imaginary parts are
counted alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ryle.products.bundle import BundleError, bundled, unbundled

_MAGIC = b"RYLEADC1"
_ARRAYS = {"lately": "<i8", "in_all": "<i8"}
_NUMBERS = ("position", "first_input", "step", "clips", "bits")
_MOST_LEVELS = 4097


class HistogramError(ValueError):
    """What should be histograms is none."""


@dataclass(frozen=True)
class Histograms:
    """How often each ADC value of some inputs occurred.

    Parameters
    ----------
    position : int
        Samples since sync up to which it has been counted.
    first_input : int
        Number in the array of the first input.
    step : int
        Steps of the converter between two levels.
    clips : int
        Steps from which on, on either side, a value stands at an end of the range; 0 if that is not known.
    bits : int
        Of the converter, if its codes are two's complement and each has a level of its own; else 0.
    lately : ndarray of int64, shape (input, level)
        Values of the last second or so that were looked at; of an input that lately gave none, of the last that did.
    in_all : ndarray of int64, shape (input, level)
        Those since the start.
    """

    position: int
    first_input: int
    step: int
    clips: int
    bits: int
    lately: NDArray[np.int64]
    in_all: NDArray[np.int64]

    @property
    def levels(self) -> NDArray[np.int64]:
        """ADC values in steps of the converter, shape (level,)."""
        count = self.lately.shape[1]
        values: NDArray[np.int64] = (np.arange(count, dtype=np.int64) - count // 2) * self.step
        return values

    def to_bytes(self) -> bytes:
        """Write it (`ryle.products.bundle`)."""
        arrays = {name: getattr(self, name).astype(kind, copy=False) for name, kind in _ARRAYS.items()}
        return bundled(_MAGIC, {name: getattr(self, name) for name in _NUMBERS}, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Histograms:
        """Read what `to_bytes` wrote.

        Raises
        ------
        HistogramError
            If it is something else, cut, or makes no sense.
        """
        try:
            found = cls(**unbundled(_MAGIC, data, _ARRAYS))
        except (BundleError, TypeError) as error:
            raise HistogramError(f"no histograms of ADC values: {error}") from None
        if problem := found._problem():
            raise HistogramError(f"no histograms of ADC values: {problem}")
        return found

    def _problem(self) -> str:
        shape = self.lately.shape
        if len(shape) != 2 or self.in_all.shape != shape or not (0 < shape[1] <= _MOST_LEVELS and shape[1] % 2):
            return f"its arrays have shapes {shape} and {self.in_all.shape}"
        if not (0 <= self.first_input < 1 << 20 and 0 < self.step < 1 << 31 and 0 <= self.position < 1 << 62):
            return "its numbers are beyond what they can be"
        if not (0 <= self.clips < 1 << 32 and 0 <= self.bits <= 16):
            return f"a converter of {self.bits} bits, which clips at {self.clips} steps"
        if any(a.size and (a.min() < 0 or a.max() >= 1 << 53) for a in (self.lately, self.in_all)):
            return "counts are beyond what they can be"
        return ""
