"""What an F-engine does to its inputs from when on: delays, made from geometry ahead, and gains, which others set."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ryle.array.delays import Delays, DelaySchedule, evaluate_inputs, window_centres
from ryle.array.observed import phase_tracker
from ryle.config import Observation
from ryle.engines.gains import Gains
from ryle.receive.windows import window_shape


class Steering:
    """Tracks the phase centre with some antennas, and keeps their gains, by batches of spectra.

    Parameters
    ----------
    observation : Observation
        What is observed.
    antennas : sequence of int
        Consecutive antennas; input = position in this sequence · pols + pol.
    residuals : ndarray of float64, shape (input,), optional
        Samples by which each input's samples were taken after their time stamps (what a recording's clock offset
        leaves when it is rounded to samples).
    gains : Gains, optional
        Of more antennas, if others share them; the observation's, of these, if absent.
    inputs : slice
        Which of those are these antennas'.

    Raises
    ------
    ValueError
        If a delay will exceed ``fengine.max_delay`` before the observation ends; names the antenna.
    """

    def __init__(
        self,
        observation: Observation,
        antennas: Sequence[int],
        residuals: NDArray[np.float64] | None = None,
        gains: Gains | None = None,
        inputs: slice = slice(None),
    ) -> None:
        o, batch = observation, window_shape(observation).batch
        self._observation, self._antennas, self._spectra, self._residuals = o, antennas, batch, residuals
        mine = slice(antennas[0] * o.pols, (antennas[-1] + 1) * o.pols)
        #: What others may set, and from when on.
        self.gains = Gains(batch, o.gains[mine]) if gains is None else gains
        self._reader = None if gains is None else gains.reader(inputs)
        self._tracker = phase_tracker(observation, antennas)
        if observation.end_sample:
            self._tracker.check_max_delay(0, observation.end_sample)  # before the observation, not in the middle of it
        self._schedules = [DelaySchedule() for _ in range(len(antennas) * observation.pols)]
        self._loaded = (0, 0)  # samples that the schedules cover
        self.delays(0)  # astrometry that is asked for the first time reads tables for most of a second

    def delays(self, first: int) -> Delays:
        """Give the delays of the batch that begins with spectrum `first`; batches come in order, mostly."""
        o = self._observation
        centres = window_centres(first, self._spectra, o.fengine.channels, o.fengine.taps, not o.digitizer.complex)
        low, high = int(centres[0]), int(centres[-1]) + 1
        if not (self._loaded[0] <= low and high <= self._loaded[1]):
            ahead = max(2 * (high - low), 2 * self._tracker.segment)
            self._tracker.load(self._schedules, low, high + ahead)
            self._loaded = (low, high + ahead)
            for schedule in self._schedules:
                schedule.prune(low)
        found = evaluate_inputs(self._schedules, centres)
        if self._residuals is None:
            return found
        # A time shift of the samples turns baseband frequencies: at the centre of a real band, fs/4.
        shift = self._residuals[:, np.newaxis]
        fine = found.fine + shift
        step = np.rint(fine)
        turn = 0.0 if o.digitizer.complex else -0.5 * np.pi * shift
        return Delays(found.coarse + step.astype(np.int64), fine - step, found.phase + turn)

    def part(self, antennas: Sequence[int]) -> Steering:
        """Give what steers some of these antennas, with their part of the same gains."""
        pols, at = self._observation.pols, antennas[0] - self._antennas[0]
        inputs = slice(pols * at, pols * (at + len(antennas)))
        own = None if self._residuals is None else self._residuals[inputs]
        return Steering(self._observation, antennas, own, self.gains, inputs)

    def new_gains(self, first: int) -> NDArray[np.complex64] | None:
        """Give the gains of the batch that begins with spectrum `first`, (input, channel); None: as before."""
        if self._reader is None:  # nobody else reads these
            self._reader = self.gains.reader()
        return self._reader.take(first)
