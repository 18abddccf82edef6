"""Processor time as the kernel counts it: what the host of a virtual machine took away, and who used the rest."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")  # a second, the unit of the counters of proc(5)


def stolen_seconds() -> float:
    """Processor time since boot that the host has taken away, of all processors, s; 0 where nobody counts it."""
    try:
        return int(_lines()[0].split()[8]) / _TICKS
    except (OSError, IndexError, ValueError):
        return 0.0


class TimeTaken:
    """Processor time that somebody took from a measurement since it began.

    Parameters
    ----------
    own : sequence of int
        Processes that take part in it, besides this one.
    """

    def __init__(self, own: Sequence[int] = ()) -> None:
        self._own = own
        self._stolen, self._others, self._away = stolen_seconds(), self._used_by_others(), away_seconds()

    @property
    def stolen(self) -> float:
        """What the host took away, of all processors, s."""
        return stolen_seconds() - self._stolen

    @property
    def others(self) -> float:
        """What programs used that take no part, s."""
        return self._used_by_others() - self._others

    @property
    def longest(self) -> float:
        """How long that processor was away that the host took away most, s."""
        return max((now - then for now, then in zip(away_seconds(), self._away, strict=False)), default=0.0)

    def _used_by_others(self) -> float:
        user, nice, system = (int(word) / _TICKS for word in _lines()[0].split()[1:4])
        own = os.times()
        return user + nice + system - own.user - own.system - sum(map(used_seconds, self._own))


def away_seconds() -> tuple[float, ...]:
    """Time since boot that the host has taken each processor away, s."""
    return tuple(int(line.split()[8]) / _TICKS for line in _lines() if line.startswith("cpu") and line[3].isdigit())


def used_seconds(pid: int) -> float:
    """Processor time that a process has used, s."""
    words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / _TICKS


def _lines() -> list[str]:
    return Path("/proc/stat").read_text().splitlines()
