"""What an F-engine does to its inputs from when on: delays, made from geometry ahead, and gains, which others set."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ryle.array.delays import Delays, DelaySchedule, LinearDelayModel, evaluate_inputs, window_centres
from ryle.array.observed import phase_tracker
from ryle.chunk import BLOCK
from ryle.config import Observation
from ryle.engines.gains import GainReader, Gains
from ryle.receive.windows import window_shape


class _Shared:
    """What those who steer parts of an array share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.steered: dict[int, int] = {}  # schedules that are not geometry's any more, and from what count on
        self.next = 0  # first spectrum whose delays nobody has asked for


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
    whole : Steering, optional
        Of more antennas, whose gains and delays these share when others set them.

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
        whole: Steering | None = None,
    ) -> None:
        o, batch = observation, window_shape(observation).batch
        self._observation, self._antennas, self._spectra, self._residuals = o, antennas, batch, residuals
        mine = slice(antennas[0] * o.pols, (antennas[-1] + 1) * o.pols)
        self._reader: GainReader | None = None
        if whole is None:
            #: What others may set, and from when on.
            self.gains = Gains(batch, o.gains[mine])
            self._schedules = [DelaySchedule() for _ in range(mine.stop - mine.start)]
            self._shared = _Shared()
            self._applied = np.zeros(len(self._schedules))  # delays of the last batch, s
        else:
            first = whole._antennas[0] * o.pols
            inputs = slice(mine.start - first, mine.stop - first)
            self.gains, self._schedules = whole.gains, whole._schedules[inputs]
            self._shared, self._applied = whole._shared, whole._applied[inputs]
            self._reader = self.gains.reader(inputs)
        self._tracker = phase_tracker(observation, antennas)
        if observation.end_sample:
            self._tracker.check_max_delay(0, observation.end_sample)  # before the observation, not in the middle of it
        self._loaded = (0, 0)  # samples that the schedules cover
        self.delays(0)  # astrometry that is asked for the first time reads tables for most of a second
        self._shared.next = 0

    def delays(self, first: int, out: Delays | None = None) -> Delays:
        """Give the delays of the batch that begins with spectrum `first`, in `out` if given; batches come in order."""
        o = self._observation
        centres = window_centres(first, self._spectra, o.fengine.channels, o.fengine.taps, not o.digitizer.complex)
        low, high = int(centres[0]), int(centres[-1]) + 1
        with self._shared.lock:  # what is set from now on holds for later batches
            self._shared.next = max(self._shared.next, first + self._spectra)
        if not (self._loaded[0] <= low and high <= self._loaded[1]):
            ahead = max(2 * (high - low), 2 * self._tracker.segment)
            with self._shared.lock:
                steered = self._shared.steered
                geometry = [DelaySchedule() if id(s) in steered else s for s in self._schedules]
                self._tracker.load(geometry, low, high + ahead)
                for schedule, tracked in zip(self._schedules, geometry, strict=True):
                    if tracked is not schedule:  # geometry holds until what others have set begins
                        begin = steered[id(schedule)]
                        others = [m for m in schedule.models if m.start >= begin]
                        schedule.extend([m for m in tracked.models if m.start < begin])
                        schedule.extend(others)
                    schedule.prune(low)
            self._loaded = (low, high + ahead)
        if self._shared.steered:  # they would grow
            with self._shared.lock:
                for schedule in self._schedules:
                    schedule.prune(low)
        found = evaluate_inputs(self._schedules, centres, out)
        self._applied[...] = (found.coarse[:, -1] + found.fine[:, -1]) / float(o.sample_rate)
        if self._residuals is None:
            return found
        # A time shift of the samples turns baseband frequencies: at the centre of a real band, fs/4.
        shift = self._residuals[:, np.newaxis]
        fine = found.fine + shift
        step = np.rint(fine)
        turn = 0.0 if o.digitizer.complex else -0.5 * np.pi * shift
        found.coarse[...] += step.astype(np.int64)
        found.fine[...], found.phase[...] = fine - step, found.phase + turn
        return found

    def part(self, antennas: Sequence[int]) -> Steering:
        """Give what steers some of these antennas, with their part of the same gains."""
        pols, at = self._observation.pols, antennas[0] - self._antennas[0]
        own = None if self._residuals is None else self._residuals[pols * at : pols * (at + len(antennas))]
        return Steering(self._observation, antennas, own, self)

    def set_delay(self, number: int, model: LinearDelayModel, sample: int | None = None) -> int:
        """Steer an input by a model from its start on, and by geometry no longer. From any thread.

        Parameters
        ----------
        number : int
            Of the input, of this object's antennas.
        model : LinearDelayModel
            Models that were queued to start with it or later are dropped.
        sample : int, optional
            Time stamp from which on it holds, rounded up to a block of 64 spectra of a batch that nobody has begun;
            from the model's start on if absent.

        Returns
        -------
        int
            Time stamp, in samples since sync, of the first spectrum that has it.

        Raises
        ------
        ValueError
            If its delay is beyond ``fengine.max_delay``; nothing has changed then.
        """
        o = self._observation
        spectra = -(-(model.start - self._centre(0)) // o.step) if sample is None else -(-sample // o.step)
        schedule = self._schedules[number]
        with self._shared.lock:
            spectrum = -(-max(spectra, self._shared.next) // BLOCK) * BLOCK
            moved = model.moved(self._centre(spectrum))
            if abs(moved.delay) > (most := o.fengine.max_delay):
                raise ValueError(
                    f"a delay of {moved.delay:.6g} s is beyond fengine.max_delay, {most:.6g} s; raise that"
                )
            begun = self._shared.steered.get(id(schedule), moved.start)
            self._shared.steered[id(schedule)] = min(begun, moved.start)
            schedule.add(moved)
        return spectrum * o.step

    def _centre(self, spectrum: int) -> int:
        """Give the sample count at which a spectrum's delay is evaluated."""
        f = self._observation.fengine
        return int(window_centres(spectrum, 1, f.channels, f.taps, not self._observation.digitizer.complex)[0])

    @property
    def next(self) -> int:
        """Time stamp, in samples since sync, of the first spectrum whose delays and gains can still be set."""
        with self._shared.lock:
            spectrum = self._shared.next
        return max(-(-spectrum // BLOCK) * BLOCK, self.gains.next) * self._observation.step

    def now(self) -> list[float]:
        """Give the delay of each input that was applied last, s."""
        found: list[float] = self._applied.tolist()
        return found

    def new_gains(self, first: int) -> NDArray[np.complex64] | None:
        """Give the gains of the batch that begins with spectrum `first`, (input, channel); None: as before."""
        if self._reader is None:  # nobody else reads these
            self._reader = self.gains.reader()
        return self._reader.take(first)
