"""How everything here is timed: in turn, by processor time, as ratios to a baseline of the same round."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from ryle.bench.harness import quartiles, ratios, take_turns


@dataclass(slots=True)
class Figure:
    """One measured figure.

    Parameters
    ----------
    case : str
        What was timed, with its sizes.
    value : float
        Median, in `unit`.
    unit : str
        Unit of `value`, `baseline_value` and `limit`.
    baseline : str
        What it is compared with; empty if with nothing.
    baseline_value : float, optional
        The baseline's median in the same unit.
    ratio : float, optional
        Median over the rounds of time over the baseline's time.
    spread : tuple of float, optional
        First and last quartile of those ratios (over the rounds of one run; over runs, their extremes).
    target : float, optional
        What `ratio` must not pass.
    limit : float, optional
        The most that the machine could do, where that is known, in `unit`.
    notes : dict
        Further numbers.
    """

    case: str
    value: float
    unit: str
    baseline: str = ""
    baseline_value: float | None = None
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    target: float | None = None
    limit: float | None = None
    notes: dict[str, float] = field(default_factory=dict)


def interleave(work: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Time pieces of work in turn.

    Parameters
    ----------
    work : mapping
        Name to what is timed; each is called once more beforehand, to warm up.
    rounds : int
        How often each is timed.

    Returns
    -------
    dict
        Name to seconds of this thread's processor time: what other processes take does not count.
    """

    def seconds_of(call: Callable[[], object]) -> float:
        begin = time.thread_time()
        call()
        return time.thread_time() - begin

    for call in work.values():
        call()
    return take_turns({name: partial(seconds_of, call) for name, call in work.items()}, rounds)


def compare(times: list[float], baseline: list[float]) -> tuple[float, tuple[float, float]]:
    """Median and quartiles of the rounds' ratios.

    Parameters
    ----------
    times, baseline : list of float
        Seconds, round by round.
    """
    found = ratios(times, baseline)
    return statistics.median(found), quartiles(found)
