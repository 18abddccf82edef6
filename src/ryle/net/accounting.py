"""What became of every packet at a hand-over.

Two equations hold (DESIGN: accounting)::

    datagrams = placed + late + duplicate + malformed + foreign
    expected  = placed + missing

A class that a source cannot see is None, unknown, never 0.
"""

from __future__ import annotations

import json
import logging
import random
import struct
import threading
from dataclasses import asdict, dataclass
from typing import Any, Self

import spead2
import spead2.recv

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
        All that arrived.
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
        Dropped by the kernel because a socket buffer was full; part of `missing`.
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

    def __add__(self, other: Account) -> Self:
        """Sum of two hand-overs of the same kind; unknown plus anything is unknown."""
        if self.unit != other.unit:
            raise ValueError(f"cannot add {self.unit} of {self.name} to {other.unit} of {other.name}")
        sums: dict[str, Any] = {}
        for key in (*_CLASSES, "datagrams", "expected", "missing", "kernel_drops"):
            a, b = getattr(self, key), getattr(other, key)
            sums[key] = None if a is None or b is None else a + b
        name = self.name if self.name == other.name else f"{self.name} + {other.name}"
        return type(self)(name=name, unit=self.unit, **sums)

    @property
    def unplaced(self) -> int | None:
        """What arrived and was not placed, known even where its classes are not."""
        return None if self.datagrams is None or self.placed is None else self.datagrams - self.placed

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


#: How spead2 begins its report of a datagram that it could not decode; others had been counted as packets already.
_UNDECODED = (
    "packet rejected because too small",
    "packet rejected because magic or version",
    "packet rejected because flavour is invalid",
    "packet rejected because flavour is not",
    "packet rejected because the items overflow",
    "packet rejected because it does not have required items",
    "packet rejected because payload length overflows",
    "packet rejected because payload would overflow",
    "discarding packet due to size mismatch",
    "dropped packet due to truncation",
)


class UndecodedPackets(logging.Filter):
    """Counts datagrams that spead2 rejects before it counts them, from its log, and keeps those lines out of the log.

    spead2 has no other sign of them. Its log does not name the stream, so the count belongs to a receiver only while
    it is the only one of the process; lines can be dropped in a flood, or logging be turned off: then the number is
    unknown.
    """

    def __init__(self, logger: str = "spead2") -> None:
        super().__init__()
        self._logger = logging.getLogger(logger)
        self._lock = threading.Lock()
        self._count = 0
        self._lossy = 0
        self._watchers: set[int] = set()
        self._crowded: set[int] = set()
        self._starts: dict[int, tuple[int, int]] = {}
        self._level = logging.WARNING
        self._installed = False
        self._mark: str | None = None
        self._marked = threading.Event()
        self._settling = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Count a record of spead2's logger; True if it should be seen."""
        text = record.getMessage()
        if text.startswith(_UNDECODED):
            with self._lock:
                if self._mark is not None and self._mark in text:
                    self._marked.set()
                    return False
                self._count += 1
            return False
        if "messages were dropped" in text or "ringbuffer was full" in text:
            with self._lock:
                self._lossy += 1
            return False
        return record.levelno >= self._level

    def watch(self, receiver: object) -> None:
        """Begin to count for `receiver`."""
        with self._lock:
            if not self._installed:
                self._level = self._logger.getEffectiveLevel()
                self._logger.setLevel(min(logging.INFO, self._level))
                self._logger.addFilter(self)
                self._installed = True
            self._watchers.add(id(receiver))
            self._starts[id(receiver)] = (self._count, self._lossy)
            if len(self._watchers) > 1:
                self._crowded |= self._watchers

    def count(self, receiver: object) -> int | None:
        """Undecoded datagrams of `receiver` since `watch`; None if they cannot be told."""
        with self._lock:
            if not self._logger.isEnabledFor(logging.INFO):
                return None
            start, lossy = self._starts[id(receiver)]
            if id(receiver) in self._crowded or self._lossy > lossy:
                return None if self._count > start or self._lossy > lossy else 0
            return self._count - start

    def settle(self, patience: float = 5.0) -> None:
        """Wait until every line that spead2 has written so far was counted: it hands them over in a thread of its own.

        Lines keep their order, so a packet that claims an impossible length, put through spead2 here, marks the end.
        """
        with self._settling:
            length = 1000 * random.randrange(1 << 35, 1 << 36)
            with self._lock:
                self._mark = str(length)[:-3]  # spead2 adds the header's length
                self._marked.clear()
            pointers = [1 << 63 | item << 48 | value for item, value in ((1, 1), (2, length), (3, 0), (4, length))]
            stream = spead2.recv.Stream(spead2.ThreadPool())
            stream.add_buffer_reader(struct.pack(">BBBBHH4Q", 0x53, 4, 2, 6, 0, 4, *pointers))
            arrived = self._marked.wait(patience)
            stream.stop()
            with self._lock:
                self._mark = None
                if not arrived:
                    self._lossy += 1

    def unwatch(self, receiver: object) -> int | None:
        """End counting for `receiver` and return the count."""
        final = self.count(receiver)
        with self._lock:
            self._watchers.discard(id(receiver))
            self._crowded.discard(id(receiver))
            self._starts.pop(id(receiver))
        return final


undecoded = UndecodedPackets()
