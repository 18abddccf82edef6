"""What is lost at each hand-over, and on whose way: of one input or sender among many, or of all.

An engine's account is of all that comes to it: 1 % of one input of ten is a thousandth there. What each input's or
sender's own share is, engines say too (``input_placed``, ``sender_loss``); it is averaged over some seconds, in which
one packet is little.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Literal

from ryle.watch.finding import RUNNING, Finding, Thresholds, engine_name, is_number
from ryle.watch.sight import EngineSight, Sight

_Key = tuple[str, int, str]  # an engine's name and process, and what comes to it


class Losses:
    """Finds what is lost in the looks at one run, in their order.

    Parameters
    ----------
    thresholds : Thresholds
        From where on something is wrong.
    """

    def __init__(self, thresholds: Thresholds) -> None:
        self._t = thresholds
        self._lately: dict[_Key, deque[tuple[float, float]]] = {}  # times, and shares lost
        self._known: set[_Key] = set()  # those that were found in the last look

    def clear(self) -> None:
        """Forget what was seen: the clock was set."""
        self._lately.clear()

    def findings(self, sight: Sight) -> Iterator[Finding]:
        """Find what is lost in a look, newer than those before."""
        seen: set[_Key] = set()
        found: set[_Key] = set()
        for engine in sight.engines:
            if not engine.alive or engine.state not in RUNNING:
                continue
            shares, count = _shares(engine)
            mine = engine.name, engine.pid
            # Of those of whom nothing is said any more nothing is lost.
            keys = {key: 0.0 for key, some in self._lately.items() if key[:2] == mine and any(s for _, s in some)}
            keys |= {(*mine, name): share for name, share in shares.items()}
            seen |= keys.keys()
            bad = {key: lost for key, share in keys.items() if (lost := self._lost(key, share, sight.time))}
            found |= bad.keys()
            if bad and 2 * len(bad) <= count:
                for key, lost in bad.items():
                    if self._long(key):
                        yield self._of_one(engine, key[2], lost)
            elif all(map(self._long, bad)):  # if most lose, it is not their own
                yield from self._of_all(engine)
        self._lately = {key: some for key, some in self._lately.items() if key in seen}
        self._known = found

    def _lost(self, key: _Key, share: float, now: float) -> float:
        """Give what was lost of one over the last seconds; 0 if that is nothing to tell."""
        some = self._lately.setdefault(key, deque())
        some.append((now, share))
        while now - some[0][0] > self._t.loss_over:
            some.popleft()
        lost = sum(s for _, s in some) / len(some)
        # What is at the threshold is not to come and go.
        least = self._t.link_loss * (0.5 if key in self._known else 1.0)
        return lost if lost > least else 0.0

    def _long(self, key: _Key) -> bool:
        """Whether one has been seen for long enough."""
        some = self._lately[key]
        return some[-1][0] - some[0][0] >= 0.5 * self._t.loss_over

    def _of_one(self, engine: EngineSight, name: str, lost: float) -> Finding:
        """Say that one input, or one of those who send, loses."""
        into = engine_name(engine)
        if "input_placed" in engine.values:
            subject = name
            text = f"{lost:.2%} of the packets of {name} do not come to {into} in time"
            cure = "Look at its cable, its transceiver and its switch port (ethtool -S counts CRC errors)."
        else:
            subject, text = (
                f"{name} to {into}",
                f"{lost:.2%} of the packets that {name} should send to {into} do not come in time",
            )
            cure = (
                "Look at the link and switch between the two, and whether the first has cores enough not to be late; "
                "what has no valid sample behind it an F-engine does not send: is one of its inputs dead, or losing?"
            )
        return Finding("loss", subject, self._severity(lost, self._t.link_loss), text, cure)

    def _of_all(self, engine: EngineSight) -> Iterator[Finding]:
        """Tell what an engine misses, whoever sends it."""
        expected, missing = (engine.rates.get(f"account.{k}", 0.0) for k in ("expected", "missing"))
        if expected <= 0 or missing <= self._t.loss * expected:
            return
        name = engine_name(engine)
        text = f"{missing / expected:.2%} of the packets that {name} expects do not come ({missing:.3g} a second)"
        cure = (
            "Look at the link and its switch (ethtool -S), at the kernel's buffers (sysctl net.core.rmem_max), and "
            "whether the cores of this engine are its own."
        )
        if (full := engine.rates.get("ring_full", 0.0)) > 0:
            text += f"; {full:.3g} a second found its memory full"
            cure = "It is too slow for what comes: give it more cores or a GPU, or fewer antennas or channels."
        elif dropped := engine.rates.get("account.kernel_drops", 0.0):
            text += f"; the kernel dropped {dropped:.3g} a second of them because a socket's buffer was full"
            cure = "Raise net.core.rmem_max and network.buffer, or give its receiving threads cores of their own."
        yield Finding("loss", name, self._severity(missing / expected, self._t.loss), text, cure)

    @staticmethod
    def _severity(lost: float, least: float) -> Literal["warning", "error"]:
        return "error" if lost > 10 * least else "warning"


def _shares(engine: EngineSight) -> tuple[Mapping[str, float], int]:
    """Give what share of its packets each input, or each sender, lost lately, and how many of these there are."""
    values = engine.values
    labels, placed = values.get("inputs"), values.get("input_placed")
    if isinstance(labels, list) and isinstance(placed, list) and len(labels) == len(placed):
        return {str(n): 1.0 - s for n, s in zip(labels, placed, strict=True) if is_number(s)}, len(labels)
    lost, count = values.get("sender_loss"), values.get("senders")
    if isinstance(lost, dict) and is_number(count):
        return {str(name): s for name, s in lost.items() if is_number(s)}, int(count) if abs(count) < 1e9 else 0
    return {}, 0
