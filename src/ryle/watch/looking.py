"""One look: pages and glances of a run, joined to a `Sight`, with rates that are made of this look and those before.

What lies in shared memory, anybody may have put there: figures of other types than engines give are taken for absent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ryle.config import ConfigError, Observation, changed, parse
from ryle.monitor.page import Page
from ryle.monitor.table import Rate
from ryle.products.glance import Glance
from ryle.watch.left import Left
from ryle.watch.log_tail import LogTail
from ryle.watch.run_pages import Run, Runs, role_of
from ryle.watch.sight import STAGES, EngineSight, InputSight, Sight

_EARLY = 5.0  # seconds by which a log may be older than the process that writes it


class Looking:
    """Makes looks, from one thread.

    Parameters
    ----------
    observation : str, optional
        Name of the observation; the run that started last if absent.
    """

    def __init__(self, observation: str | None = None) -> None:
        self._wanted, self._runs, self._logs = observation, Runs(), LogTail()
        self._rates: dict[tuple[str, int, str], Rate] = {}
        self._updated: dict[tuple[str, int], float] = {}
        self._left = Left()
        self._engines: dict[tuple[str, int], None] = {}  # all that this run had
        self._text = ""
        self._centre: dict[str, Any] | None = None  # that was turned to last
        #: The observation, if its file could be read.
        self.observation: Observation | None = None
        #: Pages of the last look.
        self.pages: tuple[Page, ...] = ()

    def look(self) -> Sight:
        """Look once; `Sight.alarms` are for others to judge."""
        now = time.time()
        run = self._runs.find(self._wanted)
        self.pages = run.pages if run is not None else ()
        if run is None:
            self._begin("", None)
            return Sight(now)
        self._begin(run.text, run)
        engines = tuple(self._engine(page) for page in run.pages)
        self._turn_to([e.values.get("scan") for e in engines if e.alive])
        self._forget()
        glance, adc = self._left.glance(run, self.observation), self._left.adc(run, self.observation)
        writers = [e for e in engines if "integrations" in e.values]
        said = [e for e in writers if e.alive] or writers
        begin, position = (
            [p for e in said if (p := _number(e.values.get(name))) is not None] for name in ("begin", "position")
        )
        file = next((f for e in writers if (f := _text(e.values.get("file")))), "")
        directories = [d for e in writers if (d := _text(e.values.get("directory")))] or [
            str(Path(file).parent)
        ] * bool(file)
        o = self.observation
        end = None if o is None or o.end_sample is None else float(o.end_sample / o.sample_rate)
        return Sight(
            time=now,
            observation=run.name,
            telescope="" if o is None else o.array.name,
            text=run.text,
            file=file,
            integrations=max((int(_number(e.values["integrations"]) or 0) for e in writers), default=0),
            position=min(position) if position else None,
            begin=min(begin, default=None),
            duration=end,
            engines=engines,
            inputs=_inputs(o, engines, glance, adc.verdicts),
            disk_free=_least_free([_text(e.values.get("writes")) or file for e in writers]),
            log=self._logs.lines(Path(directories[0]) / "logs", self._engines, run.began - _EARLY)
            if directories
            else (),
            glance=glance,
            histograms=adc.histograms,
        )

    def _begin(self, text: str, run: Run | None) -> None:
        """Read the observation if it is another one; remember which engines it has."""
        if text != self._text:
            self._text, self.observation, self._engines = text, None, {}
            self._centre = None
            self._left.clear()
        if run is None:
            return
        for page in run.pages:
            if (role := role_of(page)) is not None:
                self._engines.setdefault(role)
        if self.observation is None:
            self.observation = read_observation(text, [p.values for p in run.pages])

    def _turn_to(self, scans: Sequence[Any]) -> None:
        """Follow the phase centre of whoever writes, if it was set to another one."""
        centre = next((scan.get("phase_centre") for scan in scans if isinstance(scan, dict)), None)
        o = self.observation
        if o is None or not isinstance(centre, dict) or centre in (dict(o.phase_centre or ()), self._centre):
            return
        self._centre = centre
        try:
            self.observation = changed(o, phase_centre=centre)
        except (ConfigError, TypeError, ValueError):  # anybody may have put anything on a page
            return

    def _engine(self, page: Page) -> EngineSight:
        role = role_of(page)
        assert role is not None
        key = page.name, page.owner.started
        if page.updated < self._updated.get(key, 0.0):  # the clock was set back
            self._rates = {k: rate for k, rate in self._rates.items() if k[:2] != key}
        self._updated[key] = page.updated
        rates = {
            name: self._rates.setdefault((*key, name), Rate()).update(page.updated, count)
            for name, count in _counters(page)
        }
        state = _text(page.values.get("state")) or "starting"
        return EngineSight(
            name=page.name,
            role=role[0],
            index=role[1],
            pid=page.owner.pid,
            alive=page.alive,
            state=state,
            updated=page.updated,
            values=page.values,
            rates=rates,
            kinds=page.kinds,
            controls={name: control.as_dict() for name, control in page.controls.items()},
        )

    def _forget(self) -> None:
        """Forget what is kept of engines that have gone."""
        there = {(page.name, page.owner.started) for page in self.pages}
        self._updated = {key: when for key, when in self._updated.items() if key in there}
        self._rates = {key: rate for key, rate in self._rates.items() if key[:2] in there}
        self._left.forget(self.pages)


def read_observation(text: str, engines: Iterable[Mapping[str, Any]]) -> Observation | None:
    """Read the observation file that engines left; None if it cannot be.

    Parameters
    ----------
    text : str
        The file.
    engines : iterable of mapping
        Their figures: who writes says where the file lies, for others that it names lie beside it.
    """
    if not text:
        return None
    for source in [s for values in engines if (s := _text(values.get("source")))] or ["observation"]:
        try:
            return parse(text, source)
        except (ConfigError, OSError, ValueError):
            continue
    return None


def _counters(page: Page) -> list[tuple[str, int]]:
    """List what only grows: counters, and members of the account as "account.missing"."""
    found = [
        (name, value)
        for name, value in page.values.items()
        if type(value) is int and page.kinds.get(name, ("",))[0] == "counter"
    ]
    account = page.values.get("account")
    if isinstance(account, dict):
        found += [(f"account.{name}", value) for name, value in account.items() if type(value) is int]
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float | None:
    """Give a number that a page has as one; None for what is none, or no finite one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 else None  # NaN is not


def _least_free(files: list[str]) -> float | None:
    """Bytes left where files are: where there are fewest."""
    found = []
    for file in filter(None, files):
        try:
            disk = os.statvfs(Path(file).parent)
        except (OSError, ValueError):
            continue
        found.append(float(disk.f_bavail * disk.f_frsize))
    return min(found, default=None)


def _column(values: Mapping[str, Any], name: str, count: int) -> list[float | None]:
    found = values.get(name)
    if not isinstance(found, list) or len(found) != count:
        return [None] * count
    return [_number(value) for value in found]


def _inputs(
    o: Observation | None, engines: tuple[EngineSight, ...], glance: Glance | None, verdicts: Sequence[str | None]
) -> tuple[InputSight, ...]:
    """Join what engines say of their inputs."""
    names: dict[int, tuple[str, str]] = {}
    if o is not None:
        every = ((a.name, p) for a in o.antennas for p in o.array.polarizations)
        names = dict(enumerate(every))
    told: dict[int, dict[str, Any]] = {}
    for engine in engines:
        labels, first = engine.values.get("inputs"), engine.values.get("first_input")
        if not isinstance(labels, list) or type(first) is not int or not 0 <= first < 1 << 20:
            continue
        count = len(labels)
        columns = {name: _column(engine.values, name, count) for name in _OF_INPUTS}
        full = _number(engine.values.get("full_scale"))
        placed = _placed(engine)
        for n, label in enumerate(labels):
            antenna, _, polarization = str(label).rpartition(" ")
            names.setdefault(first + n, (antenna, polarization))
            row = {name: column[n] for name, column in columns.items()}
            told[first + n] = row | {"full_scale": full, "account": placed, "dead": not engine.alive}
    if glance is not None and not names:
        names = {i: (str(i // glance.pols), "xy"[i % glance.pols]) for i in range(glance.antennas * glance.pols)}
    share = _shares(glance, len(names))
    of_codes = dict(enumerate(verdicts))
    return tuple(_input(i, names[i], told.get(i, {}), share.get(i), of_codes.get(i)) for i in sorted(names))


#: Figures of inputs that engines have in lists (`ryle.engines.totals`).
_OF_INPUTS = ("input_rms", "input_clipped", "input_saturated", "input_placed", "input_present", "input_delay")


def _input(
    index: int, name: tuple[str, str], told: Mapping[str, Any], share: float | None, of_codes: str | None
) -> InputSight:
    rms, full = told.get("input_rms"), told.get("full_scale")
    dbfs = None if not rms or not full or rms < 0 or full < 0 else float(20 * np.log10(rms * np.sqrt(2) / full))
    placed = told.get("input_placed")
    ring = placed if placed is not None else told.get("account")
    present = {"ring": ring, "F": told.get("input_present"), "X": share, "file": share}
    if told.get("dead"):  # its last words say nothing of now
        present |= {"ring": None, "F": None}
    return InputSight(
        index=index,
        antenna=name[0],
        polarization=name[1],
        rms=rms,
        dbfs=dbfs,
        clipped=told.get("input_clipped"),
        saturated=told.get("input_saturated"),
        present={stage: present[stage] for stage in STAGES},
        delay=told.get("input_delay"),
        codes=of_codes,
    )


def _placed(engine: EngineSight) -> float | None:
    """Share of the packets that an engine expected over the last seconds which were placed; None if none was."""
    expected, missing = (engine.rates.get(f"account.{name}") for name in ("expected", "missing"))
    if expected is None or missing is None or expected <= 0:
        return None
    return float(np.clip(1 - missing / expected, 0, 1))


def _shares(glance: Glance | None, count: int) -> dict[int, float]:
    if glance is None or len(glance.present) != count:
        return {}
    good = np.clip(np.nan_to_num(glance.present.astype(np.float64)), 0, 1)
    return dict(enumerate(good.tolist()))
