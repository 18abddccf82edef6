"""What others may set of an F-engine while it runs: gains and delays of its inputs, from a time stamp on."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ryle.array.delays import LinearDelayModel
from ryle.array.direction import Sidereal
from ryle.array.polynomials import DelayPolynomial
from ryle.config import Observation
from ryle.engines.steering import Steering
from ryle.stream.controls import Control, Late, sample_of
from ryle.stream.metrics import Registry

_NEARLY = 1 - 1e-6  # of the largest delay: it grows until it holds, a block of spectra later at most
_NUMBERS = ("delay", "rate", "phase", "phase_rate")


class SteeringControls:
    """The controls ``gains``, ``delays`` and ``phase_centre`` of an engine that channelizes.

    All take a JSON object with ``sample``, the time stamp from which on they are to hold: if it has passed they are
    refused. Without it they hold as soon as they can. The answer gives ``sample``, the time stamp of the first spectrum
    that has all of them. Gains and delays are those of ``inputs``, numbers in the array; of all if absent.

    Parameters
    ----------
    observation : Observation
        What is observed.
    antennas : sequence of int
        Consecutive; those of the engine.
    steering : Steering
        Of these.
    """

    def __init__(self, observation: Observation, antennas: Sequence[int], steering: Steering) -> None:
        self._observation, self._steering = observation, steering
        self._first = antennas[0] * observation.pols
        self._count = len(antennas) * observation.pols
        self._lock = threading.Lock()
        self._done = dict.fromkeys(("gains", "delays", "phase_centre"), 0)
        self._late = 0
        self._last: dict[str, int | None] = dict.fromkeys(self._done)

    def register(self, m: Registry) -> None:
        """Add the controls, and what is counted of them, to an engine's registry."""
        m.gauge("next_sample", "samples", "time stamp from which on changes can still be made", lambda: self._next)
        m.gauge("input_delay", "s", "that each input is given", self._steering.now)
        m.counter("gains_set", "", "changes of gains", lambda: self._done["gains"])
        m.counter("delays_set", "", "changes of delays", lambda: self._done["delays"])
        m.counter("phase_centres_set", "", "changes of the phase centre", lambda: self._done["phase_centre"])
        m.counter("late_controls", "", "changes refused as the time for them had passed", lambda: self._late)
        for name, means, set_ in (
            ("gains", "complex gains of inputs: {gains, inputs, sample}", self.set_gains),
            ("read_gains", "what inputs have after all changes so far: {inputs}", self.read_gains),
            ("delays", "delay models of inputs: {models: [[s, s/s, rad, rad/s]], inputs, sample}", self.set_delays),
            (
                "polynomials",
                "the same, bent: {delay, phase: [[c0, c1 …]], seconds, inputs, sample}",
                self.set_polynomials,
            ),
            ("phase_centre", "what is tracked: {ra, dec, sample}, degrees, ICRS", self.set_phase_centre),
        ):
            m.control(name, Control("json", means=means, get=self._last_of(name), set=set_))

    def _last_of(self, name: str) -> Callable[[], int | None]:
        return lambda: self._last.get(name)

    @property
    def _next(self) -> int:
        return self._steering.next

    def set_gains(self, value: Any) -> dict[str, Any]:
        """Change gains.

        Parameters
        ----------
        value : dict
            ``gains``: complex, or reals in pairs along a last axis of two, broadcast to (input, channel).

        Raises
        ------
        ValueError
            If they do not fit, are not finite, or are late; nothing has changed then.
        """
        inputs, sample = self._asked(value, "gains", "sample")
        gains = value["gains"]
        found = np.asarray(gains)
        if found.dtype.kind not in "biufc":
            raise ValueError(f"gains must be numbers, not {str(gains)[:60]!r}")
        if found.dtype.kind != "c" and not isinstance(gains, np.ndarray) and found.ndim and found.shape[-1] == 2:
            found = found[..., 0] + 1j * found[..., 1]
        with self._lock:
            self._in_time(sample)
            wanted = 0 if sample is None else -(-sample // self._observation.step)
            first = self._steering.gains.set(found, wanted, inputs)
            return self._did("gains", first * self._observation.step)

    def read_gains(self, value: Any) -> dict[str, Any]:
        """Say what inputs have after all changes so far: ``gains`` (input, channel), and ``sample`` they hold from."""
        inputs, _ = self._asked(value)
        first, gains = self._steering.gains.last(inputs)
        return {"sample": first * self._observation.step, "gains": gains}

    def set_delays(self, value: Any) -> dict[str, Any]:
        """Steer inputs by linear models.

        Parameters
        ----------
        value : dict
            ``models``: (input, 4), delay in seconds, its rate in s/s, phase in radians and its rate in rad/s, reached
            at ``sample``; one row for all inputs, or one an input. ``start``: the time stamp at which they are reached
            if that is another, earlier one.

        Raises
        ------
        ValueError
            If they do not fit, are not finite, beyond ``fengine.max_delay``, or late; nothing has changed then.
        """
        inputs, sample = self._asked(value, "models", "sample", "start")
        rows = self._rows("models", value["models"], len(inputs), len(_NUMBERS))
        rate = float(self._observation.sample_rate)
        return self._steer(value, inputs, sample, lambda start, row: [LinearDelayModel(start, rate, *rows[row])])

    def set_polynomials(self, value: Any) -> dict[str, Any]:
        """Steer inputs by polynomials of time, which are followed in straight lines (`ryle.array.polynomials`).

        Parameters
        ----------
        value : dict
            ``delay``: (input, coefficient), c0 + c1·t + c2·t² … in s, s/s …, t = 0 at ``sample``, or at ``start`` if
            that is given; one row for all inputs, or one an input. ``phase``: the same in rad; 0 if absent.
            ``seconds``: for how long they hold; what follows is a straight line.

        Raises
        ------
        ValueError
            As of `set_delays`, or if one bends too much to be followed; nothing has changed then.
        """
        o = self._observation
        inputs, sample = self._asked(value, "delay", "sample", "start", "phase", "seconds")
        delay = self._rows("delay", value["delay"], len(inputs))
        phase = self._rows("phase", value.get("phase", [0.0]), len(inputs))
        seconds = value.get("seconds")
        if type(seconds) not in (int, float):
            raise ValueError(f"seconds is {seconds!r}: say for how long the polynomials hold")
        made = [DelayPolynomial(d, p, seconds) for d, p in zip(delay, phase, strict=True)]
        rate, highest = float(o.sample_rate), float(o.sky_frequencies.max())
        return self._steer(value, inputs, sample, lambda start, row: made[row].models(start, rate, highest), seconds)

    def _steer(
        self,
        value: dict[str, Any],
        inputs: list[int],
        sample: int | None,
        models: Callable[[int, int], list[LinearDelayModel]],
        seconds: float = 0.0,
    ) -> dict[str, Any]:
        """Set models of inputs, given the time stamp at which they are reached and the input's row: all or none.

        They must be within the reach of delays from when on they hold until so many seconds after that time stamp.
        """
        with self._lock:
            self._in_time(sample)
            begin = self._next if sample is None else sample
            start = sample_of(value, "start")
            start = begin if start is None else start
            made = [models(start, row) for row in range(len(inputs))]
            most, end = self._observation.fengine.max_delay, start + int(seconds * self._observation.sample_rate)
            for number, line in zip(inputs, made, strict=True):
                first = max(0, sum(m.start <= begin for m in line) - 1)
                delays = [line[first].moved(begin).delay, *(m.delay for m in line[first + 1 :])]
                delays.append(line[-1].moved(max(begin, end)).delay)
                if abs(delay := max(delays, key=abs)) > _NEARLY * most:
                    raise ValueError(
                        f"a delay of {delay:.6g} s of input {number + self._first} is beyond fengine.max_delay, "
                        f"{most:.6g} s"
                    )
            done = [self._steering.set_delay(i, *line, sample=begin) for i, line in zip(inputs, made, strict=True)]
            return self._did("delays", max(done))

    def set_phase_centre(self, value: Any) -> dict[str, Any]:
        """Track another phase centre with all inputs, also with those that others have steered.

        Parameters
        ----------
        value : dict
            ``ra``, ``dec``: degrees, ICRS; both None: none is tracked, and cables' delays alone are corrected. It holds
            from the first integration of the X-engines on that begins at ``sample`` or later, so that none has two.

        Raises
        ------
        ValueError
            If it is none, would need delays beyond ``fengine.max_delay``, or is late; nothing has changed then.
        """
        if not isinstance(value, dict) or not {"ra", "dec"} <= set(value) <= {"ra", "dec", "sample"}:
            raise ValueError("give ra and dec, in degrees, and sample if it is to be later")
        sample, ra, dec = sample_of(value), value["ra"], value["dec"]
        numbers = all(type(x) in (int, float) and math.isfinite(x) for x in (ra, dec))
        if (ra, dec) != (None, None) and not (numbers and -360 <= ra <= 360 and -90 <= dec <= 90):
            raise ValueError(f"ra is {ra!r} and dec is {dec!r}: give degrees, ra from -360 to 360, dec from -90 to 90")
        o = self._observation
        direction = None if ra is None else Sidereal(ra % 360, dec)
        with self._lock:
            self._in_time(sample)
            wanted = 0 if sample is None else -(-sample // o.step)
            return self._did(
                "phase_centre", self._steering.set_phase_centre(direction, wanted, o.integration_spectra) * o.step
            )

    def _rows(self, name: str, rows: Any, inputs: int, columns: int | None = None) -> list[list[float]]:
        """Give numbers of each input, which were given for each or for all."""
        wanted = ", ".join(_NUMBERS) if columns else "coefficients"
        try:
            found = np.atleast_1d(np.asarray(rows, np.float64))
            found = np.broadcast_to(found, (inputs, columns or found.shape[-1]))
        except (ValueError, TypeError, OverflowError):
            raise ValueError(f"{name} must be {wanted} of each of {inputs} inputs, or of all") from None
        if not found.shape[1] or not np.isfinite(found).all():
            raise ValueError(f"{name} must be finite: {wanted}")
        listed: list[list[float]] = found.tolist()
        return listed

    def _asked(self, value: Any, *known: str) -> tuple[list[int], int | None]:
        """Check what a request has, the first of what is known must be there; give its inputs and its time stamp.

        Inputs are counted from the engine's first.
        """
        there = isinstance(value, dict) and set(known[:1]) <= set(value)
        if not there or (wrong := sorted(set(value) - {*known, "inputs"})):
            raise ValueError(
                f"give {', '.join(sorted({*known, 'inputs'}))}" + (f", and no {wrong[0]}" if there else "")
            )
        sample, inputs = sample_of(value), value.get("inputs")
        if inputs is None:
            return list(range(self._count)), sample
        if not isinstance(inputs, list) or not inputs or any(type(i) is not int for i in inputs):
            raise ValueError(f"inputs is {inputs!r}: give a list of numbers of inputs")
        last = self._first + self._count - 1
        if wrong := [i for i in inputs if not self._first <= i <= last]:
            raise ValueError(f"input {wrong[0]} is not this engine's, whose inputs are {self._first} to {last}")
        if len(set(inputs)) < len(inputs):
            raise ValueError(f"inputs {inputs} name one twice")
        return [i - self._first for i in inputs], sample

    def _in_time(self, sample: int | None) -> None:
        if sample is not None and sample < (first := self._next):
            self._late += 1
            raise Late(f"late: sample {sample} has passed; changes can be made from sample {first} on")

    def _did(self, what: str, sample: int) -> dict[str, Any]:
        self._done[what] += 1
        self._last[what] = sample
        return {"sample": sample}
