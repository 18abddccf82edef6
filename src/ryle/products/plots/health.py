"""Is the system well: what was lost, and how the digitizers are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.products.plots import style
from ryle.products.plots.source import VisibilityFile, averaged
from ryle.products.plots.waterfalls import waterfall

#: Up to so many levels, 3 bits, a histogram has a bar each.
_FEW_LEVELS = 8
_ABOVE: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 7}


def loss_map(file: VisibilityFile, output: Path) -> Path:
    """Draw the valid fraction of each antenna against time, and of all antennas against time and channel.

    An antenna's is that of its autocorrelation.
    """
    size = len(file.antennas)
    by_antenna = np.zeros((size, len(file.times)))
    by_channel = np.zeros((len(file.times), len(file.frequencies)))
    for i, antenna in enumerate(file.antennas):
        valid = file.valid(antenna, antenna)
        by_antenna[i] = valid.mean(axis=1)
        by_channel += valid / size
    invalid = 100 * (1 - float(by_channel.mean()))
    low = min(0.98, float(min(by_antenna.min(), by_channel.min())))
    height = 4.2 + min(6.0, 0.16 * size)
    with style.figure(output, "Valid data", file.subtitle, (11, height)) as d:
        first, second = d.subplots(2, 1, height_ratios=[max(1.2, min(6.0, 0.25 * size)), 2.5])
        small = averaged(by_antenna, 1)
        times = np.asarray(averaged(file.times, 0), np.float64)
        edges = style.days(style.edges(times, file.integration_time))
        mesh = first.pcolormesh(
            edges, np.arange(size + 1) - 0.5, small, cmap=style.FRACTION, vmin=low, vmax=1, rasterized=True
        )
        first.set_title(
            f"{invalid:.3g} % of the spectra are not valid: packets lost, or the filter's length at start and end",
            loc="left",
        )
        step = -(-size // 32)
        first.set_yticks(range(0, size, step), [file.names[a] for a in file.antennas][::step], fontsize=8)
        first.set_ylabel("Antenna")
        first.invert_yaxis()
        style.time_axis(first)
        d.colorbar(mesh, ax=first, label="Valid fraction", pad=0.02)
        waterfall(d, second, file, by_channel, "Valid fraction", cmap=style.FRACTION, limits=(low, 1))
    return output


def adc_histogram(
    counts: NDArray[Any],
    output: Path,
    *,
    levels: NDArray[Any] | None = None,
    labels: list[str] | None = None,
    subtitle: str = "",
) -> Path:
    """How often each digitizer level occurred, with the rms of every input and the share at both ends.

    Parameters
    ----------
    counts : ndarray, shape (input, level)
        Occurrences.
    output : Path
        PNG file.
    levels : ndarray, shape (level,), optional
        Default: two's complement, −L/2 … L/2 − 1.
    labels : list of str, optional
        Names of the inputs.
    subtitle : str
        Which file and time.

    Raises
    ------
    ValueError
        If the shapes do not agree.
    """
    counts = np.atleast_2d(np.asarray(counts, np.float64))
    inputs, size = counts.shape
    where = np.arange(size) - size // 2 if levels is None else np.asarray(levels, np.float64)
    names = [f"input {k}" for k in range(inputs)] if labels is None else labels
    if where.shape != (size,) or len(names) != inputs:
        raise ValueError(
            f"histogram of shape {counts.shape} needs {size} levels and {inputs} labels; "
            f"there are {where.size} and {len(names)}"
        )
    columns = min(4, inputs)
    rows = -(-inputs // columns)
    with style.figure(output, "ADC histogram", subtitle, (3.1 * columns + 0.4, 1.0 + 2.1 * rows)) as drawing:
        panels = style.grid(drawing, rows, columns, sharex=True, sharey=True).ravel()
        for axes, name, row in zip(panels, names, counts, strict=False):
            total = max(row.sum(), 1.0)
            middle = (row * where).sum() / total
            rms = float(np.sqrt((row * (where - middle) ** 2).sum() / total))
            # With few levels the outermost are the common ones, and say nothing of overload.
            ends = (row[0] + row[-1]) / total if size > _FEW_LEVELS else 0.0
            share = row / total
            if size <= _FEW_LEVELS:  # as bars, each with its share
                width = 0.8 * float(np.diff(where).min()) if size > 1 else 0.8
                axes.bar(where, share, width=width, alpha=0.85)
                axes.set(xticks=where, ylim=(0, 1.25 * max(share.max(), 1e-9)))
                for level, part in zip(where, share, strict=True):
                    axes.annotate(f"{100 * part:.3g} %", (level, part), (0, 2), textcoords="offset points", **_ABOVE)
            else:
                axes.stairs(share, np.append(where, 2 * where[-1] - where[-2]) - 0.5, fill=True, alpha=0.85)
                axes.set_yscale("log")
            axes.set_title(
                f"{name}  rms {rms:.3g}" + (f"  ends {100 * ends:.2g} %" if ends > 0 else ""), loc="left", fontsize=9
            )
            axes.set(xlabel="Level (ADC counts)", ylabel="Share of samples")
            axes.label_outer()
        for axes in panels[inputs:]:
            axes.remove()
    return output
