"""The highest rate at which nothing is lost, found in spite of losses by chance.

Packets are lost at any rate, and senders fall behind, while the host takes processor time away (the steal counter of
``/proc/stat``) or other programs use it. Each trial is made where the capacity is as likely above as below, given all
trials so far (`ryle.bench.belief`, the model); the rate that comes out has been confirmed by a longer trial, and an
interval says where the capacity is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ryle.bench.belief import BRIEF, DISTURBED, HIDDEN, UNDISTURBED, Belief

_STOLEN = 0.02  # seconds of processor time that a trial may lose and still be called undisturbed
_OTHERS = 0.1  # share of a core that other programs may use
_EXCUSED = 2.0  # times the packets sent while processors were taken away, that this may have lost
_IN_TURN = 4.0  # the same for the processor that was away longest: sender, receiver, arithmetic and step pass them on
_KEPT_UP = 0.97  # share of the rate asked for that a sender must reach
_BEHIND = 0.1  # seconds that the last packets may need
_KEPT_BACK = 0.02  # share of a trial's packets that may wait in buffers at its end
_HOPELESS = 0.05  # share of the packets so far: when more are missing, a trial need not go on
_TRIALS = 40
_SHORT, _LEAST = 0.125, 2.0  # part of a usual trial, and s, that the first ones take
_FASTER = 2.0  # than the fastest without loss
_LOWER = 0.98  # after a confirmation that failed undisturbed, at most; the square of that after another, and so on
_CONFIRMATIONS = 8
_SLOWEST = 64  # of the first rate, the part below which nobody looks


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
    longest : float
        Seconds for which the host took away the processor that it took away most.
    """

    asked: float
    offered: float
    seconds: float
    sent: int
    lost: int
    stolen: float
    others: float = 0.0
    behind: float = 0.0
    longest: float = math.inf

    @property
    def lossless(self) -> bool:
        """Whether nothing was lost, nor hidden by buffers that a longer trial would have filled."""
        return self.sent > 0 and self.lost == 0 and self.behind <= _BEHIND + _KEPT_BACK * self.seconds

    @property
    def taken(self) -> float:
        """Processor time that it did not have for itself, s; 0 if too little to matter."""
        return self._others + (self.stolen if self.stolen > _STOLEN else 0.0)

    @property
    def disturbed(self) -> bool:
        """Whether it did not have the machine for itself, and that can be why it lost what it lost.

        A host that takes a processor away for 0.06 s of 20 s makes a thread miss 0.3 % of the packets. A trial that
        lost a tenth lost them because the rate was too high. Of many processors that were away at the same time, few
        had packets to pass on: the one that was away longest says how much may be lost.
        """
        away = min(_EXCUSED * self.taken, _IN_TURN * self.longest + _EXCUSED * self._others)
        return self.taken > 0 and self.lost * self.seconds <= away * self.sent

    @property
    def _others(self) -> float:
        return self.others if self.others > _OTHERS * self.seconds else 0.0

    def hopeless(self, length: float) -> bool:
        """Whether so much is missing, at a moment of a trial of a length (s), that the rest of it cannot matter.

        More than twice what may wait in buffers at its end: receivers that work in turns catch up with the rest.
        """
        waiting = (_BEHIND + _KEPT_BACK * length) * self.sent / max(self.seconds, 1e-9)
        return self.lost > max(2 * waiting, _HOPELESS * self.sent) and not self.disturbed

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
    interval : tuple of (float, float)
        In which the capacity is with a probability of 95 %; its upper end means nothing if the receiver was not the
        limit.
    trials : list of Trial
        All that was tried.
    in_time : bool
        Whether it was as sure as was asked for before its time was over.
    """

    rate: float = 0.0
    confirmed: float = 0.0
    limit: str = "receiver"
    interval: tuple[float, float] = (0.0, 0.0)
    trials: list[Trial] = field(default_factory=list)
    in_time: bool = True


def highest_lossless(
    run: Callable[[float, float], Trial],
    start: float,
    most: float = 1000.0,
    *,
    seconds: float = 2.0,
    confirm: float = 20.0,
    resolution: float = 0.05,
    within: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
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
        Relative width of the interval at which to stop.
    within : float
        Seconds that it may take: no trial is begun that could pass it, so that a machine that is disturbed all the
        time ends with a wide interval. A rate that could not be confirmed is that of the best trial without loss.
    clock : callable
        Gives the time, s.
    say : callable
        Is told each trial and what it means.
    """
    found, least = Search(), start / _SLOWEST
    began, over = clock(), 0.0  # and what a trial takes longer than its length
    belief = Belief(least, _FASTER * most)

    def attempt(rate: float, length: float) -> Trial:
        nonlocal over
        started = clock()
        trial = run(rate, length)
        over = max(over, clock() - started - trial.seconds)
        found.trials.append(trial)
        chance = 1 - (1 - (DISTURBED if trial.disturbed else UNDISTURBED)) ** max(1.0, length / seconds)
        belief.learn(max(least, trial.offered), trial.lossless, chance, HIDDEN if length >= seconds else BRIEF)
        return trial

    def time_for(*lengths: float) -> bool:
        found.in_time = clock() - began + sum(length + over for length in lengths) <= within
        return found.in_time

    fastest = slow = 0.0
    while len(found.trials) < _TRIALS:
        low, middle, high = (belief.quantile(share) for share in (0.025, 0.5, 0.975))
        if high < least * (1 + resolution) or (fastest and high < low * (1 + resolution)):
            break
        # Short until anything is lost: rates double each time, far from where the edge is.
        length = seconds if any(not t.lossless for t in found.trials) else max(_SHORT * seconds, min(seconds, _LEAST))
        if not time_for(length, confirm):
            break
        trial = attempt(min(middle, _FASTER * fastest if fastest else start, most), length)
        say(trial, "lossless" if trial.lossless else "disturbed" if trial.disturbed else "losses")
        if trial.lossless:
            fastest = max(fastest, trial.offered)
            slow += not trial.kept_up
            if not trial.kept_up and (slow > 1 or not trial.disturbed):
                found.limit = "sender"
                break
            if trial.kept_up and trial.asked >= most:
                found.limit = "asked for"
                break
    rate = belief.quantile(0.05) if found.limit == "receiver" else min(most, fastest)
    sure, lower = found.in_time, _LOWER
    for _ in range(_CONFIRMATIONS if fastest else 0):
        if not time_for(confirm):
            break
        trial = attempt(rate, confirm)
        sent = trial.kept_up or found.limit == "sender"
        say(trial, "confirmed" if trial.lossless and sent else "not confirmed")
        if trial.lossless and sent:
            found.rate, found.confirmed = min(rate, trial.offered), trial.seconds
            break
        if not trial.lossless:
            found.limit = "receiver"
            if not trial.disturbed:
                rate, lower = lower * rate, lower**2
            rate = min(rate, belief.quantile(0.05))
    found.in_time &= sure
    if not found.confirmed and not found.in_time:
        held = [t for t in found.trials if t.lossless and t.offered <= belief.quantile(0.5)]
        best = max(held, key=lambda t: t.offered, default=None)
        found.rate, found.confirmed = (best.offered, best.seconds) if best else (0.0, 0.0)
    found.interval = belief.quantile(0.025), belief.quantile(0.975)
    return found
