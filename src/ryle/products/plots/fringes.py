"""Cross-correlations: fringes, lag spectra, closure phases, the matrix of all baselines."""

from __future__ import annotations

from itertools import combinations, cycle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.products.plots import style
from ryle.products.plots.source import VisibilityFile, mean
from ryle.products.plots.waterfalls import waterfall


def fringes(file: VisibilityFile, output: Path, *, baselines: list[tuple[int, int]] | None = None) -> Path:
    """Phase and amplitude against time and frequency, and band-averaged phase against time, a row a baseline."""
    chosen = baselines or file.baselines(4)
    k = file.parallel[0]
    size = (15, 0.9 + 2.6 * len(chosen))
    line = f"{file.subtitle}  ·  {_choice(file, len(chosen))}"
    with style.figure(output, f"Fringes {file.polarizations[k]}", line, size) as drawing:
        for (a, b), row in zip(chosen, style.grid(drawing, len(chosen), 3), strict=True):
            values = file.waterfall(a, b, k)
            waterfall(drawing, row[0], file, values, "Phase (°)", cmap=style.PHASE, phase=True)
            waterfall(drawing, row[1], file, np.abs(values), "Amplitude (counts²)")
            for hand in file.parallel:
                phase = np.degrees(np.angle(mean(file.waterfall(a, b, hand), 1)))
                row[2].plot(style.days(file.times), phase, ".-", ms=3, lw=0.8, label=file.polarizations[hand])
            row[2].set(ylim=(-180, 180), yticks=[-180, -90, 0, 90, 180], ylabel="Band-averaged phase (°)")
            row[2].axhline(0, color="0.7", lw=0.6, zorder=0)
            row[2].legend(ncols=2, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0)
            style.time_axis(row[2])
            row[0].set_title(file.baseline_name((a, b)), loc="left", fontweight="bold")
    return output


def delay_spectrum(
    values: NDArray[np.complexfloating], channel_width: float, *, coherent: bool = True, oversample: int = 8
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Amplitude against delay, V ∝ e^{+2πifτ} peaking at τ, with a Hann window over the band.

    Parameters
    ----------
    values : ndarray of complex, shape (time, channel)
        Visibilities; NaN counts as zero.
    channel_width : float
        Hertz.
    coherent : bool
        Average the visibilities over time, not the amplitudes.
    oversample : int
        Zero padding.

    Returns
    -------
    delays : ndarray of float64, shape (delay,)
        Seconds.
    amplitude : ndarray of float64, shape (delay,)
    peak : float
        Delay of the highest amplitude, refined by a parabola.
    """
    channels = values.shape[1]
    window = np.hanning(channels + 2)[1:-1]
    series = np.where(np.isnan(values), 0, values) * (window / window.sum())
    if coherent:
        series = series.mean(axis=0, keepdims=True)
    length = oversample * channels
    amplitude = np.abs(np.fft.fftshift(np.fft.fft(series, length, axis=1), axes=1)).mean(axis=0)
    delays = np.fft.fftshift(np.fft.fftfreq(length, channel_width))
    top = int(amplitude.argmax())
    left, middle, right = (float(amplitude[(top + d) % length]) for d in (-1, 0, 1))
    bend = left - 2 * middle + right
    shift = 0.5 * (left - right) / bend if bend < 0 else 0.0
    return delays, amplitude, float(delays[top] + shift * (delays[1] - delays[0]))


def lags(file: VisibilityFile, output: Path, *, baselines: list[tuple[int, int]] | None = None) -> Path:
    """Delay transform of each baseline about its peak, which is marked; all delays in the small panel."""
    chosen = baselines or file.baselines(6)
    columns = 2 if len(chosen) > 1 else 1
    rows = -(-len(chosen) // columns)
    resolution = 1 / (file.channel_width * len(file.frequencies))
    line = f"{file.subtitle}  ·  {_choice(file, len(chosen))}"
    with style.figure(output, "Lag spectrum", line, (5.4 * columns, 0.9 + 2.4 * rows)) as drawing:
        panels = style.grid(drawing, rows, columns).ravel()
        for axes, (a, b) in zip(panels, chosen, strict=False):
            found = {
                k: delay_spectrum(file.waterfall(a, b, k), file.channel_width, coherent=file.tracked)
                for k in file.parallel
            }
            reach = max(abs(peak) for _, _, peak in found.values()) + 8 * resolution
            scale, unit = style.time_unit(reach)
            whole = axes.inset_axes((0.06, 0.62, 0.27, 0.33))
            for k, (delays, amplitude, peak) in found.items():
                label = f"{file.polarizations[k]}  {peak * 1e9:+.2f} ns"
                (drawn,) = axes.plot(delays * scale, amplitude, label=label)
                axes.plot(peak * scale, amplitude.max(), "v", color=drawn.get_color(), ms=6)
                whole.plot(delays * scale, amplitude, color=drawn.get_color(), lw=0.8)
            axes.set_title(file.baseline_name((a, b)), loc="left", fontweight="bold")
            top = 1.15 * max(float(amplitude.max()) for _, amplitude, _ in found.values())
            axes.set(xlabel=f"Delay ({unit})", ylabel="Amplitude (counts²)", xlim=(-reach * scale, reach * scale))
            axes.set_ylim(0, top or 1.0)
            axes.axvline(0, color="0.7", lw=0.6, zorder=0)
            axes.legend(loc="upper right", title="peak")
            whole.set_title("all delays", fontsize=7, pad=2)
            whole.tick_params(labelsize=6, left=False, labelleft=False)
        for axes in panels[len(chosen) :]:
            axes.remove()
    return output


def _choice(file: VisibilityFile, drawn: int) -> str:
    """Say which baselines are drawn."""
    every = len(file.antennas) * (len(file.antennas) - 1) // 2
    return "all baselines" if drawn >= every else f"{drawn} of {every} baselines, shortest to longest"


def bispectrum(file: VisibilityFile, triangle: tuple[int, int, int], polarization: int) -> NDArray[np.complex128]:
    """V_ab V_bc V_ca of three antennas, shape (time, channel): its phase is free of antenna phases."""
    a, b, c = triangle
    ab, bc, ac = (file.waterfall(*pair, polarization).astype(np.complex128) for pair in ((a, b), (b, c), (a, c)))
    product: NDArray[np.complex128] = ab * bc * ac.conj()
    return product


def closure(file: VisibilityFile, output: Path, *, triangles: int = 6) -> Path:
    """Closure phase against time (band-averaged bispectrum) and against frequency (time-averaged)."""
    chosen = list(combinations(file.antennas[: triangles + 2], 3))[:triangles]
    k = file.parallel[0]
    frequencies, label = style.frequency_unit(file.frequencies)
    size = len(file.antennas)
    line = f"{file.subtitle}  ·  {len(chosen)} of {size * (size - 1) * (size - 2) // 6} triangles"
    with style.figure(output, f"Closure phase {file.polarizations[k]}", line, (11, 4.6)) as drawing:
        in_time, in_frequency = style.grid(drawing, 1, 2, sharey=True)[0]
        for triangle, colour in zip(chosen, cycle(style.COLOURS), strict=False):
            values = bispectrum(file, triangle, k)
            name = " – ".join(file.names[x] for x in triangle)
            phases = [np.degrees(np.angle(mean(values, axis))) for axis in (1, 0)]
            in_time.plot(style.days(file.times), phases[0], ".-", color=colour, ms=4, label=name)
            in_frequency.plot(frequencies, phases[1], ".", color=colour, ms=3, label=name)
        for axes in (in_time, in_frequency):
            axes.axhline(0, color="0.7", lw=0.6, zorder=0)
            axes.grid(alpha=0.25)
        in_time.set(ylim=(-180, 180), yticks=np.arange(-180, 181, 60), ylabel="Closure phase (°)")
        style.time_axis(in_time)
        in_frequency.set_xlabel(label)
        drawing.legend(*in_time.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return output


def baseline_matrix(file: VisibilityFile, output: Path) -> Path:
    """Correlation coefficient and phase of all baselines, averaged over time and band: dead and swapped inputs show."""
    k, size = file.parallel[0], len(file.antennas)
    average = np.full((size, size), np.nan, np.complex128)
    place = {antenna: i for i, antenna in enumerate(file.antennas)}
    for (a, b), value in file.averages(k).items():
        average[place[a], place[b]], average[place[b], place[a]] = value, np.conj(value)
    power = np.sqrt(np.abs(np.diag(average)))
    power[power == 0] = np.nan
    coefficient = average / power / power[:, np.newaxis]
    np.fill_diagonal(coefficient, np.nan)
    names = [file.names[a] for a in file.antennas]
    with style.figure(output, f"Baseline matrix {file.polarizations[k]}", file.subtitle, (11, 5.2)) as drawing:
        panels = style.grid(drawing, 1, 2)[0]
        top = np.nanmax(np.abs(coefficient)) if size > 1 and np.isfinite(coefficient).any() else 1.0
        for axes, values, cmap, limits, label in (
            (panels[0], np.abs(coefficient), style.AMPLITUDE, (0, top), "Correlation coefficient"),
            (panels[1], np.degrees(np.angle(coefficient)), style.PHASE, (-180, 180), "Phase (°)"),
        ):
            image = axes.imshow(values, cmap=cmap, vmin=limits[0], vmax=limits[1])
            style.hatch_missing(axes)
            step = -(-size // 32)
            axes.set_xticks(range(0, size, step), names[::step], rotation=90, fontsize=8)
            axes.set_yticks(range(0, size, step), names[::step], fontsize=8)
            axes.set(xlabel="Antenna b", ylabel="Antenna a", title=f"{label.split(' (')[0]} of a – b")
            if size <= 12:
                _write_values(axes, values, "{:.2f}" if label.startswith("Corr") else "{:.0f}")
            ticks = [-180, -90, 0, 90, 180] if limits[0] < 0 else None
            drawing.colorbar(image, ax=axes, label=label, shrink=0.85, ticks=ticks)
    return output


def _write_values(axes: Any, values: NDArray[np.float64], form: str) -> None:
    """Write each value into its cell, light on dark and dark on light."""
    colours = axes.images[0]
    for (y, x), value in np.ndenumerate(values):
        if np.isfinite(value):
            red, green, blue, _ = colours.cmap(colours.norm(value))
            dark = 0.3 * red + 0.59 * green + 0.11 * blue < 0.5
            axes.text(
                x, y, form.format(value), ha="center", va="center", fontsize=7, color="white" if dark else "black"
            )
