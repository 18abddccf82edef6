"""Autocorrelations: bandpass and waterfall."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.products.plots import style
from ryle.products.plots.source import VisibilityFile, mean
from ryle.products.plots.waterfalls import waterfall

_LEGEND = 16


def bandpass(file: VisibilityFile, output: Path) -> Path:
    """Time-averaged power of every antenna against frequency, a panel a polarization."""
    hands = file.parallel
    frequencies, label = style.frequency_unit(file.frequencies)
    with style.figure(output, "Autocorrelation bandpass", file.subtitle, (9, 1.2 + 2.8 * len(hands))) as drawing:
        for axes, k in zip(style.grid(drawing, len(hands), 1, sharex=True)[:, 0], hands, strict=True):
            for antenna in file.antennas:
                power = np.real(mean(file.waterfall(antenna, antenna, k), 0))
                axes.plot(frequencies, _decibel(power), label=file.names[antenna], alpha=0.9, drawstyle="steps-mid")
            axes.set_ylabel(f"{file.polarizations[k]} power (dB, counts²)")
            axes.grid(alpha=0.25)
            if len(file.antennas) <= _LEGEND:
                axes.legend(ncols=4, loc="best")
            else:
                axes.set_title(f"{len(file.antennas)} antennas", loc="left")
        axes.set_xlabel(label)
    return output


def waterfalls(file: VisibilityFile, output: Path, *, antennas: int = 4) -> Path:
    """Autocorrelation power against time and frequency of the first antennas, relative to each one's time average."""
    chosen, hands = file.antennas[:antennas], file.parallel
    size = (5.2 * len(hands) + 0.6, 0.9 + 2.5 * len(chosen))
    with style.figure(output, "Autocorrelation waterfall", file.subtitle, size) as drawing:
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
