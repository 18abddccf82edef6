"""What an F-engine does to its inputs from when on: phase centres, delays of their geometry made ahead, and gains."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ryle.array.delays import Delays, DelaySchedule, LinearDelayModel, evaluate_inputs, window_centres
from ryle.array.direction import Direction
from ryle.array.observed import phase_centre, phase_tracker
from ryle.array.tracking import PhaseTracker
from ryle.chunk import BLOCK
from ryle.config import Observation
from ryle.engines.gains import GainReader, Gains
from ryle.receive.windows import window_shape

_AHEAD = 12 * 3600  # seconds that a new phase centre is to be within reach of delays, if no end is known


class _Period:
    """What is tracked from a spectrum on, and what delays that gives.

    Parameters
    ----------
    begin : int
        First spectrum, since sync.
    direction : Direction or None
        Phase centre.
    inputs : int
        Of all who share it.
    """

    def __init__(self, begin: int, direction: Direction | None, inputs: int) -> None:
        self.begin, self.direction = begin, direction
        self.schedules = [DelaySchedule() for _ in range(inputs)]
        self.steered: dict[int, int] = {}  # inputs that others steer, and from what count on


class _Shared:
    """What those who steer parts of an array share."""

    def __init__(self, first: _Period) -> None:
        self.lock = threading.Lock()
        self.periods = [first]  # in order of their beginnings
        self.next = 0  # first spectrum whose delays nobody has asked for
        self.reached: list[int | None] = []  # by part: where it is; None: it has not been asked for any


class _Tracking:
    """How a part of an array follows a period's phase centre."""

    def __init__(self, tracker: PhaseTracker) -> None:
        self.tracker = tracker
        self.loaded = (0, 0)  # samples that the schedules cover


class Steering:
    """Tracks phase centres with some antennas, and keeps their gains, by batches of spectra.

    Parameters
    ----------
    observation : Observation
        What is observed; its phase centre is tracked until another is set.
    antennas : sequence of int
        Consecutive antennas; input = position in this sequence · pols + pol.
    residuals : ndarray of float64, shape (input,), optional
        Samples by which each input's samples were taken after their time stamps (what a recording's clock offset
        leaves when it is rounded to samples).
    whole : Steering, optional
        Of more antennas, whose gains, delays and phase centres these share when others set them.

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
            self._shared = _Shared(_Period(0, phase_centre(o), mine.stop - mine.start))
            self._inputs = slice(0, mine.stop - mine.start)
            self._applied = np.zeros(mine.stop - mine.start)  # delays of the last batch, s
        else:
            first = whole._antennas[0] * o.pols
            self._inputs = slice(mine.start - first, mine.stop - first)
            self.gains, self._shared, self._applied = whole.gains, whole._shared, whole._applied[self._inputs]
            self._reader = self.gains.reader(self._inputs)
        self._part = len(self._shared.reached)
        self._shared.reached.append(None)
        self._tracking: dict[_Period, _Tracking] = {}
        tracker = self._follow(self._shared.periods[0]).tracker
        if observation.end_sample:
            tracker.check_max_delay(0, observation.end_sample)  # before the observation, not in the middle of it
        self.delays(0)  # astrometry that is asked for the first time reads tables for most of a second
        self._shared.next = 0
        self._shared.reached[self._part] = None if whole is None else 0

    def delays(self, first: int, out: Delays | None = None) -> Delays:
        """Give the delays of the batch that begins with spectrum `first`, in `out` if given; batches come in order."""
        o, end = self._observation, first + self._spectra
        centres = window_centres(first, self._spectra, o.fengine.channels, o.fengine.taps, not o.digitizer.complex)
        with self._shared.lock:  # what is set from now on holds for later batches
            self._shared.next = max(self._shared.next, end)
            self._shared.reached[self._part] = first
            self._forget()
            periods = [p for p in self._shared.periods if p.begin < end]
        periods = periods[max(0, sum(p.begin <= first for p in periods) - 1) :]
        ends = [*(p.begin for p in periods[1:]), end]
        if len(periods) == 1:
            found = self._of(periods[0], centres, out)
        else:
            found = Delays.zero(self._inputs.stop - self._inputs.start, len(centres)) if out is None else out
            for period, stop in zip(periods, ends, strict=True):
                part = slice(max(period.begin - first, 0), stop - first)
                one = self._of(period, centres[part])
                found.coarse[:, part], found.fine[:, part], found.phase[:, part] = one.coarse, one.fine, one.phase
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

    def _of(self, period: _Period, centres: NDArray[np.int64], out: Delays | None = None) -> Delays:
        """Evaluate what a period's models say at sample counts, geometry loaded as far as that takes."""
        tracking = self._tracking.get(period) or self._follow(period)
        schedules, first = period.schedules[self._inputs], self._inputs.start
        low, high = int(centres[0]), int(centres[-1]) + 1
        if not (tracking.loaded[0] <= low and high <= tracking.loaded[1]):
            ahead = max(2 * (high - low), 2 * tracking.tracker.segment)
            with self._shared.lock:
                steered = period.steered
                geometry = [DelaySchedule() if first + n in steered else s for n, s in enumerate(schedules)]
                tracking.tracker.load(geometry, low, high + ahead)
                for number, (schedule, tracked) in enumerate(zip(schedules, geometry, strict=True), first):
                    if tracked is not schedule:  # geometry holds until what others have set begins
                        begin = steered[number]
                        others = [m for m in schedule.models if m.start >= begin]
                        schedule.extend([m for m in tracked.models if m.start < begin])
                        schedule.extend(others)
                    schedule.prune(low)
            tracking.loaded = (low, high + ahead)
        if period.steered:  # they would grow
            with self._shared.lock:
                for schedule in schedules:
                    schedule.prune(low)
        return evaluate_inputs(schedules, centres, out)

    def _forget(self) -> None:
        """Let go of periods that every part has passed; the lock is held."""
        periods, reached = self._shared.periods, [r for r in self._shared.reached if r is not None]
        while len(periods) > 1 and periods[1].begin <= min(reached):
            del periods[0]
        for period in [p for p in self._tracking if p not in periods]:
            del self._tracking[period]

    def _follow(self, period: _Period) -> _Tracking:
        """Begin to track what a period has."""
        tracker = phase_tracker(self._observation, period.direction, self._antennas)
        found = self._tracking[period] = _Tracking(tracker)
        return found

    def part(self, antennas: Sequence[int]) -> Steering:
        """Give what steers some of these antennas, with their part of the same gains."""
        pols, at = self._observation.pols, antennas[0] - self._antennas[0]
        own = None if self._residuals is None else self._residuals[pols * at : pols * (at + len(antennas))]
        return Steering(self._observation, antennas, own, self)

    def set_delay(self, number: int, *models: LinearDelayModel, sample: int | None = None) -> int:
        """Steer an input by models, and by geometry no longer. From any thread.

        Parameters
        ----------
        number : int
            Of the input, of this object's antennas.
        *models : LinearDelayModel
            In order of start, each until the next; those that were queued for the time from which on they hold, or
            later, are dropped.
        sample : int, optional
            Time stamp from which on they hold, rounded up to a block of 64 spectra of a batch that nobody has begun;
            from the first's start on if absent.

        Returns
        -------
        int
            Time stamp, in samples since sync, of the first spectrum that has them.

        Raises
        ------
        ValueError
            If a delay is beyond ``fengine.max_delay``; nothing has changed then.
        """
        o = self._observation
        spectra = -(-(models[0].start - self._centre(0)) // o.step) if sample is None else -(-sample // o.step)
        with self._shared.lock:
            spectrum = -(-max(spectra, self._shared.next) // BLOCK) * BLOCK
            period = next(p for p in reversed(self._shared.periods) if p.begin <= spectrum)
            begin = self._centre(spectrum)
            passed = max(0, sum(m.start <= begin for m in models) - 1)
            queue = [models[passed].moved(begin), *models[passed + 1 :]]
            for model in queue:
                if abs(model.delay) > (most := o.fengine.max_delay):
                    raise ValueError(
                        f"a delay of {model.delay:.6g} s is beyond fengine.max_delay, {most:.6g} s; raise that"
                    )
            of_all = self._inputs.start + number
            period.steered[of_all] = min(period.steered.get(of_all, begin), begin)
            period.schedules[of_all].extend(queue)
        return spectrum * o.step

    def set_phase_centre(self, direction: Direction | None, spectrum: int, unit: int = BLOCK) -> int:
        """Track another phase centre from a spectrum on, with all inputs, whoever has steered them. From any thread.

        Phase centres that were queued for that spectrum or later are dropped; what others set for a time before it
        ends with it.

        Parameters
        ----------
        direction : Direction or None
            What is tracked.
        spectrum : int
            From which on, since sync.
        unit : int
            Spectra to whose multiples that is rounded up; a multiple of 64.

        Returns
        -------
        int
            First spectrum that has it: of a batch that nobody has begun.

        Raises
        ------
        ValueError
            If a delay would exceed ``fengine.max_delay`` before the observation ends, or within 12 hours if no end is
            known; names the antenna. Nothing has changed then.
        """
        o = self._observation
        begin = self._centre(max(spectrum, self._shared.next))
        end = o.end_sample or begin + round(_AHEAD * o.sample_rate)
        phase_tracker(o, direction, self._antennas).check_max_delay(begin, max(begin, end))
        with self._shared.lock:
            first = -(-max(spectrum, self._shared.next) // unit) * unit
            inputs = len(self._shared.periods[0].schedules)
            earlier = [p for p in self._shared.periods if p.begin < first]
            self._shared.periods[:] = [*earlier, _Period(first, direction, inputs)]
        return first

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
