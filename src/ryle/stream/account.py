"""What became of every packet at a hand-over.

Two equations hold (DESIGN: accounting)::

    datagrams = placed + late + duplicate + malformed + foreign
    expected  = placed + missing

What came and found no memory free (`ring_full`) stands beside them: all that came is ``datagrams + ring_full``.
A class that a source cannot see is None, unknown, never 0.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Self

_CLASSES = ("placed", "late", "duplicate", "malformed", "foreign")


@dataclass(frozen=True)
class Account:
    """Counts of one hand-over.

    Parameters
    ----------
    name : str
        The hand-over.
    unit : str
        What is counted: "packets" or "heaps".
    datagrams : int or None
        All that arrived and that there was memory for.
    placed : int or None
        Put where they belong.
    late : int or None
        Belonged to a time that had been passed on already.
    duplicate : int or None
        Had arrived already.
    malformed : int or None
        Could not be read, or had lengths, items or timestamps that cannot be.
    foreign : int or None
        Well-formed, but not for this receiver: other streams, descriptors, stream control.
    expected : int or None
        What should have arrived between the first and the last that did.
    missing : int or None
        Expected and never placed.
    kernel_drops : int or None
        Messages that the kernel dropped because a socket buffer was full; their packets are part of `missing`. A train
        of packets (UDP_GRO) is one message, so that there may be more packets.
    ring_full : int or None
        Arrived, and dropped because readers held all memory: they are too slow. Part of `missing`.
    """

    name: str
    unit: str = "packets"
    datagrams: int | None = 0
    placed: int | None = 0
    late: int | None = 0
    duplicate: int | None = 0
    malformed: int | None = 0
    foreign: int | None = 0
    expected: int | None = 0
    missing: int | None = 0
    kernel_drops: int | None = None
    ring_full: int | None = None

    def __add__(self, other: Account) -> Self:
        """Sum of two hand-overs of the same kind; unknown plus anything is unknown."""
        if self.unit != other.unit:
            raise ValueError(f"cannot add {self.unit} of {self.name} to {other.unit} of {other.name}")
        sums: dict[str, Any] = {}
        for key in (*_CLASSES, "datagrams", "expected", "missing", "kernel_drops", "ring_full"):
            a, b = getattr(self, key), getattr(other, key)
            sums[key] = None if a is None or b is None else a + b
        name = self.name if self.name == other.name else f"{self.name} + {other.name}"
        return type(self)(name=name, unit=self.unit, **sums)

    def balanced(self) -> bool:
        """Whether both equations hold; with unknown classes, whether what is known still fits."""
        return _fits(self.datagrams, [getattr(self, c) for c in _CLASSES]) and _fits(
            self.expected, [self.placed, self.missing]
        )

    def as_dict(self) -> dict[str, Any]:
        """All counts; unknown ones are None."""
        return asdict(self)

    def to_json(self) -> str:
        """All counts as JSON; unknown ones are null."""
        return json.dumps(self.as_dict())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        return cls(**json.loads(text))


def _fits(total: int | None, parts: list[int | None]) -> bool:
    known = [p for p in parts if p is not None]
    if any(p < 0 for p in known):
        return False
    if total is None:
        return True
    return sum(known) == total if len(known) == len(parts) else sum(known) <= total
