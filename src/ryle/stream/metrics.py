"""What is counted and measured in an engine: typed, in one registry that every view reads.

The status line, the status page, the table of a run and other processes' views all show `Registry.values`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal


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
    """All metrics of one engine, by name."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}

    def counter(self, name: str, unit: str, means: str, read: Callable[[], Any]) -> None:
        """Add a number that only grows; see `Metric`.

        Raises
        ------
        ValueError
            If there is a metric of that name.
        """
        self._add(Metric("counter", name, unit, means, read))

    def gauge(self, name: str, unit: str, means: str, read: Callable[[], Any]) -> None:
        """Add a figure that may go up and down; see `Metric`.

        Raises
        ------
        ValueError
            If there is a metric of that name.
        """
        self._add(Metric("gauge", name, unit, means, read))

    def _add(self, metric: Metric) -> None:
        if metric.name in self._metrics:
            raise ValueError(f"there is a metric {metric.name!r} already; give this one another name")
        self._metrics[metric.name] = metric

    def __iter__(self) -> Iterator[Metric]:
        return iter(self._metrics.values())

    def values(self) -> dict[str, Any]:
        """All figures as they are now, ready for JSON."""
        return {name: metric.read() for name, metric in self._metrics.items()}
