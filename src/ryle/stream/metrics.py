"""What is counted and measured in an engine, and what others may set: typed, in one registry that every view reads.

The status line, the status page, the table of a run and other processes' views all show `Registry.values`, and set
`Registry.controls`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ryle.stream.audience import Audience
from ryle.stream.controls import Control


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure that is read when somebody looks.

    Parameters
    ----------
    kind : "counter" or "gauge"
        Whether it only grows.
    name, unit, means : str
        As it is called, its unit ("" of a table), and what it means, for people.
    read : callable
        Gives it, of any JSON type; from the status thread, so it must only read.
    """

    kind: Literal["counter", "gauge"]
    name: str
    unit: str
    means: str
    read: Callable[[], Any]


class Registry:
    """All metrics and controls of one engine, by name.

    Parameters
    ----------
    look : callable, optional
        Called before the metrics are read together, where they are figures of one moment.

    Attributes
    ----------
    controls : dict of str to Control
        What others may set.
    beside : dict of str to callable
        What else is left for who watches, by name: gives its newest version, in bytes, or None if there is no newer.
        Called by the status thread, several times a second.
    """

    def __init__(self, look: Callable[[], None] = lambda: None) -> None:
        self._look = look
        self._looking = threading.Lock()
        self._metrics: dict[str, Metric] = {}
        self.controls: dict[str, Control] = {}
        self.beside: dict[str, Callable[[], bytes | None]] = {}
        self._audience: Audience | None = None

    def counter(self, name: str, unit: str, means: str, read: Callable[[], Any]) -> None:
        """Add a number that only grows; see `Metric`.

        Raises
        ------
        ValueError
            If there is a metric or a control of that name.
        """
        self._metrics[self._new(name)] = Metric("counter", name, unit, means, read)

    def gauge(self, name: str, unit: str, means: str, read: Callable[[], Any]) -> None:
        """Add a figure that may go up and down; see `Metric`.

        Raises
        ------
        ValueError
            If there is a metric or a control of that name.
        """
        self._metrics[self._new(name)] = Metric("gauge", name, unit, means, read)

    def control(self, name: str, control: Control) -> None:
        """Add what others may set.

        Raises
        ------
        ValueError
            If there is a metric or a control of that name.
        """
        self.controls[self._new(name)] = control

    def audience(self, products: int) -> Audience:
        """Give those who watch, the same for all who ask; they say so by the control ``watch``.

        Parameters
        ----------
        products : int
            Of the array, as of `Audience`.
        """
        if self._audience is None:
            self._audience = Audience(products)
            self.control("watch", self._audience.control)
        return self._audience

    def _new(self, name: str) -> str:
        if name in self._metrics or name in self.controls:
            raise ValueError(f"there is a metric or control {name!r} already; give this one another name")
        return name

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._metrics.values())

    def values(self) -> dict[str, Any]:
        """All figures as they are now, ready for JSON."""
        with self._looking:
            self._look()
            return {name: metric.read() for name, metric in self._metrics.items()}
