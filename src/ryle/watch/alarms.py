"""Alarms: what is wrong with a running correlator, for long enough to be told, until it has been gone for a while.

A condition (`ryle.watch.conditions`) is an alarm when it has held for some looks and some time, and over when it has
been gone for longer: what lasts a moment is none, and what comes and goes is one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from ryle.config import Observation
from ryle.watch.conditions import Conditions
from ryle.watch.finding import Finding, Thresholds
from ryle.watch.sight import Alarm, Sight

#: Seconds for which an alarm that has ended is still shown, and how many are.
REMEMBERED, MOST_ENDED = 300.0, 50


@dataclass
class _State:
    """How long a finding has been there."""

    finding: Finding
    first: float
    last: float
    looks: int = 0
    alarm: Alarm | None = None


class Alarms:
    """Judges the looks at one run, in their order.

    Parameters
    ----------
    observation : Observation or None
        What is observed; None if nobody knows.
    thresholds : Thresholds
        From where on something is wrong.
    """

    def __init__(self, observation: Observation | None, thresholds: Thresholds | None = None) -> None:
        self._t = thresholds or Thresholds()
        self._conditions = Conditions(observation, self._t)
        self._states: dict[tuple[str, str], _State] = {}
        self._ended: list[Alarm] = []
        self._time = -np.inf

    def judge(self, sight: Sight, history: Sequence[Sight] = ()) -> tuple[Alarm, ...]:
        """Judge a look; give all alarms, those under way first, the newest first, then those that ended lately.

        Parameters
        ----------
        sight : Sight
            Newer than those judged before; its own alarms are not looked at.
        history : sequence of Sight
            Those before it; not needed by any alarm so far.
        """
        now = sight.time
        if now < self._time:  # the clock was set back: times that are kept are those of the new one
            by = now - self._time
            self._conditions.shift(by)
            for state in self._states.values():
                state.first, state.last = state.first + by, state.last + by
        self._time = now
        found = {(f.kind, f.subject): f for f in self._conditions.findings(sight)}
        for key, finding in found.items():
            known = self._states.setdefault(key, _State(finding, now, now))
            known.finding, known.last, known.looks = finding, now, known.looks + 1
        for key, state in list(self._states.items()):
            if state.alarm is not None:
                if key in found:
                    f = state.finding
                    state.alarm = replace(state.alarm, severity=f.severity, text=f.text, cure=f.cure)
                elif now - state.last >= self._t.gone:
                    self._ended.insert(0, replace(state.alarm, ended=now))
                    del self._states[key]
            elif key not in found:  # it has not held
                del self._states[key]
            elif state.looks >= self._t.looks and now - state.first >= self._t.holds:
                f = state.finding
                state.alarm = Alarm(f.kind, f.subject, f.severity, f.text, f.cure, since=now)
        self._ended = [a for a in self._ended if a.ended is not None and now - a.ended < REMEMBERED][:MOST_ENDED]
        under_way = [s.alarm for s in self._states.values() if s.alarm is not None]
        return (*sorted(under_way, key=lambda a: -a.since), *self._ended)


class AlarmLog:
    """Writes alarms to a file, a line of JSON when one begins and one when it ends.

    Parameters
    ----------
    path : Path
        The file; lines are added to it.
    say : callable, optional
        Told once if it cannot be written.
    """

    def __init__(self, path: Path, say: Callable[[str], None] = lambda what: None) -> None:
        self._path, self._say = path, say
        self._open: dict[tuple[str, str], Alarm] = {}
        self._failed = False

    def add(self, sight: Sight) -> None:
        """Write what is new in a look."""
        lines = []
        for alarm in reversed(sight.alarms):
            key = alarm.kind, alarm.subject
            known = self._open.get(key)
            if alarm.ended is None and (known is None or known.since != alarm.since):
                self._open[key] = alarm
                lines.append({"event": "alarm", "time": alarm.since} | self._about(alarm, sight))
            elif alarm.ended is not None and known is not None and known.since == alarm.since:
                del self._open[key]
                lines.append({"event": "alarm ended", "time": alarm.ended} | self._about(alarm, sight))
        if not lines:
            return
        text = "".join(json.dumps(line) + "\n" for line in lines)
        try:
            with open(os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644), "a") as file:
                file.write(text)
        except OSError as error:
            if not self._failed:
                self._say(f"alarms cannot be written to {self._path}: {error.strerror}")
            self._failed = True

    @staticmethod
    def _about(alarm: Alarm, sight: Sight) -> dict[str, object]:
        return {"observation": sight.observation} | {k: v for k, v in asdict(alarm).items() if k != "time"}


def anchor(alarm: Alarm) -> str:
    """Name the section of the troubleshooting page that is about an alarm."""
    return alarm.kind.replace(" ", "-")
