"""Delay polynomials, as others compute them, to the linear models that channelizers follow.

Between two nodes a chord errs by up to ``τ''L²/8``, always to the same side; nodes are moved by half of that, as
`ryle.array.tracking` moves them, so that the error is ``±τ''L²/16``. Nodes are so close that it is at most
`MOST_PHASE_ERROR` at the highest sky frequency, and in the phase as much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import polynomial
from numpy.typing import NDArray

from ryle.array.delays import LinearDelayModel

#: Radians; linear models that one polynomial may become.
MOST_PHASE_ERROR, MOST_MODELS = 1e-3, 4096


@dataclass(frozen=True)
class DelayPolynomial:
    """Delay and phase of an input over a stretch of time.

    Parameters
    ----------
    delay : sequence of float
        Coefficients c0 + c1·t + c2·t² …: s, s/s, s/s² …; positive delays the input.
    phase : sequence of float
        Of the total phase at the centre of the band: rad, rad/s …
    seconds : float
        For how long it holds; what follows goes on in a straight line.

    Raises
    ------
    ValueError
        If there is no coefficient, one is not finite, or the time is not positive.
    """

    delay: Sequence[float]
    phase: Sequence[float]
    seconds: float

    def __post_init__(self) -> None:
        for name in ("delay", "phase"):
            given = getattr(self, name)
            if not given or not all(math.isfinite(c) for c in given):
                raise ValueError(f"a polynomial's {name} is {list(given)}: give finite coefficients, at least one")
        if not (math.isfinite(self.seconds) and self.seconds > 0):
            raise ValueError(f"a polynomial cannot hold for {self.seconds} s: give a positive time")

    def models(self, start: int, rate: float, highest_frequency: float) -> list[LinearDelayModel]:
        """Make linear models of it.

        Parameters
        ----------
        start : int
            Sample count at which t is 0.
        rate : float
            Samples a second.
        highest_frequency : float
            Highest sky frequency of the band, Hz.

        Returns
        -------
        list of LinearDelayModel
            In order of start; neighbours share a node.

        Raises
        ------
        ValueError
            If it bends so much that more than `MOST_MODELS` were needed.
        """
        delay, phase = np.array(self.delay, np.float64), np.array(self.phase, np.float64)
        bend = max(2 * np.pi * highest_frequency * self._bend(delay), self._bend(phase))
        length = min(self.seconds, math.sqrt(16 * MOST_PHASE_ERROR / bend) if bend else self.seconds)
        count = math.ceil(self.seconds / length)
        if count > MOST_MODELS:
            raise ValueError(
                f"a polynomial that holds for {self.seconds:g} s bends so much that it would take {count} straight "
                f"lines; at most {MOST_MODELS} can be: give it for a shorter time, or look at its coefficients' units"
            )
        counts = start + np.rint(np.linspace(0, self.seconds, count + 1) * rate).astype(np.int64)
        counts = np.unique(counts) if counts[-1] > start else np.array([start, start + 1])
        times = (counts - start) / rate
        nodes = [self._nodes(c, times) for c in (delay, phase)]
        slopes = [np.diff(each) / np.diff(times) for each in nodes]
        return [
            LinearDelayModel(int(at), rate, *(float(x) for x in row))
            for at, *row in zip(counts[:-1], nodes[0][:-1], slopes[0], nodes[1][:-1], slopes[1], strict=True)
        ]

    def _bend(self, coefficients: NDArray[np.float64]) -> float:
        """Bound the second derivative while it holds."""
        return float(polynomial.polyval(self.seconds, np.abs(polynomial.polyder(coefficients, 2))))

    @staticmethod
    def _nodes(coefficients: NDArray[np.float64], times: NDArray[np.float64]) -> NDArray[np.float64]:
        bend = polynomial.polyval(times, polynomial.polyder(coefficients, 2))
        length = np.diff(times).mean()
        return np.asarray(polynomial.polyval(times, coefficients) - bend * length**2 / 16)
