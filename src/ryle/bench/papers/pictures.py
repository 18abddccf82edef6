"""One picture for each figure or table that has points: published and measured on the same axes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ryle.bench.papers.registry import At, Entry
from ryle.bench.papers.report import place, slug
from ryle.bench.papers.verdicts import Comparison, Sheet
from ryle.products.plots.style import COLOURS, figure, grid

PUBLISHED, MEASURED = COLOURS[1], COLOURS[0]  # vermilion and blue: apart with any colour vision, and by their marks

THERE, HERE = "published", "measured with Ryle"


def draw(sheets: Sequence[Sheet], folder: Path) -> list[Path]:
    """Draw every figure and table of which something was published or measured in more than words.

    Parameters
    ----------
    sheets : sequence of Sheet
        Papers compared.
    folder : Path
        Made if it is not there; files are ``paper-fig-5.png`` and the like, and replaced.

    Returns
    -------
    list of Path
        What was drawn.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for sheet in sheets:
        for label in sheet.paper.labels:
            panels = [entry for entry in sheet.paper.entry if entry.label == label and _worth(entry, sheet)]
            if not panels or not label.startswith(("Fig.", "Table", "Result")):
                continue
            path = folder / f"{slug(sheet.paper.key, label)}.png"
            heights = [_height(entry) for entry in panels]
            with figure(
                path,
                f"{sheet.paper.authors.split(',')[0]} {sheet.paper.year}, {label}",
                _cards(sheet.of(label)),
                (8.5, sum(heights) + 1.1),
            ) as page:
                axes = grid(page, len(panels), 1, height_ratios=heights)[:, 0]
                for one, entry in zip(axes, panels, strict=True):
                    _panel(one, entry, [found for found in sheet.of(label) if found.entry is entry])
                _legend(page, list(axes))
            drawn.append(path)
    return drawn


def _worth(entry: Entry, sheet: Sheet) -> bool:
    """Leave out what is only stated: settings and standards make no picture."""
    if not entry.drawn:
        return False
    measured = any(one.measured is not None for one in sheet.comparisons if one.entry is entry)
    return measured or (entry.better != "neither" and bool(entry.points))


def _height(entry: Entry) -> float:
    """Inches."""
    return 2.4 if _curve(entry) else 0.7 + 0.3 * max(1, len(entry.points))


def _curve(entry: Entry) -> bool:
    """Say whether points lie along numbers, and are enough for a line."""
    numeric = bool(entry.axis) and all(not isinstance(point.at, str) for point in entry.points)
    return numeric and (len(entry.points) > 2 or any(lookup.at for lookup in entry.measured))


def _cards(found: Sequence[Comparison]) -> str:
    cards = dict.fromkeys(one.stamp.card for one in found if one.stamp is not None)
    return f"measured on {', '.join(cards)}" if cards else "not measured here"


def _panel(axes: Any, entry: Entry, found: Sequence[Comparison]) -> None:
    axes.set_title(entry.name, loc="left")
    measured = [(one.at, one.measured) for one in found if one.measured is not None]
    published = [(point.at, point.value) for point in entry.points]
    if _curve(entry):
        _lines(axes, entry, published, measured)
    else:
        _bars(axes, entry, published, measured)


def _legend(page: Any, axes: Sequence[Any]) -> None:
    """Say once for all panels which mark is whose, where no mark lies."""
    marks: dict[str, Any] = {}
    for one in axes:
        for mark, label in zip(*one.get_legend_handles_labels(), strict=True):
            marks.setdefault(label, mark)
    shown = [label for label in (THERE, HERE) if label in marks]
    page.legend([marks[label] for label in shown], shown, loc="outside lower center", ncols=len(shown))


def _lines(axes: Any, entry: Entry, published: list[tuple[At, float]], measured: list[tuple[Any, float]]) -> None:
    """Draw along a numeric axis; a number without a place is a level."""
    if published:
        axes.plot(*zip(*published, strict=True), "s--", color=PUBLISHED, label=THERE)
    points = sorted((at, value) for at, value in measured if at is not None)
    if points:
        axes.plot(*zip(*points, strict=True), "o-", color=MEASURED, label=HERE)
    for at, value in measured:
        if at is None:
            axes.axhline(value, color=MEASURED, label=HERE)
    if "x" in entry.log:
        axes.set_xscale("log", base=2)
    if "y" in entry.log:
        axes.set_yscale("log")
    elif all(value >= 0 for _, value in [*published, *measured]):
        axes.set_ylim(0, 1.1 * max(value for _, value in [*published, *measured]))
    axes.set(xlabel=entry.axis, ylabel=entry.unit)


def _bars(axes: Any, entry: Entry, published: list[tuple[At, float]], measured: list[tuple[Any, float]]) -> None:
    """Draw one above the other, the first on top."""
    names = list(dict.fromkeys(place(at, entry.axis) for at, _ in [*published, *measured] if at is not None))
    names = names or [entry.name]
    rows = {name: row for row, name in enumerate(names)}
    for values, shift, colour, hatch, label in (
        (published, -0.2, PUBLISHED, "//", THERE),
        (measured, 0.2, MEASURED, "", HERE),
    ):
        if values:
            at = [rows.get(place(at, entry.axis), 0) + shift for at, _ in values]
            lengths = [value for _, value in values]
            bars = axes.barh(at, lengths, 0.38, color=colour, hatch=hatch, edgecolor="white", label=label)
            axes.bar_label(bars, [f"{length:.4g}" for length in lengths], padding=3, fontsize=8)
    axes.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.4, -0.6), xlabel=entry.unit)
    axes.margins(x=0.12)
