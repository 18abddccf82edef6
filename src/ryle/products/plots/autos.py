"""Autocorrelations: bandpass and waterfall."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.products.plots import style
from ryle.products.plots.source import VisibilityFile, mean, spread
from ryle.products.plots.waterfalls import middle_range, waterfall

_LEGEND = 16


def bandpass(file: VisibilityFile, output: Path) -> Path:
    """Time-averaged power of every antenna against frequency, a panel a polarization.

    The scale is that of the band; edge channels and DC may run off it.
    """
    hands = file.parallel
    frequencies, label = style.frequency_unit(file.frequencies)
    with style.figure(output, "Autocorrelation bandpass", file.subtitle, (9, 1.2 + 2.8 * len(hands))) as drawing:
        for axes, k in zip(style.grid(drawing, len(hands), 1, sharex=True)[:, 0], hands, strict=True):
            low, high = np.inf, -np.inf
            for antenna in file.antennas:
                power = _decibel(np.real(mean(file.waterfall(antenna, antenna, k), 0)))
                bottom, top = middle_range(power[file.in_band])
                low, high = min(low, bottom), max(high, top)
                axes.plot(frequencies, power, label=file.names[antenna], alpha=0.9, drawstyle="steps-mid")
            margin = max(0.5, 0.3 * (high - low))
            axes.set(ylabel=f"{file.polarizations[k]} power (dB, counts²)", ylim=(low - margin, high + margin))
            axes.grid(alpha=0.25)
            if len(file.antennas) <= _LEGEND:
                axes.legend(ncols=8, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0, columnspacing=1.2)
            else:
                axes.set_title(f"{len(file.antennas)} antennas", loc="left")
        axes.set_xlabel(label)
    return output


def waterfalls(file: VisibilityFile, output: Path, *, antennas: int = 12) -> Path:
    """Autocorrelation power of all antennas, or of so many of them, against time and frequency."""
    chosen, hands = spread(file.antennas, antennas), file.parallel
    size = (5.2 * len(hands) + 0.6, 1.1 + 1.7 * len(chosen))
    which = f"{len(chosen)} of {len(file.antennas)} antennas" if len(chosen) < len(file.antennas) else "all antennas"
    with style.figure(output, "Autocorrelation waterfall", f"{file.subtitle}  ·  {which}", size) as drawing:
        panels = style.grid(drawing, len(chosen), len(hands), sharex=True, sharey=True)
        for antenna, row in zip(chosen, panels, strict=True):
            for k, axes in zip(hands, row, strict=True):
                power = _decibel(np.real(file.waterfall(antenna, antenna, k)))
                waterfall(drawing, axes, file, power, "dB (counts²)")
                axes.set_title(f"{file.names[antenna]}  {file.polarizations[k]}", loc="left")
                axes.label_outer()
    return output


def _decibel(power: NDArray[Any]) -> NDArray[Any]:
    level: NDArray[np.float64] = 10.0 * np.log10(np.where(power > 0, power, np.nan)).astype(np.float64)
    return level
