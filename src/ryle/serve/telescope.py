"""Steers a running correlator as a whole: engines get their inputs' share of what is asked, all from one time on."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.array.observed import sync_time
from ryle.config import ConfigError, Observation, parse
from ryle.monitor.control import ControlClient
from ryle.monitor.page import Page
from ryle.problems import listed
from ryle.products.observed import input_labels
from ryle.stream.controls import StatusError
from ryle.watch.run_pages import Runs

#: Seconds after what engines said last at which changes of several are to hold, so that none has passed it when it is
#: asked: twice the time between two status lines. Tries, each of which leaves twice as long.
_AHEAD, _TRIES = 1.0, 4
_LATE = re.compile(r"^late: ")


class SteeringError(StatusError):
    """What was asked cannot be done; says why, and what can."""


@dataclass(frozen=True)
class Change:
    """What was done.

    Parameters
    ----------
    sample : int
        Time stamp, samples since sync, of the first spectrum that has all of it.
    utc : str
        The same, ISO 8601.
    engines : dict of str to int
        The same of each engine.
    """

    sample: int
    utc: str
    engines: dict[str, int]


class Telescope:
    """The engines of one observation that runs on this machine, steered together. From any thread.

    Parameters
    ----------
    observation : str, optional
        Its name; that which started last if absent.
    patience : float
        Seconds that an engine may take to answer.
    """

    def __init__(self, observation: str | None = None, patience: float = 10.0) -> None:
        self._name, self._patience = observation, patience
        self._runs = Runs()
        self._clients: dict[tuple[str, int, int], ControlClient] = {}
        self._read: tuple[str, Observation] | None = None
        self._lock = threading.RLock()

    def close(self) -> None:
        """Hang up."""
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def __enter__(self) -> Telescope:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def observation(self) -> Observation:
        """What is observed.

        Raises
        ------
        SteeringError
            If nothing runs.
        """
        with self._lock:
            self._engines("gains")
            assert self._read is not None
            return self._read[1]

    def inputs(self) -> list[str]:
        """Names of all inputs, antenna and polarization, in order."""
        return input_labels(self.observation)

    def sample_at(self, time: str) -> int:
        """Give the sample count at an instant: UTC as ISO 8601.

        Raises
        ------
        SteeringError
            If it is none, or before sync.
        """
        try:
            sample = sync_time(self.observation).count(time)
        except ValueError as error:
            raise SteeringError(f"{time!r} is no time: {error}") from None
        if sample < 0:
            raise SteeringError(f"{time} is before the observation's sync_time")
        return sample

    def sample_at_unix(self, seconds: Fraction) -> int:
        """Give the sample count at a Unix time, rounded to the nearest."""
        sync = sync_time(self.observation)
        sample = round((seconds - sync.unix) * self.observation.sample_rate)
        if sample < 0:
            raise SteeringError(f"{float(seconds)} s is before the observation's sync_time, {float(sync.unix)} s")
        return sample

    def numbers(self, names: Sequence[str | int]) -> list[int]:
        """Give the numbers of inputs, by number, name (``"A1 x"``) or antenna (all its polarizations).

        Raises
        ------
        SteeringError
            If there is none of that name.
        """
        known, found = self.inputs(), []
        pols = self.observation.pols
        antennas = [a.name for a in self.observation.antennas]
        for name in names:
            if isinstance(name, int) or (name not in known and name not in antennas and name.isdecimal()):
                if not 0 <= int(name) < len(known):
                    raise SteeringError(f"there is no input {name}: they are 0 to {len(known) - 1}")
                found.append(int(name))
            elif name in known:
                found.append(known.index(name))
            elif name in antennas:
                first = antennas.index(name) * pols
                found += range(first, first + pols)
            else:
                raise SteeringError(f"there is no input {name!r}: there are {listed(known)}")
        if len(set(found)) < len(found):
            raise SteeringError(f"inputs {listed(map(str, names))} name one twice")
        return found

    def set_gains(self, gains: Any, inputs: Sequence[str | int] | None = None, sample: int | None = None) -> Change:
        """Change the complex gains of inputs.

        Parameters
        ----------
        gains : array_like of complex
            One for all; or of shape (input,), (input, 1) or (input, channel), in the order of `inputs`; or (channel,)
            for one input.
        inputs : sequence of str or int, optional
            See `numbers`; all if absent.
        sample : int, optional
            Time stamp from which on they are to hold; as soon as all engines can if absent.

        Raises
        ------
        SteeringError
            If they do not fit or are late: says why. Nothing has changed then.
        """
        mine = list(range(len(self.inputs()))) if inputs is None else self.numbers(inputs)
        channels = self.observation.fengine.channels
        try:
            with np.errstate(over="ignore"):  # what is too large is not finite
                found = np.asarray(gains, np.complex64)
        except (ValueError, TypeError):
            raise SteeringError("gains must be complex numbers") from None
        if found.shape == (channels,) and len(mine) == 1 and channels > 1:
            found = found[np.newaxis]
        elif found.ndim == 1:
            found = found[:, np.newaxis]
        if found.ndim > 2 or (
            found.ndim == 2 and (len(found) not in (1, len(mine)) or found.shape[1] not in (1, channels))
        ):
            raise SteeringError(f"gains of shape {found.shape} do not fit {len(mine)} inputs and {channels} channels")
        if not np.isfinite(found).all():
            raise SteeringError("gains must be finite; 0 blanks a channel")
        rows = np.broadcast_to(found, (len(mine), found.shape[-1] if found.ndim == 2 else 1))
        return self._change("gains", mine, {"gains": rows}, sample)

    def set_delays(
        self,
        models: Any,
        inputs: Sequence[str | int] | None = None,
        sample: int | None = None,
        start: int | None = None,
    ) -> Change:
        """Steer inputs by delay models, and by geometry no longer.

        Parameters
        ----------
        models : array_like of float, shape (4,) or (input, 4)
            Delay in seconds, its rate in s/s, total phase at the centre of the band in radians, its rate in rad/s.
        inputs : sequence of str or int, optional
            See `numbers`; all if absent.
        sample : int, optional
            Time stamp from which on they are to hold; as soon as all engines can if absent.
        start : int, optional
            Time stamp at which `models` are reached; `sample` if absent.

        Raises
        ------
        SteeringError
            If they do not fit, are too large or late: says why. Nothing has changed then.
        """
        mine = list(range(len(self.inputs()))) if inputs is None else self.numbers(inputs)
        try:
            found = np.broadcast_to(np.asarray(models, np.float64), (len(mine), 4))
        except (ValueError, TypeError):
            raise SteeringError("models must be delay, rate, phase and phase rate of each input, or of all") from None
        if not np.isfinite(found).all():
            raise SteeringError("delay models must be finite")
        most, rate = self.observation.fengine.max_delay, float(np.abs(found[:, 1]).max(initial=0.0))
        if rate >= 1:
            raise SteeringError(f"a delay's rate of {rate:g} s/s is not less than 1: is it in ns/s?")
        if (largest := float(np.abs(found[:, 0]).max(initial=0.0))) > most and start is None:
            raise SteeringError(f"a delay of {largest:.6g} s is beyond fengine.max_delay, {most:.6g} s")
        return self._change("delays", mine, {"models": found}, sample, {} if start is None else {"start": start})

    # -- engines -----------------------------------------------------------------------------------------------------

    def _engines(self, key: str) -> list[Page]:
        run = self._runs.find(self._name)
        which = f" called {self._name}" if self._name else ""
        if run is None or not (alive := [p for p in run.pages if p.alive]):
            raise SteeringError(f"no observation{which} runs on this machine: `ryle run` starts one")
        if self._read is None or self._read[0] != run.text:
            try:
                self._read = run.text, parse(run.text, run.name)
            except (ConfigError, ValueError) as error:
                raise SteeringError(f"the observation file of {run.name} cannot be read here: {error}") from None
        having = [p for p in alive if key in p.controls]
        if not having:
            raise SteeringError(f"nothing of {run.name} that runs takes {key}: its F-engines are not there")
        return having

    def _client(self, page: Page) -> ControlClient:
        key = page.name, page.owner.pid, page.owner.started
        if key not in self._clients:
            self._clients[key] = ControlClient(page, self._patience)
        return self._clients[key]

    def _change(
        self,
        key: str,
        inputs: list[int],
        arrays: Mapping[str, NDArray[Any]],
        sample: int | None,
        more: Mapping[str, Any] | None = None,
    ) -> Change:
        """Ask each engine for its share; all are to have it from one time stamp on."""
        with self._lock:
            shares = self._shares(self._engines(key), inputs)
            if sample is not None and len(shares) > 1 and sample < (first := self._next(shares)):
                # One of them would refuse it, and the others take it.
                raise SteeringError(f"late: sample {sample} has passed; changes can be made from sample {first} on")
            for attempt in range(_TRIES):
                wanted = sample
                if sample is None and len(shares) > 1:
                    wanted = self._next(shares) + math.ceil(self._rate * _AHEAD * 2**attempt)
                try:
                    told = self._ask(key, shares, inputs, arrays, wanted, more or {})
                except (StatusError, TimeoutError) as error:
                    if sample is None and _LATE.match(str(error)) and attempt + 1 < _TRIES:
                        continue  # engines that have taken it are asked again, for a later time
                    raise SteeringError(str(error)) from None
                break
            assert self._read is not None
            last = max(told.values())
            return Change(last, sync_time(self._read[1]).iso(last), told)

    @property
    def _rate(self) -> float:
        assert self._read is not None
        return float(self._read[1].sample_rate)

    def _shares(self, pages: Sequence[Page], inputs: list[int]) -> list[tuple[Page, list[int]]]:
        """Say which of the inputs each engine has."""
        shares, left = [], set(inputs)
        for page in pages:
            first, names = page.values.get("first_input"), page.values.get("inputs")
            if type(first) is not int or not isinstance(names, list):
                continue
            mine = [i for i in inputs if first <= i < first + len(names)]
            if mine:
                shares.append((page, mine))
                left -= set(mine)
        if left:
            raise SteeringError(f"inputs {listed(map(str, sorted(left)))} are of no engine that runs on this machine")
        return shares

    def _next(self, shares: Sequence[tuple[Page, list[int]]]) -> int:
        """Give the first time stamp from which on all engines can change anything, by what they said last."""
        pages = {p.name: p for p in self._engines("gains")}
        said = [pages.get(page.name, page).values.get("next_sample") for page, _ in shares]
        return max((n for n in said if type(n) is int), default=0)

    def _ask(
        self,
        key: str,
        shares: Sequence[tuple[Page, list[int]]],
        inputs: list[int],
        arrays: Mapping[str, NDArray[Any]],
        sample: int | None,
        more: Mapping[str, Any],
    ) -> dict[str, int]:
        """Ask all at once, then hear all answers; raise the first refusal, saying who has taken it nevertheless."""
        row = {number: row for row, number in enumerate(inputs)}
        told: dict[str, int] = {}
        refused: Exception | None = None
        for page, mine in shares:
            value: dict[str, Any] = {"inputs": mine, **more}
            value |= {name: array[[row[i] for i in mine]] for name, array in arrays.items()}
            if sample is not None:
                value["sample"] = sample
            self._client(page).ask(key, value)
        for page, _ in shares:
            try:
                told[page.name] = int(self._client(page).answer()["sample"])
            except (StatusError, TimeoutError) as error:
                if isinstance(error, TimeoutError):
                    self._hang_up(page)  # its answer may come later, and be taken for another's
                refused = refused or error
        if refused is None:
            return told
        if told and sample is not None and not _LATE.match(str(refused)):
            raise StatusError(f"{refused}; {listed(told)} has taken it, from sample {max(told.values())} on")
        raise refused

    def _hang_up(self, page: Page) -> None:
        self._clients.pop((page.name, page.owner.pid, page.owner.started)).close()
