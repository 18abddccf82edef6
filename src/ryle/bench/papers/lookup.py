"""Find measured values in files of results, with the card, the date and the commit of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import ryle
from ryle.bench.papers.registry import At, Entry, Lookup


@dataclass(frozen=True)
class Stamp:
    """Where a measured value comes from.

    Parameters
    ----------
    card : str
        GPU, or processor if none took part.
    date, commit : str
        When, and by which Ryle.
    file : str
        Which file of results.
    """

    card: str
    date: str
    commit: str
    file: str

    def __str__(self) -> str:
        return ", ".join(part for part in (self.card, self.date, self.commit and f"commit {self.commit}") if part)


@dataclass(frozen=True)
class Measured:
    """What was measured of an entry.

    Parameters
    ----------
    values : dict of float
        Place on the entry's axis to value in the entry's unit; the place is None where there is but one.
    spreads : dict of tuple
        The least and the most of those whose file has a spread.
    stamp : Stamp
        Where it comes from.
    lookup : Lookup
        How it was found.
    """

    values: dict[At | None, float]
    stamp: Stamp
    lookup: Lookup
    spreads: dict[At | None, tuple[float, float]] = field(default_factory=dict)


def committed(package: Path = Path(ryle.__file__).parent) -> Path:
    """Folder of the results that Ryle comes with: the repository's, or what was installed with the package."""
    repository = package.parents[1] / "bench" / "results"
    return repository if repository.is_dir() else package / "bench" / "papers" / "results"


def find(entry: Entry, results: Path, measurements: Path | None = None) -> list[Measured]:
    """Find what was measured of an entry.

    Parameters
    ----------
    entry : Entry
        Of a paper.
    results : Path
        Folder of committed files of results.
    measurements : Path, optional
        Folder that ``--measure`` filled; looked into first.

    Returns
    -------
    list of Measured
        One for each published point that a lookup names, or one for the whole entry; the first lookup that finds
        anything. Empty if nothing was measured.

    Raises
    ------
    ValueError
        If a file of results is not JSON.
    """
    found: dict[At | None, Measured] = {}
    for lookup in entry.measured:
        if lookup.point in found:
            continue
        command = lookup.command or entry.command
        paths = [measurements / f"{command}.json"] if measurements is not None and command else []
        paths += [results / lookup.file] if lookup.file else []
        measured = next((one for path in paths if (one := _look(lookup, path, entry.better == "less"))), None)
        if measured is not None:
            found[lookup.point] = measured
    return list(found.values())


def _look(lookup: Lookup, path: Path, less: bool) -> Measured | None:
    """Look into one file; None if it is not there or no row fits."""
    if not path.is_file():
        return None
    saved = _load(path, path.stat().st_mtime_ns)
    rows = [row for row in _rows(saved, lookup.rows) if _fits(row, lookup.where)]
    needed = [lookup.key, *([lookup.times] if lookup.times else [])]
    rows = [row for row in rows if all(isinstance(field_of(row, key), int | float) for key in needed)]
    if lookup.best:
        rows.sort(key=lambda row: float(field_of(row, lookup.key)), reverse=not less)
    if not rows:
        return None
    factor = lookup.scale
    if lookup.over:
        others = [row for row in _rows(saved, lookup.rows) if _fits(row, lookup.over)]
        if not others:
            return None
        factor /= float(field_of(others[0], lookup.key))
    values: dict[At | None, float] = {}
    spreads: dict[At | None, tuple[float, float]] = {}
    for row in rows if lookup.at else rows[:1]:
        at = field_of(row, lookup.at) if lookup.at else lookup.point
        if at in values or (lookup.at and at is None):
            continue
        by = factor * (float(field_of(row, lookup.times)) if lookup.times else 1.0)
        values[at] = float(field_of(row, lookup.key)) * by + lookup.offset
        spread = _spread(row, lookup.key)
        if spread is not None:
            low, high = sorted(value * by + lookup.offset for value in spread)
            spreads[at] = (low, high)
    return Measured(values, stamp(saved, row_of=rows[0], lookup=lookup, file=path.name), lookup, spreads)


def _spread(row: dict[str, Any], key: str) -> Sequence[float] | None:
    """Spread of a field, as `ryle.bench.results.Row` and the programs for DPDK write it."""
    if key.endswith(".median"):
        about = field_of(row, key.removesuffix(".median"))
        return [about["low"], about["high"]] if "low" in about and "high" in about else None
    spread: Sequence[float] | None = row.get({"value": "spread", "ratio": "ratio_spread"}.get(key, ""))
    return spread


def stamp(saved: dict[str, Any], row_of: dict[str, Any], lookup: Lookup, file: str) -> Stamp:
    """Say where a value comes from, by whichever of its habits the file has."""
    places: list[dict[str, Any]] = [
        place for name in ("measured", "machine", "about") if isinstance(place := saved.get(name), dict)
    ]

    def first(*names: str, rows_too: bool = False) -> str:
        said: Iterable[dict[str, Any]] = [*([row_of] if rows_too else []), *places, saved]
        return next((str(place[name]) for place in said for name in names if place.get(name)), "")

    card = first("card") or lookup.card or first("gpu", "where", "cpu")
    date = lookup.date or first("date", "began", rows_too=True)
    return Stamp(card, date[:10], first("commit", rows_too=True), file)


def field_of(row: Any, path: str) -> Any:
    """Give a field by its path; a key that has dots in it is found too. None if it is not there."""
    if not path or not isinstance(row, dict):
        return row if not path else None
    if path in row:
        return row[path]
    head, _, rest = path.partition(".")
    return field_of(row.get(head), rest) if rest else None


def _rows(saved: dict[str, Any], path: str) -> list[dict[str, Any]]:
    rows = saved if path == "." else field_of(saved, path)
    rows = [rows] if isinstance(rows, dict) else rows
    return [row for row in rows or [] if isinstance(row, dict)]


def _fits(row: dict[str, Any], where: dict[str, Any]) -> bool:
    return all(field_of(row, path) == value for path, value in where.items())


@cache
def _load(path: Path, _changed: int) -> dict[str, Any]:
    try:
        saved = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    return saved if isinstance(saved, dict) else {"results": saved}
