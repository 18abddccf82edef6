"""Inputs as a terminal lists them: judged, the ones that need somebody first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ryle.watch.sight import STAGES, InputSight, Sight
from ryle.watch.terminal_draw import line, number, percent, short

#: dB against a full-scale sine wave. Below the first, an 8-bit converter's steps add a third to the noise; above the
#: second, a Gaussian signal clips half a percent of its values.
TOO_LOW, TOO_HIGH = -45.0, -6.0
#: Bits of a converter below which its level is its threshold, and no matter of the signal's.
_FEW_BITS = 6
#: Share that must be there for nothing to be said.
_THERE = 0.999
#: What inputs can be sorted by, and the heads of these columns.
COLUMNS = {
    "verdict": "state",
    "input": "input",
    "rms": "rms",
    "dbfs": "dBFS",
    "clipped": "clip%",
    "saturated": "sat%",
    "ring": "ring%",
    "F": "F%",
    "X": "X%",
    "file": "file%",
    "delay": "delay ns",
}


@dataclass(frozen=True)
class InputRow:
    """An input, judged.

    Parameters
    ----------
    index : int
        Which.
    label : str
        Its name, safe to show.
    rank : int
        0 if something is wrong with it, 1 if it should be looked at, 2 if nobody knows, 3 if it is as it should be.
    verdict : str
        In a word or two.
    keys : dict of str to (float or str or None)
        By column, what it is sorted by.
    cells : dict of str to str
        By column, what is shown.
    """

    index: int
    label: str
    rank: int
    verdict: str
    keys: dict[str, float | str | None]
    cells: dict[str, str]


def input_rows(sight: Sight, bits: int | None = None) -> list[InputRow]:
    """Judge all inputs of a look; those with alarms first, else in order.

    Parameters
    ----------
    sight : Sight
        The look.
    bits : int, optional
        Of the converters, if it is known.
    """
    alarms: dict[str, tuple[int, str]] = {}
    for alarm in sight.alarms:
        if alarm.ended is None:
            for subject in {alarm.subject, *re.split(r", | and ", alarm.subject)}:
                rank = 0 if alarm.severity == "error" else 1
                alarms[subject] = min(alarms.get(subject, (9, "")), (rank, alarm.kind))
    rows = [_row(each, alarms.get(each.label), bits is None or bits >= _FEW_BITS) for each in sight.inputs]
    return sorted(rows, key=lambda row: (row.rank, row.index))


def _row(each: InputSight, alarm: tuple[int, str] | None, levels: bool) -> InputRow:
    rank, verdict = alarm if alarm is not None else _judged(each, levels)
    label = line(each.label)
    delay = number(each.delay)
    keys: dict[str, float | str | None] = {
        "verdict": float(rank),
        "input": float(each.index),
        "rms": number(each.rms),
        "dbfs": number(each.dbfs),
        "clipped": number(each.clipped),
        "saturated": number(each.saturated),
        "delay": delay,
    }
    cells = {
        "verdict": f"{'✖▲?●'[rank]} {line(verdict)}",
        "input": label,
        "rms": short(each.rms),
        "dbfs": "?" if keys["dbfs"] is None else f"{keys['dbfs']:.1f}",
        "clipped": percent(each.clipped),
        "saturated": percent(each.saturated),
        "delay": "?" if delay is None else f"{delay * 1e9:.1f}",
    }
    for stage in STAGES:
        keys[stage] = number(each.present.get(stage))
        cells[stage] = percent(each.present.get(stage))
    return InputRow(each.index, label, rank, verdict, keys, cells)


def _judged(each: InputSight, levels: bool) -> tuple[int, str]:
    """Judge an input that has no alarm."""
    level, present = number(each.dbfs), [number(each.present.get(stage)) for stage in STAGES]
    known = [share for share in present if share is not None]
    if known and max(known) == 0:
        return 0, "nothing"
    if levels and level is not None and level > TOO_HIGH:
        return 1, "too high"
    if levels and ((level is not None and level < TOO_LOW) or number(each.rms) == 0):
        return 1, "too low"
    if isinstance(each.codes, str) and each.codes:
        return 1, "stuck bit" if "stuck" in each.codes else "codes missing"
    if known and min(known) < _THERE:
        return 1, "losses"
    return (3, "ok") if known or level is not None else (2, "unknown")


def ordered(rows: Sequence[InputRow], column: str, backwards: bool = False) -> list[InputRow]:
    """Sort rows by a column; unknown values come last, rows with the same value in order of their inputs."""
    known = [row for row in rows if row.keys[column] is not None]
    rest = [row for row in rows if row.keys[column] is None]
    known.sort(key=lambda row: row.index)
    known.sort(key=lambda row: row.keys[column], reverse=backwards)  # type: ignore[arg-type,return-value]
    return known + sorted(rest, key=lambda row: row.index)


def inputs_in_words(rows: Sequence[InputRow]) -> str:
    """Say how many inputs there are, and of how many what."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.verdict] = counts.get(row.verdict, 0) + 1
    words = [f"{count} {line(verdict)}" for verdict, count in counts.items()]
    return f"{len(rows)} inputs: {', '.join(words)}" if rows else "no inputs are known yet"
