"""How everything here is timed: in turn, by processor time, as ratios to a baseline of the same round."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial

from ryle.bench.harness import quartiles, ratios, take_turns


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
