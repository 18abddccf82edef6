"""Overlap-save: the segments in which streams of noise are transformed, delayed and filtered.

Delays are held during a segment at their value in its middle. Segments are as short as keeps the fringe phase error
below `PHASE_ERROR` at the highest frequency, against the fastest that the Earth can turn the farthest antenna.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ducc0
import numpy as np
from numpy.typing import NDArray

from ryle.config import Observation
from ryle.simulate.noise import Noise
from ryle.simulate.receivers import FILTER_REACH

#: Largest error of a fringe phase from holding delays during a segment, rad.
PHASE_ERROR = 0.01
#: Most segments, and most samples, that are transformed together.
BATCH, BATCH_SAMPLES = 8, 1 << 18
_EARTH_RATE = 7.2921150e-5  # rad/s
_SHORTEST, _LONGEST = 1 << 12, 1 << 22
_RAMP = 128  # bins of the fine table that phase ramps are multiplied up from


@dataclass(frozen=True)
class Segments:
    """A batch of segments, the same for every process of an observation: the rounding of FFTs depends on their number.

    Parameters
    ----------
    count : int
        Segments of a batch.
    length, hop, pad : int
        Samples of a segment, from one to the next, and of the overlap on either side.
    offset : int
        Samples that all segments are shifted by, so that the overlap covers delay differences only.
    is_complex : bool
        Whether samples are.
    rate : float
        Samples a second.
    zero : float
        Sky frequency of baseband zero, Hz.
    sign : int
        1 where baseband is the sky's spectrum, -1 where it is reversed and conjugated.
    phase_error : float
        Largest phase error from holding delays during a segment, rad.
    """

    count: int
    length: int
    hop: int
    pad: int
    offset: int
    is_complex: bool
    rate: float
    zero: float
    sign: int
    phase_error: float

    @classmethod
    def of(cls, o: Observation, offsets: NDArray[np.float64], delay: NDArray[np.float64]) -> Segments:
        """Choose the cheapest segments that are short enough.

        Parameters
        ----------
        o : Observation
            What is observed.
        offsets : ndarray of float64, shape (antenna, 3)
            Places of the antennas from the reference point, in the equatorial frame, s of light's travel.
        delay : ndarray of float64, shape (input,)
            Delay of each signal path, s.

        Raises
        ------
        ValueError
            If fringes are too fast to be made at this sample rate.
        """
        is_complex, rate = o.digitizer.complex, float(o.sample_rate)
        zero = float(o.sky_frequencies[o.fengine.channels // 2 if is_complex else 0])
        highest = float(np.abs(o.sky_frequencies).max()) + o.channel_width
        reach = np.repeat(np.linalg.norm(offsets, axis=1), o.pols)
        earliest = float(np.min(-reach - delay)) * rate
        latest = float(np.max(reach - delay)) * rate
        pad = math.ceil((latest - earliest) / 2) + (FILTER_REACH // 2 if is_complex else FILTER_REACH)
        fastest = 2 * np.pi * highest * _EARTH_RATE * float(np.hypot(offsets[:, 0], offsets[:, 1]).max())
        hop_limit = int(2 * PHASE_ERROR / max(fastest, 1e-30) * rate) if fastest else _LONGEST
        best = None
        length = _SHORTEST
        while length <= _LONGEST:
            hop = min(length - 2 * pad, hop_limit)
            if hop > 0 and (best is None or length * (14 + math.log2(length)) / hop < 0.95 * best[0]):
                best = (length * (14 + math.log2(length)) / hop, length, hop)
            length *= 2
            if best is not None and length > max(1 << 15, 8 * pad):
                break
        if best is None or best[1] > 64 * best[2]:
            raise ValueError(
                f"fringes turn by up to {fastest:.3g} rad/s and delays need segments of {2 * pad / rate:.3g} s: "
                "the array is too large for this frequency to be simulated; use shorter baselines or a lower band.lo"
            )
        _, length, hop = best
        return cls(
            count=max(1, min(BATCH, BATCH_SAMPLES // length)),
            length=length,
            hop=hop,
            pad=pad,
            offset=round((earliest + latest) / 2),
            is_complex=is_complex,
            rate=rate,
            zero=zero,
            sign=o.sideband_sign,
            phase_error=fastest * hop / rate / 2,
        )

    @property
    def span(self) -> int:
        """Samples of a batch."""
        return self.count * self.hop

    @cached_property
    def bins(self) -> NDArray[np.int64]:
        """Frequency of each bin at baseband, in bins."""
        index = np.arange(self.length if self.is_complex else self.length // 2 + 1)
        return np.where(index < self.length // 2, index, index - self.length) if self.is_complex else index

    @cached_property
    def frequencies(self) -> NDArray[np.float64]:
        """Sky frequency of each bin, Hz."""
        return np.asarray(self.zero + self.sign * self.bins * (self.rate / self.length), np.float64)

    def spectrum(self, noise: Noise, first: int) -> NDArray[np.complex64]:
        """Transform the batch of a stream that begins at sample `first`, overlaps included: shape (segment, bin)."""
        wave = noise.window(first + self.offset - self.pad, (self.count - 1) * self.hop + self.length)
        segments = np.lib.stride_tricks.sliding_window_view(wave, self.length)[:: self.hop]
        out = np.empty((self.count, len(self.bins)), np.complex64)
        transform = ducc0.fft.c2c if self.is_complex else ducc0.fft.r2c
        transform(np.ascontiguousarray(segments), axes=(1,), out=out)
        return out

    def wave(self, spectra: NDArray[np.complex64]) -> NDArray[Any]:
        """Inverse of `spectrum`, without the overlap: shape (span,)."""
        if self.is_complex:
            whole: NDArray[Any] = np.empty((self.count, self.length), np.complex64)
            ducc0.fft.c2c(spectra, axes=(1,), forward=False, inorm=2, out=whole)
        else:
            whole = np.empty((self.count, self.length), np.float32)
            ducc0.fft.c2r(spectra, axes=(1,), lastsize=self.length, forward=False, inorm=2, out=whole)
        return np.asarray(whole[:, self.pad : self.pad + self.hop].reshape(-1))

    def ramp(self, tau: NDArray[np.float64]) -> NDArray[np.complex64]:
        """Phases ``e^{±j2πfτ}`` of delays (segment,) over bins at baseband: shape (segment, bin)."""
        carrier = self.sign * self.zero * tau
        cycles = tau * (self.rate / self.length)
        coarse = np.exp(2j * np.pi * ((carrier % 1)[:, np.newaxis] + cycles[:, np.newaxis] * self.bins[::_RAMP]))
        fine = np.exp(2j * np.pi * cycles[:, np.newaxis] * np.arange(_RAMP))
        product = coarse.astype(np.complex64)[:, :, np.newaxis] * fine.astype(np.complex64)[:, np.newaxis]
        return np.asarray(product.reshape(len(tau), -1)[:, : len(self.bins)])
