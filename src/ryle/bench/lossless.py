"""The highest rate at which nothing is lost, found in spite of losses by chance.

Packets are lost at any rate, and senders fall behind, while the host takes processor time away (the steal counter of
``/proc/stat``) or other programs use it. A trial that was disturbed so and did not go well is repeated; one with losses
that nothing disturbed, once. Only losses in two undisturbed trials, or in all of several, count against a rate.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

_STOLEN = 0.02  # seconds of processor time that a trial may lose and still be called undisturbed
_OTHERS = 0.1  # share of a core that other programs may use
_KEPT_UP = 0.97  # share of the rate asked for that a sender must reach
_BEHIND = 0.1  # seconds that the last packets may need
_KEPT_BACK = 0.02  # share of a trial's packets that may wait in buffers at its end
_TRIES = 4  # disturbed trials at one rate, at most
_FASTER = 1.5
_LOWER = 0.95  # after a confirmation that failed
_CONFIRMATIONS = 6


@dataclass(frozen=True, slots=True)
class Trial:
    """Traffic at one rate for a while.

    Parameters
    ----------
    asked, offered : float
        Gb/s of payload that the sender was asked for, and sent.
    seconds : float
        How long.
    sent, lost : int
        Packets sent, and those that were not placed.
    stolen, others : float
        Seconds of processor time that the host took away meanwhile, and that other programs used.
    behind : float
        Seconds after the sender's end at which the last packet was placed: buffers held them back until then.
    """

    asked: float
    offered: float
    seconds: float
    sent: int
    lost: int
    stolen: float
    others: float = 0.0
    behind: float = 0.0

    @property
    def lossless(self) -> bool:
        """Whether nothing was lost, nor hidden by buffers that a longer trial would have filled."""
        return self.sent > 0 and self.lost == 0 and self.behind <= _BEHIND + _KEPT_BACK * self.seconds

    @property
    def disturbed(self) -> bool:
        """Whether it did not have the machine for itself."""
        return self.stolen > _STOLEN or self.others > _OTHERS * self.seconds

    @property
    def kept_up(self) -> bool:
        """Whether the sender sent as fast as it was asked to."""
        return self.offered >= _KEPT_UP * self.asked


@dataclass
class Search:
    """What a search found.

    Parameters
    ----------
    rate : float
        Highest rate without loss, Gb/s of payload; 0 if there is none.
    confirmed : float
        Seconds for which it was confirmed; 0 if it was not.
    limit : str
        What kept it from being higher: "receiver", "sender", or "asked for" where the search stopped.
    trials : list of Trial
        All that was tried.
    """

    rate: float = 0.0
    confirmed: float = 0.0
    limit: str = "receiver"
    trials: list[Trial] = field(default_factory=list)


def highest_lossless(
    run: Callable[[float, float], Trial],
    start: float,
    most: float = 1000.0,
    *,
    seconds: float = 2.0,
    confirm: float = 20.0,
    resolution: float = 0.05,
    say: Callable[[Trial, str], None] = lambda *_: None,
) -> Search:
    """Find the highest rate without loss.

    Parameters
    ----------
    run : callable
        Makes a trial at a rate (Gb/s of payload) for some seconds.
    start, most : float
        First and highest rate to try.
    seconds, confirm : float
        Length of a trial, and of the confirmation at the end.
    resolution : float
        Relative distance to the lowest rate with losses at which to stop.
    say : callable
        Is told each trial and what it means.
    """
    found = Search()

    def good(rate: float, length: float) -> Trial | None:
        """Give the fastest trial without loss; None if there is none."""
        best: Trial | None = None
        undisturbed = 0
        for _ in range(_TRIES):
            trial = run(rate, length)
            found.trials.append(trial)
            undisturbed += not trial.disturbed
            if trial.lossless and (best is None or trial.offered > best.offered):
                best = trial
            enough = (trial.lossless and (trial.kept_up or not trial.disturbed)) or undisturbed == 2
            say(trial, "lossless" if trial.lossless and enough else "losses" if enough else "again")
            if enough:
                break
        return best

    low, high, rate = 0.0, 0.0, start
    while not high:
        trial = good(rate, seconds)
        if trial is None:
            high = rate
        elif not trial.kept_up:
            low, found.limit = trial.offered, "sender"
            break
        elif rate >= most:
            low, found.limit = rate, "asked for"
            break
        else:
            low, rate = rate, min(most, rate * _FASTER)
    while high and not low and high > start / 64:
        if good(high / 2, seconds) is not None:
            low = high / 2
        else:
            high /= 2
    while low and high > low * (1 + resolution):
        rate = (low * high) ** 0.5
        if good(rate, seconds) is not None:
            low = rate
        else:
            high = rate
    for _ in range(_CONFIRMATIONS if low else 0):
        trial = good(low, confirm)
        if trial is not None:
            found.rate, found.confirmed = min(low, trial.offered), trial.seconds
            break
        low *= _LOWER
        found.limit = "receiver"
    return found


def taken_seconds() -> tuple[float, float]:
    """Processor time since boot that the host has taken away, and that other programs have used, s."""
    user, nice, system, *_, steal = (int(n) / 100 for n in Path("/proc/stat").read_text().split(None, 9)[1:9])
    own = os.times()
    return steal, user + nice + system - own.user - own.system


def used_seconds(pid: int) -> float:
    """Processor time that a process has used, s."""
    words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / 100
