"""Blocks: what flows from step to step. A stretch of time of one stream, where it lies, and what of it is missing.

A block belongs to a ring and is on loan to whoever reads it: its memory is written again only when every reader has
released it and, if a reader's copy or kernel was still under way then, when the event that the reader gave has come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self

from numpy.typing import NDArray


class Event(Protocol):
    """A point in a device's stream of work."""

    @property
    def passed(self) -> bool:
        """Whether the device has come to it; does not wait."""

    def synchronize(self) -> None:
        """Wait until the device has come to it."""


@dataclass(frozen=True, slots=True)
class Together:
    """Several events as one, which has come when all have."""

    events: tuple[Event, ...]

    @property
    def passed(self) -> bool:
        """Whether devices have come to all; does not wait."""
        return all(event.passed for event in self.events)

    def synchronize(self) -> None:
        """Wait until they have."""
        for event in self.events:
            event.synchronize()


class Waits(Protocol):
    """A device's stream of work."""

    def wait(self, event: Any) -> None:
        """Let work that is enqueued from now on begin only when the event has come."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where memory lies.

    Parameters
    ----------
    kind : str
        "host", "locked" (page-locked host memory that GPUs read), "shared" (other processes map it) or "gpu".
    device : int
        Which GPU, of kind "gpu".
    """

    kind: Literal["host", "locked", "shared", "gpu"] = "host"
    device: int = 0

    def __str__(self) -> str:
        return f"gpu {self.device}" if self.kind == "gpu" else self.kind


HOST = Place()


@dataclass(slots=True)
class Block:
    """A stretch of time.

    Parameters
    ----------
    data : ndarray or device array
        The samples, spectra or sums; its meaning is its ring's `layout`. What lies where a plane says that it is
        missing has no meaning.
    planes : dict of str to ndarray
        What is there and what is good of it: ``present``, ``valid``; and notes that came with the packets.
    place : Place
        Where `data` lies.
    epoch : int
        Counts the times that the stream's clock was taken to have moved; starts compare within an epoch only.
    start, span : int
        First unit of time, and how many; the unit is the ring's (samples, spectra).
    ready : Event or None
        What a reader on a device has to wait for before it reads; None: it can be read at once.
    after : list of Event
        What a writer on a device has to wait for before it writes: readers' work that was under way at their release.
    """

    data: Any
    planes: dict[str, NDArray[Any]] = field(default_factory=dict)
    place: Place = HOST
    epoch: int = 0
    start: int = 0
    span: int = 0
    ready: Event | None = None
    after: list[Event] = field(default_factory=list)
    _release: Callable[[Block, Event | None], None] | None = None

    @property
    def end(self) -> int:
        """Unit of time just after the last."""
        return self.start + self.span

    def free_on(self, stream: Waits) -> None:
        """Let a stream of a device, which is to write to the block, wait until nobody reads it any more."""
        for event in self.after:
            stream.wait(event)
        self.after.clear()

    def release(self, after: Event | None = None) -> None:
        """Give the block back; this reader must not look at it any more.

        Parameters
        ----------
        after : Event, optional
            Work of this reader that still reads the block: nobody writes to it before that has ended.
        """
        if self._release is not None:
            self._release(self, after)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
