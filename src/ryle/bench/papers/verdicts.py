"""Published and measured side by side: by how much it is better, and how often, paper by paper."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ryle.bench.papers.lookup import Measured, Stamp, find
from ryle.bench.papers.registry import At, Entry, Paper

#: How far from 1 a ratio may be that counts as equal, where the file has no spread.
MARGIN = 0.01


class Verdict(StrEnum):
    """How a published number and a measured one compare."""

    BETTER = "better"
    EQUAL = "equal"
    WORSE = "worse"
    OPEN = "not measured yet"
    LACKING = "not measurable here"
    STATED = "stated"


@dataclass(frozen=True)
class Comparison:
    """One published number, or one measured of which none was published.

    Parameters
    ----------
    entry : Entry
        What it is a number of.
    at : str, float or None
        Where on the entry's axis.
    published, measured : float or None
        In the entry's unit.
    ratio : float or None
        How many times better the measured one is; for dB, of power.
    verdict : Verdict or None
        None where nothing was published.
    stamp : Stamp or None
        Where the measured one comes from.
    differs : str
        How it was measured otherwise.
    """

    entry: Entry
    at: At | None
    published: float | None
    measured: float | None
    ratio: float | None
    verdict: Verdict | None
    stamp: Stamp | None
    differs: str = ""


def ratio(published: float, measured: float, better: str, unit: str = "") -> float | None:
    """Give how many times better the measured value is: above 1 is better, whichever way that is.

    Decibels become a ratio of power. None if there is no ratio: a value is not above 0, or neither way is better.
    """
    if better == "neither":
        return None
    if unit == "dB":
        published, measured = 10 ** (published / 10), 10 ** (measured / 10)
    if published <= 0 or measured <= 0:
        return None
    return measured / published if better == "more" else published / measured


def compare(entry: Entry, results: Path, measurements: Path | None = None) -> list[Comparison]:
    """Compare all of an entry.

    Parameters
    ----------
    entry : Entry
        Of a paper.
    results, measurements : Path
        As `ryle.bench.papers.lookup.find` takes them.

    Returns
    -------
    list of Comparison
        One for each published number (readings: one for all of them), then those that were measured alone.
    """
    found = find(entry, results, measurements)
    published: list[tuple[At | None, float]] = [(point.at, point.value) for point in entry.points]
    if entry.readings:
        published = [(None, statistics.median(value for _, value in published))]
    done: list[Comparison] = []
    used: set[tuple[int, At | None]] = set()
    for at, value in published:
        one, place = _at(found, at, alone=len(published) == 1)
        if one is None:
            verdict = _without(entry, at)
            done.append(Comparison(entry, at, value, None, None, verdict, None))
            continue
        used.add((id(one), place))
        measured, spread = one.values[place], one.spreads.get(place)
        times = ratio(value, measured, entry.better, entry.unit)
        verdict = _verdict(entry, value, times, spread)
        done.append(Comparison(entry, at, value, measured, times, verdict, one.stamp, one.lookup.differs))
    for one in found:
        for place, measured in one.values.items():
            if (id(one), place) not in used:
                done.append(Comparison(entry, place, None, measured, None, None, one.stamp, one.lookup.differs))
    return done


def _at(found: Sequence[Measured], at: At | None, alone: bool) -> tuple[Measured | None, At | None]:
    """Find what was measured at a place; what has no place is the only number's."""
    for one in found:
        if at is not None and at in one.values:
            return one, at
        if alone and not one.lookup.at and one.lookup.point is None:
            return one, None
    return None, None


def _without(entry: Entry, at: At | None) -> Verdict:
    """Say of a number that was not measured whether it could be."""
    if entry.better == "neither":
        return Verdict.STATED
    awaited = any(lookup.point is None or lookup.point == at for lookup in entry.measured)
    return Verdict.OPEN if awaited else Verdict.LACKING


def _verdict(entry: Entry, published: float, times: float | None, spread: tuple[float, float] | None) -> Verdict:
    if times is None:
        return Verdict.STATED
    within = spread is not None and spread[0] <= published <= spread[1]
    if within or abs(times - 1) <= MARGIN:
        return Verdict.EQUAL
    return Verdict.BETTER if times > 1 else Verdict.WORSE


@dataclass(frozen=True)
class Sheet:
    """One paper compared.

    Parameters
    ----------
    paper : Paper
        Which.
    comparisons : tuple of Comparison
        In the order of its entries.
    """

    paper: Paper
    comparisons: tuple[Comparison, ...]

    def count(self) -> Counter[Verdict]:
        """Count which verdict published numbers have."""
        return Counter(one.verdict for one in self.comparisons if one.verdict is not None)

    def lacking(self) -> Counter[str]:
        """Count what is lacking here, and to how many numbers."""
        return Counter(one.entry.needs for one in self.comparisons if one.verdict is Verdict.LACKING)

    def of(self, label: str) -> list[Comparison]:
        """Comparisons of one table or figure."""
        return [one for one in self.comparisons if one.entry.label == label]


def sheets(papers: Sequence[Paper], results: Path, measurements: Path | None = None) -> list[Sheet]:
    """Compare all entries of all papers.

    Parameters
    ----------
    papers : sequence of Paper
        As `ryle.bench.papers.registry.load_papers` reads them.
    results, measurements : Path
        As `ryle.bench.papers.lookup.find` takes them.
    """
    return [
        Sheet(paper, tuple(one for entry in paper.entry for one in compare(entry, results, measurements)))
        for paper in papers
    ]
