"""One look for all pictures: colour-blind-safe colours, sizes, titles, saving. Nothing here needs a display."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from numpy.typing import NDArray

#: Okabe & Ito (2008); the first five stay apart with any colour vision, the last two are one grey to the green-blind.
COLOURS = ("#0072B2", "#D55E00", "#56B4E9", "#E69F00", "#000000", "#009E73", "#CC79A7")
AMPLITUDE = "viridis"
PHASE = "twilight"
FRACTION = "cividis"
SKY = "inferno"
SIGNED = "RdBu_r"

_STYLE = {
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "axes.grid": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(linestyle=("-", "--", ":", "-.")) * cycler(color=COLOURS[:5]),
    "lines.linewidth": 1.2,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.dpi": 110,
    "image.interpolation": "nearest",
}


@contextmanager
def figure(output: Path, title: str, subtitle: str, size: tuple[float, float]) -> Iterator[Figure]:
    """Give a figure to draw on, and save it as PNG.

    Parameters
    ----------
    output : Path
        PNG file; replaced if it exists.
    title, subtitle : str
        First line in bold: what it shows. Second line: of which file, source and time.
    size : tuple of float
        Width and height in inches.
    """
    with mpl.rc_context(_STYLE):
        drawing = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(drawing)
        drawing.suptitle(f"$\\bf{{{title.replace(' ', chr(92) + ' ')}}}$\n{_plain(subtitle)}", fontsize=11)
        yield drawing
        drawing.savefig(output)


def grid(drawing: Figure, rows: int, columns: int, **options: Any) -> NDArray[np.object_]:
    """Axes as an array of shape (rows, columns), whatever the numbers."""
    axes: NDArray[np.object_] = drawing.subplots(rows, columns, squeeze=False, **options)
    return axes


def time_axis(axes: Any) -> None:
    """Label the x axis as UTC."""
    locator = AutoDateLocator(minticks=3, maxticks=7)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.set_xlabel("UTC")


def days(unix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Matplotlib dates of Unix seconds."""
    dates: NDArray[np.float64] = date2num((unix * 1e6).astype("datetime64[us]"))
    return dates


def hatch_missing(axes: Any) -> None:
    """Hatch what no cell covers: flagged or absent data, in no colour of any map."""
    axes.patch.set(facecolor="white", edgecolor="0.6", hatch="xxx", linewidth=0)


def edges(centres: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    """Cell borders around ascending centres; ``width`` serves a single one."""
    if len(centres) == 1:
        return np.array([centres[0] - width / 2, centres[0] + width / 2])
    middle = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]])


def frequency_unit(frequencies: NDArray[np.float64]) -> tuple[NDArray[np.float64], str]:
    """Frequencies in MHz or GHz, and the axis label."""
    if frequencies.max() >= 10e9:
        return frequencies / 1e9, "Sky frequency (GHz)"
    return frequencies / 1e6, "Sky frequency (MHz)"


def time_unit(longest: float) -> tuple[float, str]:
    """Factor from seconds and name of the unit in which a time is 1 to 1000."""
    return next(((f, n) for f, n in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")) if longest * f >= 1), (1e9, "ns"))


def _plain(text: str) -> str:
    return text.replace("$", "\\$")
