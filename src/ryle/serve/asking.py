"""Asks the engines of one observation to change something, all from one time on, and hears what they say."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ryle.array.observed import sync_time
from ryle.config import ConfigError, Observation, parse
from ryle.monitor.control import ControlClient
from ryle.monitor.page import Page
from ryle.problems import listed
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
    said : dict of str to dict
        All that each engine said of it.
    """

    sample: int
    utc: str
    engines: dict[str, int]
    said: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Ask:
    """What one engine is asked.

    Parameters
    ----------
    page : Page
        Of the engine.
    key : str
        A control.
    value : mapping, optional
        What it is to be; the time stamp is added. If absent, it is told what it is.
    """

    page: Page
    key: str
    value: Mapping[str, Any] | None = None


class Engines:
    """Those of one observation that run on this machine. Not from several threads at a time.

    Parameters
    ----------
    observation : str, optional
        Its name; that which started last if absent.
    patience : float
        Seconds that an engine may take to answer.
    """

    def __init__(self, observation: str | None, patience: float) -> None:
        self._name, self._patience = observation, patience
        self._runs = Runs()
        self._clients: dict[tuple[str, int, int], ControlClient] = {}
        self._read: tuple[str, Observation] | None = None

    def close(self) -> None:
        """Hang up."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def look(self) -> list[Page]:
        """Give those that run.

        Raises
        ------
        SteeringError
            If none does, or the observation file cannot be read.
        """
        run = self._runs.find(self._name)
        which = f" called {self._name}" if self._name else ""
        if run is None or not (alive := [p for p in run.pages if p.alive]):
            raise SteeringError(f"no observation{which} runs on this machine: `ryle run` starts one")
        if self._read is None or self._read[0] != run.text:
            try:
                self._read = run.text, parse(run.text, run.name)
            except (ConfigError, ValueError) as error:
                raise SteeringError(f"the observation file of {run.name} cannot be read here: {error}") from None
        return alive

    def having(self, key: str, whose: str = "F-engines are") -> list[Page]:
        """Give those that have a control; `SteeringError` if none has."""
        having = [p for p in self.look() if key in p.controls]
        if not having:
            name = self.observation.observation.name
            raise SteeringError(f"nothing of {name} that runs takes {key}: its {whose} not there")
        return having

    @property
    def observation(self) -> Observation:
        """What is observed, as it was when they were looked at last."""
        assert self._read is not None
        return self._read[1]

    def change(self, asks: Sequence[Ask], sample: int | None, unit: int = 1) -> Change:
        """Ask engines to change something; all are to have it from one time stamp on.

        Parameters
        ----------
        asks : sequence of Ask
            At most one of each engine and key.
        sample : int or None
            From which time stamp on; as soon as all can if None.
        unit : int
            Samples to whose multiples engines round it up.

        Raises
        ------
        SteeringError
            If one refuses; says which has taken it nevertheless, if one has.
        """
        several = len(asks) > 1
        if sample is not None and several and -(-sample // unit) * unit < (first := self._next(asks)):
            # One of them would refuse it, and the others take it.
            raise SteeringError(f"late: sample {sample} has passed; changes can be made from sample {first} on")
        for attempt in range(_TRIES):
            wanted = sample
            if sample is None and several:
                ahead = math.ceil(float(self.observation.sample_rate) * _AHEAD * 2**attempt)
                wanted = -(-(self._next(asks) + ahead) // unit) * unit
            try:
                said = self.ask(asks, wanted)
            except SteeringError as error:
                if sample is None and _LATE.match(str(error)) and attempt + 1 < _TRIES:
                    continue  # engines that have taken it are asked again, for a later time
                raise
            break
        told = {name: int(each["sample"]) for name, each in said.items()}
        last = max(told.values())
        return Change(last, sync_time(self.observation).iso(last), told, said)

    def _next(self, asks: Iterable[Ask]) -> int:
        """Give the first time stamp from which on all can change anything, by what they said last."""
        pages = {p.name: p for key in {ask.key for ask in asks} for p in self.having(key)}
        said = [
            pages.get(ask.page.name, ask.page).values.get("next_scan" if ask.key == "scan" else "next_sample")
            for ask in asks
        ]
        return max((n for n in said if type(n) is int), default=0)

    def ask(self, asks: Sequence[Ask], sample: int | None = None) -> dict[str, dict[str, Any]]:
        """Ask all at once, then hear all answers, by engine.

        Raises
        ------
        SteeringError
            The first refusal, saying who has taken it nevertheless.
        """
        told: dict[str, dict[str, Any]] = {}
        refused: Exception | None = None
        for ask in asks:
            value = [] if ask.value is None else [ask.value if sample is None else {**ask.value, "sample": sample}]
            try:
                self._client(ask.page).ask(ask.key, *value)
            except (StatusError, TimeoutError) as error:
                raise SteeringError(str(error)) from None
        for ask in asks:
            try:
                answer = self._client(ask.page).answer()
                before = told.get(ask.page.name, {})
                last = max(before.get("sample", 0), int(answer.get("sample", 0)))
                told[ask.page.name] = before | answer | {"sample": last}
            except (StatusError, TimeoutError) as error:
                if isinstance(error, TimeoutError):
                    self._hang_up(ask.page)  # its answer may come later, and be taken for another's
                refused = refused or error
        if refused is None:
            return told
        if told and sample is not None and not _LATE.match(str(refused)):
            last = max(each["sample"] for each in told.values())
            raise SteeringError(f"{refused}; {listed(told)} has taken it, from sample {last} on")
        raise SteeringError(str(refused)) from None

    def _client(self, page: Page) -> ControlClient:
        key = page.name, page.owner.pid, page.owner.started
        if key not in self._clients:
            self._clients[key] = ControlClient(page, self._patience)
        return self._clients[key]

    def _hang_up(self, page: Page) -> None:
        client = self._clients.pop((page.name, page.owner.pid, page.owner.started), None)
        if client is not None:
            client.close()
