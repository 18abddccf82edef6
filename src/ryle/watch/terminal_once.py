"""The state of a correlator, told once: for scripts, and for people who want no live view."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from enum import IntEnum
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ryle.watch.sight import Sight
from ryle.watch.terminal_draw import PLAIN, line
from ryle.watch.terminal_text import clock, overview, verdict
from ryle.watch.watcher import Watching

#: Seconds for which it looks: rates and alarms are of several looks.
LOOKS_FOR = 2.5


class Health(IntEnum):
    """Exit statuses of a look."""

    WELL = 0  # warnings are none of a script's business
    WRONG = 1  # an alarm of severity "error"
    NOTHING = 3  # no engine runs


def health(sight: Sight) -> Health:
    """Say how it stands, for a script."""
    if not any(engine.alive for engine in sight.engines):
        return Health.NOTHING
    wrong = any(alarm.ended is None and alarm.severity == "error" for alarm in sight.alarms)
    return Health.WRONG if wrong else Health.WELL


def look_once(source: Watching, seconds: float = LOOKS_FOR, now: Callable[[], float] = time.monotonic) -> Sight:
    """Look for some seconds and give the last look; at once if nothing runs."""
    sight, end = source.sight(), now() + seconds
    recorded = hasattr(source, "ended")  # may have been begun before the run
    while (sight.engines or recorded) and (left := end - now()) > 0:
        newer = source.wait(sight.time, left)
        if newer is None:
            break
        sight = newer
    return sight


def told(sight: Sight, width: int) -> RenderableType:
    """Write a look for people."""
    if not sight.engines:
        return Text("nothing of Ryle runs on this machine")
    head = Text.assemble((line(sight.observation), "bold"), f"  {line(sight.telescope)}  {clock(sight.time)} UTC  ")
    return Group(head.append_text(verdict(sight, PLAIN)), overview(sight, width, PLAIN))


def as_json(sight: Sight) -> dict[str, Any]:
    """Give a look ready for JSON, without pictures and the observation file; "health" says how it stands."""
    found = asdict(replace(sight, glance=None, histograms=None, text=""))
    del found["glance"], found["histograms"], found["text"]
    return {"health": health(sight).name.lower(), **found}
