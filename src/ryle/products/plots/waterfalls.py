"""Time against frequency, drawn the same way in every picture."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ryle.products.plots import style
from ryle.products.plots.source import VisibilityFile, averaged


def waterfall(
    drawing: Figure,
    axes: Any,
    file: VisibilityFile,
    values: NDArray[Any],
    label: str,
    *,
    cmap: str = style.AMPLITUDE,
    limits: tuple[float, float] | None = None,
    phase: bool = False,
) -> None:
    """Draw an array of shape (time, channel): UTC to the right, frequency upwards, colour bar with ``label``.

    With ``phase``, complex values are averaged as such and their angle in degrees is drawn.
    """
    small = averaged(averaged(values, 0), 1)
    times = np.asarray(averaged(file.times, 0), np.float64)
    frequencies = np.asarray(averaged(file.frequencies, 0), np.float64)
    scaled, name = style.frequency_unit(frequencies)
    if phase:
        small, limits = np.degrees(np.angle(small)), (-180, 180)
    time_edges = style.days(style.edges(times, file.integration_time))
    frequency_edges = style.edges(scaled, file.channel_width * scaled[0] / frequencies[0])
    low, high = limits or middle_range(values[:, file.in_band])
    mesh = axes.pcolormesh(time_edges, frequency_edges, small.T, cmap=cmap, vmin=low, vmax=high, rasterized=True)
    style.hatch_missing(axes)
    axes.set_ylabel(name)
    style.time_axis(axes)
    beyond = "neither" if limits else "both"
    ticks = [-180, -90, 0, 90, 180] if phase else None
    drawing.colorbar(mesh, ax=axes, label=label, ticks=ticks, pad=0.02, extend=beyond)


def middle_range(values: NDArray[Any]) -> tuple[float, float]:
    """Give limits that hold all but one in a hundred values at either end; NaN counts for nothing."""
    good = values[np.isfinite(values)]
    if good.size == 0:
        return 0.0, 1.0
    low, high = (float(x) for x in np.percentile(good, (1, 99)))
    return (low, high) if high > low else (low - 0.5, high + 0.5)
