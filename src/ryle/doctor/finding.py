"""One thing that was looked at: found, wanted, why, what mends it, and what it was measured to cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

#: good: as it should be; note: a choice with a price, to know of; poor: costs speed, or packets now and then; bad:
#: loses packets or refuses to work; unknown: cannot be seen here.
State = Literal["good", "note", "poor", "bad", "unknown"]
WRONG: tuple[State, ...] = ("bad", "poor")

#: Where effects were measured: one F-engine of 6.26 Gsample/s and four of 2.08, 10 bit, 32768 channels, one change at
#: a time.
MERRY = "Merry 2023"


@dataclass(frozen=True)
class Sysctl:
    """A value of the kernel's: ``net.core.rmem_max``."""

    name: str
    value: str

    def __str__(self) -> str:
        return f'sysctl -w {self.name}="{self.value}"' if " " in self.value else f"sysctl -w {self.name}={self.value}"


@dataclass(frozen=True)
class Write:
    """A value that is written to files below ``/sys`` or ``/proc``; the path may be a pattern."""

    path: str
    value: str

    def __str__(self) -> str:
        if "*" in self.path:
            return f"for f in {self.path}; do echo {self.value} > $f; done"
        return f"echo {self.value} > {self.path}"


@dataclass(frozen=True)
class Command:
    """A command that holds until the next start of the machine."""

    line: str

    def __str__(self) -> str:
        return self.line


@dataclass(frozen=True)
class Boot:
    """Words of the kernel's command line, which hold from the next start on."""

    words: str

    def __str__(self) -> str:
        return f"boot with {self.words}"


@dataclass(frozen=True)
class Hand:
    """What only a person can do: a slot, a firmware's setting, a package, a line of the observation."""

    text: str

    def __str__(self) -> str:
        return self.text


Mend = Sysctl | Write | Command | Boot | Hand


@dataclass(frozen=True)
class Finding:
    """What was looked at.

    Attributes
    ----------
    key : str
        What it is called, for programs: ``governor``.
    where : str
        Which card, GPU or cores; empty if it is the machine.
    state : State
        How it is.
    found, wanted : str
        What is there, and what should be.
    why : str
        What follows from it.
    mends : tuple of Mend
        What to do, each by itself enough or in this order; none if nothing is wrong.
    effect : str
        What others measured, with the source.
    measured : str
        What was measured here.
    """

    key: str
    where: str
    state: State
    found: str
    wanted: str = ""
    why: str = ""
    mends: tuple[Mend, ...] = ()
    effect: str = ""
    measured: str = ""

    @property
    def wrong(self) -> bool:
        """Whether there is something to mend."""
        return self.state in WRONG

    def plain(self) -> dict[str, Any]:
        """Give it as JSON has it; what mends it as lines for a shell or a person."""
        return asdict(self) | {"mends": [{"kind": type(m).__name__.lower(), "text": str(m)} for m in self.mends]}


def judge(
    key: str,
    where: str,
    good: bool,
    otherwise: State,
    found: str,
    wanted: str,
    why: str,
    *mends: Mend,
    effect: str = "",
) -> Finding:
    """Make a finding: good, without what would mend it, or in another state."""
    if good:
        return Finding(key, where, "good", found, wanted, why, (), effect)
    return Finding(key, where, otherwise, found, wanted, why, mends, effect)
