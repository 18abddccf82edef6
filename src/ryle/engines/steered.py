"""What others may set of an F-engine while it runs: gains and delays of its inputs, from a time stamp on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.array.delays import LinearDelayModel
from ryle.config import Observation
from ryle.engines.steering import Steering
from ryle.stream.controls import Control
from ryle.stream.metrics import Registry

_NEARLY = 1 - 1e-6  # of the largest delay: it grows until it holds, a block of spectra later at most
_NUMBERS = ("delay", "rate", "phase", "phase_rate")


class Late(ValueError):  # noqa: N818 - a refusal, told to whoever asked
    """What was asked for was to hold from a time on that has passed."""


class SteeringControls:
    """The controls ``gains`` and ``delays`` of an engine that channelizes.

    Both take a JSON object with ``inputs``, numbers in the array (all if absent), and ``sample``, the time stamp from
    which on they are to hold: if it has passed they are refused. Without it they hold as soon as they can. The answer
    gives ``sample``, the time stamp of the first spectrum that has all of them.

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
        self._done = {"gains": 0, "delays": 0}
        self._late = 0
        self._last: dict[str, int | None] = {"gains": None, "delays": None}

    def register(self, m: Registry) -> None:
        """Add the controls, and what is counted of them, to an engine's registry."""
        m.gauge("next_sample", "samples", "time stamp from which on changes can still be made", lambda: self._next)
        m.gauge("input_delay", "s", "that each input is given", self._steering.now)
        m.counter("gains_set", "", "changes of gains", lambda: self._done["gains"])
        m.counter("delays_set", "", "changes of delays", lambda: self._done["delays"])
        m.counter("late_controls", "", "changes refused as the time for them had passed", lambda: self._late)
        for name, means, set_ in (
            ("gains", "complex gains of inputs: {gains, inputs, sample}", self.set_gains),
            ("delays", "delay models of inputs: {models: [[s, s/s, rad, rad/s]], inputs, sample}", self.set_delays),
        ):
            m.control(name, Control("json", means=means, get=self._last_of(name), set=set_))

    def _last_of(self, name: str) -> Callable[[], int | None]:
        return lambda: self._last[name]

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
        inputs, sample = self._asked(value, "gains")
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
        inputs, sample = self._asked(value, "models")
        models = self._models(value["models"], len(inputs))
        rate = float(self._observation.sample_rate)
        with self._lock:
            self._in_time(sample)
            begin = self._next if sample is None else sample
            start = value.get("start", begin)
            if type(start) is not int or not 0 <= start < 1 << 62:
                raise ValueError(f"start is {start!r}: it is a time stamp, a count of samples since sync")
            made = [LinearDelayModel(start, rate, *row) for row in models.tolist()]
            most = self._observation.fengine.max_delay
            for number, model in zip(inputs, made, strict=True):  # all or none
                if abs(delay := model.moved(begin).delay) > _NEARLY * most:
                    raise ValueError(
                        f"a delay of {delay:.6g} s of input {number + self._first} is beyond fengine.max_delay, "
                        f"{most:.6g} s"
                    )
            first = max(self._steering.set_delay(i, model, begin) for i, model in zip(inputs, made, strict=True))
            return self._did("delays", first)

    def _models(self, models: Any, inputs: int) -> NDArray[np.float64]:
        try:
            found = np.broadcast_to(np.asarray(models, np.float64), (inputs, len(_NUMBERS)))
        except (ValueError, TypeError):
            raise ValueError(f"models must be {', '.join(_NUMBERS)} of each of {inputs} inputs, or of all") from None
        if not np.isfinite(found).all():
            raise ValueError("delay models must be finite")
        return found

    def _asked(self, value: Any, what: str) -> tuple[list[int], int | None]:
        """Check what every request has; give its inputs, counted from the engine's first, and its time stamp."""
        known = {what, "inputs", "sample", *({"start"} if what == "models" else ())}
        if not isinstance(value, dict) or what not in value or (wrong := sorted(set(value) - known)):
            raise ValueError(
                f"give {', '.join(sorted(known))}"
                + (f", and no {wrong[0]}" if isinstance(value, dict) and what in value else "")
            )
        sample, inputs = value.get("sample"), value.get("inputs")
        if sample is not None and (type(sample) is not int or not 0 <= sample < 1 << 62):
            raise ValueError(f"sample is {sample!r}: it is a time stamp, a count of samples since sync")
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
