"""Raw samples of a whole array around one time, to files: each F-engine writes those of its inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ryle.array.observed import sync_time
from ryle.monitor.page import Page
from ryle.problems import listed
from ryle.serve.asking import Ask, SteeringError
from ryle.serve.telescope import Telescope

_CONTROL = "trigger"
_STALE = 1.0  # seconds by which what engines said last may have passed: twice the time between two status lines


@dataclass(frozen=True)
class Written:
    """What one engine writes, or has: blocks from one time stamp to another, to a file."""

    sample: int
    end: int
    file: str


@dataclass(frozen=True)
class Triggered:
    """What is written.

    Parameters
    ----------
    sample, end : int
        First time stamp that all engines write, and the one behind the last; samples since sync.
    utc : str
        Of the first, ISO 8601.
    engines : dict of str to Written
        What each writes.
    """

    sample: int
    end: int
    utc: str
    engines: dict[str, Written]


def trigger(
    telescope: Telescope,
    *,
    samples: int | None = None,
    seconds: float | None = None,
    sample: int | None = None,
    inputs: Sequence[str | int] | None = None,
    name: str = "trigger",
) -> Triggered:
    """Have raw samples written, while they are correlated.

    Parameters
    ----------
    telescope : Telescope
        Whose.
    samples, seconds
        How many; one of the two.
    sample : int, optional
        First time stamp. What has passed is taken as far back as it is held (``fengine.history``). If absent, what
        comes next: the same for all engines.
    inputs : sequence of str or int, optional
        See `Telescope.numbers`; all if absent.
    name : str
        Stands in the files' names: letters, digits and - _ .

    Raises
    ------
    SteeringError
        If an engine refuses; says why, and who has taken it nevertheless.
    """
    mine = list(range(len(telescope.inputs()))) if inputs is None else telescope.numbers(inputs)
    shares = telescope.sharing(_CONTROL, mine)
    for page, _ in shares:  # before any is asked: the others would take it
        if _writes(page):
            last = page.values[_CONTROL]
            raise SteeringError(f"{page.name} is still writing {last['file']}, to sample {last['end']}")
    o = telescope.observation
    if sample is None and len(shares) > 1:
        ahead = max(0, math.ceil((_STALE - o.fengine.history) * o.sample_rate))
        sample = max((page.values.get("held_to") or 0) for page, _ in shares) + ahead
    value: dict[str, Any] = {"name": name}
    value |= {key: given for key, given in (("samples", samples), ("seconds", seconds)) if given is not None}
    return _told(telescope, telescope.ask([Ask(p, _CONTROL, value | {"inputs": some}) for p, some in shares], sample))


def stop(telescope: Telescope) -> Triggered:
    """End what triggers write; what is written stays.

    Raises
    ------
    SteeringError
        If nothing is being written.
    """
    every = telescope.sharing(_CONTROL, range(len(telescope.inputs())))
    writing = [page for page, _ in every if _writes(page)]
    if not writing:
        raise SteeringError(f"nothing is to be stopped: {listed(page.name for page, _ in every)} write no samples")
    return _told(telescope, telescope.ask([Ask(page, _CONTROL, {"stop": True}) for page in writing]))


def _writes(page: Page) -> bool:
    return (page.values.get(_CONTROL) or {}).get("state") in ("waiting", "writing")


def _told(telescope: Telescope, said: dict[str, dict[str, Any]]) -> Triggered:
    engines = {name: Written(int(s["sample"]), int(s["end"]), str(s["file"])) for name, s in said.items()}
    first, end = max(e.sample for e in engines.values()), min(e.end for e in engines.values())
    return Triggered(first, end, sync_time(telescope.observation).iso(first), engines)
