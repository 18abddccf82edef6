"""What is counted and measured in an engine: typed, in one registry that every view reads.

The status line, the status page, the table of a run and other processes' views all show `Registry.values`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(slots=True)
class Counter:
    """A number that only grows.

    Parameters
    ----------
    name, unit, means : str
        As it is called, what is counted, and what that means, for people.
    """

    name: str
    unit: str
    means: str
    value: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, n: int = 1) -> None:
        """Count; from any thread."""
        with self._lock:
            self.value += n


@dataclass(frozen=True, slots=True)
class Gauge:
    """A figure that is read when somebody looks.

    Parameters
    ----------
    name, unit, means : str
        As it is called, its unit ("" of a table), and what it means, for people.
    read : callable
        Gives it, of any JSON type; from the status thread, so it must only read.
    kind : "counter" or "gauge"
        Whether it only grows.
    """

    name: str
    unit: str
    means: str
    read: Callable[[], Any]
    kind: Literal["counter", "gauge"] = "gauge"

    @property
    def value(self) -> Any:
        """As it is now."""
        return self.read()


class Registry:
    """All metrics of one engine, by name."""

    def __init__(self) -> None:
        self._metrics: dict[str, Counter | Gauge] = {}

    def counter(self, name: str, unit: str, means: str) -> Counter:
        """Add a counter.

        Raises
        ------
        ValueError
            If there is a metric of that name.
        """
        counter = Counter(name, unit, means)
        self._add(counter)
        return counter

    def gauge(
        self, name: str, unit: str, means: str, read: Callable[[], Any], kind: Literal["counter", "gauge"] = "gauge"
    ) -> Gauge:
        """Add a gauge.

        Raises
        ------
        ValueError
            If there is a metric of that name.
        """
        gauge = Gauge(name, unit, means, read, kind)
        self._add(gauge)
        return gauge

    def _add(self, metric: Counter | Gauge) -> None:
        if metric.name in self._metrics:
            raise ValueError(f"there is a metric {metric.name!r} already; give this one another name")
        self._metrics[metric.name] = metric

    def __iter__(self) -> Iterator[Counter | Gauge]:
        return iter(self._metrics.values())

    def values(self) -> dict[str, Any]:
        """All figures as they are now, ready for JSON."""
        return {name: metric.value for name, metric in self._metrics.items()}
