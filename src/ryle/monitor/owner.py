"""Which process it is, and whether it still runs: its number alone does not say, for numbers live again."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Owner:
    """A process, told apart from others that had its number before or have it in another container.

    Parameters
    ----------
    pid : int
        Its number.
    started : int
        When it started, in clock ticks since boot.
    namespace : str
        The process-number space that `pid` belongs to.
    """

    pid: int
    started: int
    namespace: str

    @classmethod
    def this(cls) -> Owner:
        """Give this process."""
        return cls(os.getpid(), _started(os.getpid()) or 0, _namespace())

    @property
    def alive(self) -> bool:
        """Whether it still runs; one of another container is taken to, as that cannot be seen from here."""
        return self.namespace != _namespace() or _started(self.pid) == self.started


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _started(pid: int) -> int | None:
    """Clock ticks since boot at which a process started; None if there is none, or nothing but its exit status."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
