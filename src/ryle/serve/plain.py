"""Looks as JSON has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from ryle.watch.sight import Sight

_ARRAYS = ("glance", "histograms")
_DEEPEST = 16  # tables within tables that are told; figures of engines have two


def plain(sight: Sight) -> dict[str, Any]:
    """Give a look ready for JSON, without its arrays; what is unknown, or no finite number, is None."""
    found: dict[str, Any] = _plain({f.name: getattr(sight, f.name) for f in fields(sight) if f.name not in _ARRAYS}, 0)
    return found


def _plain(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        return None
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name), depth + 1) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(member, depth + 1) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member, depth + 1) for member in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None  # NaN is not
    return value if isinstance(value, str | int | None) else None
