"""The histogram of one input's ADC values, drawn with blocks: its level, its clipping, codes that never come."""

from __future__ import annotations

from itertools import groupby

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from ryle.products.histograms import Histograms
from ryle.watch import codes
from ryle.watch.sight import InputSight, Sight
from ryle.watch.terminal_draw import Palette, columns, line, percent, short

_ROOM = 0.4  # share of the range that values must reach for all of it to be drawn
_LEAST = 8  # levels on either side of 0 that are drawn at least
_MARGIN = 9  # columns before the picture


def levels(
    sight: Sight, index: int, width: int, height: int, palette: Palette, *, in_all: bool = False
) -> RenderableType:
    """Draw an input's ADC values, how often each occurred, on a logarithmic scale.

    Parameters
    ----------
    sight : Sight
        The look.
    index : int
        Which input, in the order of the array.
    width, height : int
        Columns and lines.
    palette : Palette
        Its colours.
    in_all : bool
        Draw those since the start, not those of the last second.
    """
    h = sight.histograms
    each = next((i for i in sight.inputs if i.index == index), None)
    if h is None or index >= len(h.lately):
        return Text("no ADC values have been seen yet; they are, after some seconds, while this view is open")
    head = Group(*_head(h, index, each, palette, in_all))
    counts = (h.in_all if in_all else h.lately)[index]
    if not counts.any():
        return Group(head, Text("nothing came of this input", palette.warning))
    first, end = drawn(h, index)
    picture = slice(first, end)
    wide, high = max(10, width - _MARGIN), max(3, height - 6)
    ends, gone = codes.at_ends(h)[picture], codes.missing(h)[index][picture]
    groups = np.arange(wide) * (end - first) // wide  # several columns a level, or several levels a column
    groups = np.unique(groups)
    tops = np.maximum.reduceat(counts[picture], groups)
    clip = np.logical_or.reduceat(ends, groups)
    holes = np.logical_or.reduceat(gone, groups)
    each_wide = np.diff(np.append(np.round(np.arange(len(groups)) * wide / len(groups)), wide)).astype(int)
    total, most = int(counts.sum()), int(tops.max())
    with np.errstate(divide="ignore"):
        scaled = np.where(tops > 0, (np.log10(tops) + 0.3) / (np.log10(most) + 0.3), 0)
    styles = [palette.error if c else palette.first for c in clip]
    rows = columns(scaled, each_wide, styles, high)
    labels = {0: f"{percent(most / total)} %", high - 1: f"{percent(1 / total)} %"}
    text = [Text.assemble(labels.get(r, "").rjust(_MARGIN - 1) + "┤", row) for r, row in enumerate(rows)]
    text.append(_marks(clip, holes, each_wide, palette))
    low, top = int(h.levels[first]), int(h.levels[end - 1])
    axis = f"{low:+d}".ljust(wide // 2) + "0" + f"{top:+d} steps".rjust(wide - wide // 2 - 1)
    text.append(Text(" " * _MARGIN + axis[:wide]))
    return Group(head, *text)


def drawn(h: Histograms, index: int) -> tuple[int, int]:
    """Choose which levels of an input are drawn: as far as its values go on either side, or all if they go far."""
    middle = h.lately.shape[1] // 2
    came = np.flatnonzero(h.lately[index] + h.in_all[index])
    reach = int(np.abs(came - middle).max(initial=0))
    whole = h.clips // h.step if h.clips else middle
    reach = min(max(whole, reach) if reach >= _ROOM * whole else max(reach + 1, _LEAST), middle)
    return middle - reach, middle + reach + 1


def _head(h: Histograms, index: int, each: InputSight | None, palette: Palette, in_all: bool) -> list[Text]:
    """Say which input it is, and its figures."""
    name = f"input {index}" if each is None else line(each.label)
    level, share = float(codes.rms(h)[index]), float(codes.clipped(h)[index])
    dbfs = "?" if each is None or each.dbfs is None else f"{each.dbfs:.1f}"
    first = Text(no_wrap=True, overflow="ellipsis").append(name, "bold")
    first.append(f"  rms {short(level) if level == level else '?'} steps · {dbfs} dBFS", palette.good)
    values = int((h.in_all if in_all else h.lately)[index].sum())
    first.append(f"  {'since the start' if in_all else 'of the last second'}: {short(values)} values", palette.faint)
    second = Text(no_wrap=True, overflow="ellipsis")
    if h.clips:
        style = palette.error if share > 0 else palette.good
        mark = "✖" if share > 0 else "●"
        known = percent(share) if share == share else "?"
        second.append(f"{mark} {known} % at the ends, ±{h.clips} steps", style)
    else:
        second.append("? where it clips is not known", palette.faint)
    said = None if each is None else each.codes
    if said is None:
        second.append("   codes are not judged" if not h.bits else "   too few codes to judge them", palette.faint)
    else:
        second.append(
            f"   ✖ {line(said)}" if said else "   ● codes as they should be", palette.error if said else palette.good
        )
    return [first, second]


def _marks(clip: codes.Bools, holes: codes.Bools, wide: np.ndarray, palette: Palette) -> Text:
    """Mark, below the picture, where the converter clips and which codes are missing."""
    text = Text(" " * (_MARGIN - 1) + "└")
    marks = "".join(
        ("×" if hole else "▲" if at_end else "─") * count
        for at_end, hole, count in zip(clip.tolist(), holes.tolist(), wide.tolist(), strict=True)
    )
    for plain, run in groupby(marks, key="─".__eq__):
        text.append("".join(run), palette.faint if plain else palette.error)
    return text
