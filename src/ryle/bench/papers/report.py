"""The comparison as tables in a terminal, as a page of Markdown and as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from ryle.bench.papers.lookup import Stamp
from ryle.bench.papers.registry import At, Command
from ryle.bench.papers.verdicts import MARGIN, Comparison, Sheet, Verdict
from ryle.bench.results import program

COLOURS = {Verdict.BETTER: "green", Verdict.EQUAL: "cyan", Verdict.WORSE: "red"}
#: How the page begins.
INTRODUCTION = f"""\
# Four papers' numbers, beside Ryle's

<!-- Written by `ryle bench papers --markdown`: change the registry in src/ryle/bench/papers, not this page. -->

`ryle bench papers` sets every table and figure of four papers beside what Ryle measures the same way. With `--measure
FOLDER` it first runs the commands that a machine can run, and goes on where it stopped when it is called again; the
report then shows what they found before what is in `bench/results`.

A ratio says how many times better Ryle's value is: above 1 is better, whether more or less is; of decibels, in power.
*Equal* is within the spread of the measurement, or {MARGIN:.0%} where it has none. Hardware differs, and often the way
too: the notes below each table say how. A ratio between different cards is no ratio between programs, and rates of
copies, of memory and of cuFFT are the machine's and the library's: they say how the machines compare.
A star says that more than the hardware differs, most often that no network card took part: such a *better* shows what
Ryle's part of the work can do, not that the published system is beaten.
*Stated* are settings, standards and properties that nobody races; no other column counts them. Readings that a figure
lists of one quantity count as one number, their median.
"""
_HEADINGS = ("", "", "published", "measured", "ratio", "verdict", "measured on")


def number(value: float | None) -> str:
    """Write a value so that nothing published is rounded away."""
    return "" if value is None else f"{value:.10g}" if abs(value) >= 1 else f"{value:.4g}"


def rounded(value: float | None) -> str:
    """Write what was measured, to four places."""
    return "" if value is None else f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def times(ratio: float | None) -> str:
    """Write a ratio, or its power of ten where it is large."""
    return "" if ratio is None else f"{ratio:.1e}" if ratio >= 1e4 or ratio < 1e-3 else f"{ratio:.3g}"


def place(at: At | None, axis: str) -> str:
    """Write where on an axis something lies."""
    return "" if at is None else at if isinstance(at, str) else f"{axis} {at:g}".strip()


def summary(sheets: Sequence[Sheet]) -> list[dict[str, Any]]:
    """Count, for each paper, how its numbers compare, and what is lacking for those that do not.

    Returns
    -------
    list of dict
        ``paper``, ``year``, ``numbers`` (without those only stated), one count for each `Verdict` by its value, and
        ``lacking``: what is lacking to how many.
    """
    counted = []
    for sheet in sheets:
        count = sheet.count()
        numbers = sum(count.values()) - count[Verdict.STATED]
        by = {verdict.value: count[verdict] for verdict in Verdict}
        about = {"paper": _short(sheet), "year": sheet.paper.year, "numbers": numbers}
        counted.append(about | by | {"lacking": dict(sheet.lacking().most_common())})
    return counted


def tables(sheets: Sequence[Sheet]) -> list[Table]:
    """Make the tables that a terminal shows: the summary first, then one a paper."""
    shown = Table(title="numbers of four papers, published and measured", title_justify="left")
    for name in ("paper", "numbers", *(verdict.value for verdict in Verdict), "lacking here"):
        shown.add_column(name, justify="left" if name in ("paper", "lacking here") else "right")
    for line in summary(sheets):
        cells = [f"{line[key]}" for key in ("numbers", *(verdict.value for verdict in Verdict))]
        shown.add_row(line["paper"], *cells, _lacking(line["lacking"]))
    made = [shown]
    for sheet in sheets:
        one = Table(title=f"{sheet.paper.authors}, {sheet.paper.year}: {sheet.paper.title}", title_justify="left")
        for name in _HEADINGS:
            one.add_column(name, justify="right" if name in ("published", "measured", "ratio") else "left")
        for found in sheet.comparisons:
            *cells, verdict, card = _cells(found)
            colour = COLOURS.get(found.verdict) if found.verdict else None
            one.add_row(found.entry.label, *cells, f"[{colour}]{verdict}[/]" if colour else verdict, card)
        one.caption, one.caption_justify = "* measured otherwise than published: `differs` in --json says how", "left"
        made.append(one)
    return made


def markdown(
    sheets: Sequence[Sheet], commands: Mapping[str, Command], pictures: Sequence[Path] = (), beside: Path = Path(".")
) -> str:
    """Write the page.

    Parameters
    ----------
    sheets : sequence of Sheet
        Papers compared.
    commands : mapping
        What entries name.
    pictures : sequence of Path
        That `ryle.bench.papers.pictures.draw` made; each is shown with its paper.
    beside : Path
        Folder of the page: links are relative to it.
    """
    lines = [
        *INTRODUCTION.splitlines(),
        "",
        "| paper | numbers | " + " | ".join(verdict.value for verdict in Verdict) + " | lacking here |",
        "|---|--:|" + "--:|" * len(Verdict) + "---|",
    ]
    for line in summary(sheets):
        cells = [
            line["paper"],
            line["numbers"],
            *(line[verdict.value] for verdict in Verdict),
            _lacking(line["lacking"]),
        ]
        lines.append("| " + " | ".join(f"{cell}" for cell in cells) + " |")
    lines.append("")
    for sheet in sheets:
        lines += _section(sheet, commands, pictures, beside)
    return "\n".join(lines).rstrip() + "\n"


def _section(sheet: Sheet, commands: Mapping[str, Command], pictures: Sequence[Path], beside: Path) -> list[str]:
    paper = sheet.paper
    lines = [f"## {_short(sheet)}", "", f"{paper.authors}, *{paper.title}*, {paper.reference}, {paper.year}.", ""]
    for label in paper.labels:
        if label in paper.drawings:
            continue
        lines += [f"### {paper.authors.split(',')[0].split()[-1]}: {label}", ""]
        entries = [entry for entry in paper.entry if entry.label == label]
        hardware = dict.fromkeys(paper.hardware[entry.on] for entry in entries)
        lines += [f"Measured there on: {'; or '.join(hardware)}.", ""]
        lines += ["| | published | measured | ratio | | measured on |", "|---|--:|--:|--:|---|---|"]
        for found in sheet.of(label):
            lines.append("| " + " | ".join(cell.replace("|", "/") for cell in _cells(found)) + " |")
        lines.append("")
        for entry in entries:
            command = f" `{commands[entry.command].run}`." if entry.command else ""
            measured = sorted({one.differs for one in sheet.of(label) if one.entry is entry and one.differs})
            differs = f" Different here: {'; '.join(measured)}." if measured else ""
            lines.append(f"- **{entry.name}**: {entry.how}. Here: {entry.ours}.{command}{differs}")
        lines.append("")
        for picture in pictures:
            if picture.stem == slug(paper.key, label):
                lines += [f"![{label}: published and measured]({os.path.relpath(picture, beside)})", ""]
    if paper.drawings:
        drawings = "; ".join(f"{label} ({what})" for label, what in paper.drawings.items())
        lines += [f"Without numbers: {drawings}.", ""]
    return lines


def slug(key: str, label: str) -> str:
    """Name of a picture, without its suffix."""
    return f"{key}-{label.lower().replace('.', '').replace(' ', '-')}"


def as_json(sheets: Sequence[Sheet]) -> str:
    """Give the text of the file of the comparison: the summary, and one object for each number.

    A file of what this program found, not of results: it names for each measured value the file that it is from.
    """
    about = json.dumps(program())
    counted = ",\n  ".join(json.dumps(line, ensure_ascii=False) for line in summary(sheets))
    rows = ",\n  ".join(
        json.dumps(_object(sheet, one), ensure_ascii=False) for sheet in sheets for one in sheet.comparisons
    )
    return f'{{\n "program": {about},\n "summary": [\n  {counted}\n ],\n "comparisons": [\n  {rows}\n ]\n}}\n'


def _object(sheet: Sheet, one: Comparison) -> dict[str, Any]:
    stamp = one.stamp or Stamp("", "", "", "")
    return {
        "paper": sheet.paper.key,
        "label": one.entry.label,
        "name": one.entry.name,
        "at": one.at,
        "unit": one.entry.unit,
        "better": one.entry.better,
        "published": one.published,
        "measured": one.measured,
        "ratio": one.ratio,
        "verdict": one.verdict and one.verdict.value,
        "needs": one.entry.needs if one.verdict is Verdict.LACKING else "",
        "differs": one.differs,
        "card": stamp.card,
        "date": stamp.date,
        "commit": stamp.commit,
        "file": stamp.file,
    }


def _cells(one: Comparison) -> list[str]:
    """Give what stands in a row, from the name to what it was measured on."""
    entry = one.entry
    where = place(one.at, entry.axis)
    name = entry.name + (f": {where}" if where and where not in entry.name else "")
    unit = "" if entry.unit == "as stated" else f" {entry.unit}"
    verdict = (one.verdict.value if one.verdict else "only measured") + "*" * bool(one.differs)
    if one.verdict is Verdict.LACKING:
        verdict = f"needs {entry.needs}"
    published = number(one.published) + unit if one.published is not None else ""
    measured = rounded(one.measured) + unit if one.measured is not None else ""
    return [name, published, measured, times(one.ratio), verdict, f"{one.stamp}" if one.stamp else ""]


def _short(sheet: Sheet) -> str:
    """Whose and when."""
    names = sheet.paper.authors.split(", ")
    return f"{names[0].split()[-1]}{' et al.' if len(names) > 1 else ''} {sheet.paper.year}"


def _lacking(lacking: Mapping[str, int]) -> str:
    return "; ".join(f"{needs} ({count})" for needs, count in lacking.items())
