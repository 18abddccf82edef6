"""Pictures of characters: numbers in few columns, bars, curves of braille dots, maps of blocks.

Everything is told by a word or a shape; colour says it again. Colours are those of Okabe and Ito, which people with any
colour vision tell apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from ryle.monitor.view import printable

Floats = NDArray[np.float64]

_MARGIN = 8  # columns before a curve: what is at its top and bottom
#: From what share on something lost is drawn so, and what is said of it.
LOST = ((0.0, "·", "all there"), (1e-9, "░", "lost"), (0.01, "▒", "over 1 %"), (0.1, "▓", "10 %"), (0.5, "█", "50 %"))
#: Bits of a braille character, by row and column of its dots.
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], np.int64)


@dataclass(frozen=True)
class Palette:
    """Styles of Rich, by what they mean.

    Parameters
    ----------
    good, warning, error, faint : str
        Of what is as it should be, to be looked at, wrong, and beside the point.
    first, second : str
        Of two curves.
    """

    good: str
    warning: str
    error: str
    faint: str
    first: str
    second: str


DARK = Palette("#56b4e9", "bold #e69f00", "bold #ff7f50", "#9a9a9a", "#56b4e9", "#e69f00")
LIGHT = Palette("#0060a0", "bold #8a5a00", "bold #b03000", "#606060", "#0060a0", "#a06000")
#: Of a terminal whose background nobody knows.
PLAIN = Palette("", "bold yellow", "bold red", "", "cyan", "yellow")


def line(text: object) -> str:
    """Show text of anybody's in one line: what a terminal would obey as question marks."""
    return printable(str(text)).replace("\n", "?")


def number(value: object) -> float | None:
    """Give a finite number; None for anything else that a page may have."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 else None  # NaN is not


def short(value: object, digits: int = 3) -> str:
    """Write a number with so many digits and a letter for thousands; "?" if it is unknown."""
    found = number(value)
    if found is None:
        return "?"
    if found == int(found) and abs(found) < 10 ** max(digits, 4):
        return str(int(found))
    if abs(found) < 1e-3:
        return f"{found:.0e}"
    for letter in ("", "k", "M", "G", "T", "P"):
        text = f"{found:.{digits}g}"
        if abs(float(text)) < 1000:
            return text + letter
        found /= 1000
    return f"{found * 1000:.0e}"


def percent(share: object) -> str:
    """Write a share in %: whole ones as such, one that is nearly whole never as whole; "?" if it is unknown."""
    found = number(share)
    if found is None:
        return "?"
    if found in (0, 1):
        return str(int(found * 100))
    if found > 0.5:
        return f"{min(found * 100, 99.99):.2f}"
    return f"{found * 100:.2g}" if found >= 1e-4 else "<0.01"


def ago(seconds: float) -> str:
    """Say how long something takes or is ago."""
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def bar(share: float | None, width: int) -> str:
    """Draw a share, in eighths of a column; question marks if it is unknown."""
    if share is None:
        return "?".ljust(width)
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    if share > 0:
        eighths = max(1, eighths)
    rest = "" if eighths % 8 == 0 else " ▏▎▍▌▋▊▉"[eighths % 8]
    return ("█" * (eighths // 8) + rest).ljust(width, "░")


def curves(
    title: str,
    drawn: Sequence[tuple[Floats, str]],
    width: int,
    height: int,
    *,
    span: tuple[float, float] | None = None,
    unit: str = "",
    ends: tuple[str, str] = ("", ""),
    joined: bool = True,
) -> list[Text]:
    """Draw curves in braille dots, each column from the least to the greatest of what falls in it.

    Parameters
    ----------
    title : str
        First line.
    drawn : sequence of (ndarray of float64, str)
        Evenly spaced values, NaN where there is none, and a style of Rich.
    width, height : int
        Columns and lines of all of it.
    span : (float, float), optional
        Of the values; what they reach over if absent.
    unit : str
        Of the values.
    ends : (str, str)
        What stands at both ends of the axis.
    joined : bool
        Whether a column is joined to the one before.

    Returns
    -------
    list of Text
        As many as `height`, none longer than `width`.
    """
    columns, rows = max(4, width - _MARGIN - 1), max(1, height - 2)
    head = Text(title[:width], "bold")
    finite = np.concatenate([v[np.isfinite(v)] for v, _ in drawn]) if drawn else np.zeros(0)
    if finite.size == 0:
        empty = [Text("nothing came".center(width)[:width]) if k == rows // 2 else Text("") for k in range(rows + 1)]
        return [head, *empty][: max(1, height)]
    low, high = span if span is not None else (float(finite.min()), float(finite.max()))
    if not high > low:
        around = max(abs(high) * 0.01, 1e-12)
        low, high = low - around, high + around
    cells = np.zeros((rows, columns), np.int64)
    owner = np.full((rows, columns), -1)
    for n, (values, _) in enumerate(drawn):
        dots = _dots(values, columns * 2, rows * 4, low, high, joined)
        bits = (dots.reshape(rows, 4, columns, 2) * _DOTS[:, np.newaxis, :]).sum(axis=(1, 3))
        owner[bits > 0] = n
        cells |= bits
    lines = [head]
    for r in range(rows):
        label = f"{high:.4g}" if r == 0 else f"{low:.4g}" if r == rows - 1 else unit if r == rows // 2 else ""
        text = Text(label[: _MARGIN - 1].rjust(_MARGIN - 1) + "┤")
        drawn_row = [
            (chr(0x2800 + bits) if bits else " ", int(n)) for bits, n in zip(cells[r].tolist(), owner[r], strict=True)
        ]
        for n, run in groupby(drawn_row, key=lambda cell: cell[1]):
            text.append("".join(dots for dots, _ in run), drawn[n][1] if n >= 0 else None)
        lines.append(text)
    left, right = ends
    axis = left + " " * max(1, columns - len(left) - len(right)) + right
    lines.append(Text(" " * _MARGIN + axis[:columns]))
    return lines[: max(1, height)]


def _dots(values: Floats, columns: int, rows: int, low: float, high: float, joined: bool) -> NDArray[np.bool_]:
    """Say which dots are set, shape (row, column), the greatest value in row 0."""
    dots = np.zeros((rows, columns), bool)
    if values.size == 0:
        return dots
    last: tuple[int, int] | None = None
    for c in range(columns):
        first = c * values.size // columns
        some = values[first : max(first + 1, (c + 1) * values.size // columns)]
        some = some[np.isfinite(some)]
        if some.size == 0:
            last = None
            continue
        place = np.rint((high - np.clip(some, low, high)) / (high - low) * (rows - 1)).astype(int)
        if not joined:
            dots[place, c] = True
            continue
        top, bottom = int(place.min()), int(place.max())
        reach = top, bottom
        if last is not None:  # up to half way to what is beside it
            top, bottom = min(top, last[1]), max(bottom, last[0])
        dots[top : bottom + 1, c] = True
        last = reach
    return dots


def columns(shares: Floats, wide: Sequence[int] | NDArray[np.int64], styles: Sequence[str], rows: int) -> list[Text]:
    """Draw columns that stand side by side, in eighths of a row.

    Parameters
    ----------
    shares : ndarray of float, shape (column,)
        How high each is, of all that there is; what is more than 0 is seen.
    wide : sequence of int
        Characters of each.
    styles : sequence of str
        Of each.
    rows : int
        Lines.
    """
    eighths = np.rint(np.clip(shares, 0, 1) * rows * 8).astype(int)
    eighths[(shares > 0) & (eighths == 0)] = 1
    lines = []
    for r in range(rows):
        text, below = Text(), 8 * (rows - 1 - r)
        for style, run in groupby(zip(eighths.tolist(), wide, styles, strict=True), key=lambda column: column[2]):
            text.append(
                "".join(" ▁▂▃▄▅▆▇█"[min(max(high - below, 0), 8)] * int(count) for high, count, _ in run), style
            )
        lines.append(text)
    return lines


def loss_rows(
    lost: NDArray[np.floating], labels: Sequence[str], width: int, height: int, palette: Palette
) -> list[Text]:
    """Draw what was lost, input by time; of several inputs or times in one place the worst.

    Parameters
    ----------
    lost : ndarray, shape (input, time)
        Shares; NaN where nobody told.
    labels : sequence of str
        Of the inputs.
    width, height : int
        Columns and lines, at most.
    palette : Palette
        Its colours.
    """
    if lost.size == 0:
        return [Text("nobody has told yet what was there of any input", palette.faint)]
    margin = min(max(len(label) for label in labels) + 6, 24)
    rows = min(len(labels), max(1, height))
    columns = min(lost.shape[1], max(1, width - margin - 1))
    lines = []
    for r in range(rows):
        first, end = r * len(labels) // rows, (r + 1) * len(labels) // rows
        label = labels[first] if end == first + 1 else f"{labels[first]} +{end - first - 1}"
        text = Text(label[: margin - 1].ljust(margin))
        for c in range(columns):
            cell = lost[first:end, c * lost.shape[1] // columns : (c + 1) * lost.shape[1] // columns]
            known = cell[np.isfinite(cell)]
            if known.size == 0:
                text.append(" ")
                continue
            worst = float(known.max())
            text.append([shape for share, shape, _ in LOST if worst >= share][-1], _lost_style(worst, palette))
        lines.append(text)
    return lines


def _lost_style(share: float, palette: Palette) -> str:
    return palette.faint if share <= 0 else palette.warning if share < LOST[3][0] else palette.error
