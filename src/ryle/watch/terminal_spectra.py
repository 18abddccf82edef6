"""Bandpasses, fringes and lags of one baseline, drawn with braille dots."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from ryle.config import Observation
from ryle.products.glance import Glance
from ryle.watch.baseline import Baseline, in_time, newest_glance, of_antennas
from ryle.watch.fringes import Floats, bandpass, fringe, fringes, lags
from ryle.watch.sight import Sight
from ryle.watch.terminal_draw import Palette, curves, line, short

_HIGH = 34  # lines from which fringes in time are drawn too


def spectra(
    sight: Sight,
    history: Sequence[Sight],
    observation: Observation | None,
    inputs: tuple[int, int],
    width: int,
    height: int,
    palette: Palette,
    *,
    over_time: bool = False,
) -> RenderableType:
    """Draw a baseline: bandpasses of its inputs, its fringe over the band and in time, its lags.

    Parameters
    ----------
    sight, history : Sight, sequence of Sight
        The look, and those before.
    observation : Observation or None
        For frequencies; without it there are channels.
    inputs : (int, int)
        Of the baseline.
    width, height : int
        Columns and lines.
    palette : Palette
        Its colours.
    over_time : bool
        Draw fringes in time where there is no room for all.
    """
    glance = newest_glance(sight, history)
    if glance is None:
        return Text("no integration has been seen yet; one is, after some seconds, while this view is open")
    count = glance.antennas * glance.pols
    base = Baseline.of(inputs[0] % count, inputs[1] % count, glance.pols)
    small = of_antennas(glance, base.antennas)
    half, high = max(20, width // 2 - 1), height >= _HIGH
    of_band = _of_band(small, base, observation, half, (height - 2) // (3 if high else 2), palette, sight)
    grid = of_band
    if high or over_time:
        lines = (height - 2) // 3 if high else (height - 2) // 2
        found = _in_time(history, sight.time, glance, base, half, lines, palette)
        grid = [*of_band, *found] if high else [*of_band[:1], *of_band[3:], *found]
    rows: list[RenderableType] = [*_head(sight, small, base, observation, palette)]
    for left, right in zip(grid[::2], grid[1::2], strict=True):
        for a, b in zip_longest(left, right, fillvalue=Text("")):
            a = a.copy()
            a.pad_right(max(0, half - a.cell_len))
            rows.append(Text.assemble(a, "  ", b))
    return Group(*rows)


def _name(sight: Sight, index: int) -> str:
    return next((line(i.label) for i in sight.inputs if i.index == index), f"input {index}")


def _head(sight: Sight, small: Glance, base: Baseline, observation: Observation | None, palette: Palette) -> list[Text]:
    """Say which baseline it is, and its figures."""
    found = fringe(small)
    amplitude, phase, snr = (float(x[base.here]) for x in (found.amplitude, found.phase, found.snr))
    names = f"{_name(sight, base.first)} × {_name(sight, base.second)}"
    said = [f"integration {small.number}", f"{_figure(amplitude)} steps²"]
    said += [f"{np.degrees(phase):+.1f}°" if np.isfinite(amplitude) else "? °", f"{_figure(snr)} σ"]
    if observation is not None and base.first != base.second:
        peak = float(lags(small, observation.channel_width, [base.here]).peak[0])
        said.append(f"lag {peak * 1e9:+.1f} ns" if np.isfinite(peak) else "lag ?")
    text = Text(no_wrap=True, overflow="ellipsis")
    return [text.append(names, "bold").append("  " + " · ".join(said), palette.good)]


def _figure(value: float) -> str:
    return short(value) if np.isfinite(value) else "?"


def _of_band(
    small: Glance,
    base: Baseline,
    observation: Observation | None,
    width: int,
    height: int,
    palette: Palette,
    sight: Sight,
) -> list[list[Text]]:
    """Draw bandpasses, lags, amplitude and phase over the band."""
    backwards = observation is not None and observation.sideband_sign < 0
    ends = _ends(small, observation)
    offset = {a: n * base.pols - a * base.pols for n, a in enumerate(base.antennas)}
    rows = [i + offset[i // base.pols] for i in (base.first, base.second)]
    power = bandpass(small)
    drawn = [
        (_turned(power[row], backwards), style)
        for row, style in zip(rows, (palette.first, palette.second), strict=True)
    ]
    names = [_name(sight, i) for i in (base.first, base.second)]
    title = f"bandpass {names[0]}" + (f" and {names[1]}" if rows[0] != rows[1] else "")
    pictures = [
        curves(title, drawn[: len(set(rows))], width, height, span=_power_span(power[rows]), unit="dB", ends=ends)
    ]
    if observation is not None:
        seen = lags(small, observation.channel_width, [base.here])
        reach = (f"{seen.seconds[0] * 1e6:.4g} µs", f"{seen.seconds[-1] * 1e6:+.4g} µs")
        lag = [(np.asarray(seen.amplitude[0]), palette.first)]
        pictures.append(curves("lags, amplitude", lag, width, height, unit="steps²", ends=reach))
    else:
        pictures.append([Text("lags: the width of channels is not known", palette.faint)])
    chosen = small.chosen.tolist()
    fine = base.here in chosen
    values = small.spectra[chosen.index(base.here)] if fine else small.coarse[:, base.here]
    values = values.astype(np.complex128)
    amplitude, phase = np.abs(values), np.degrees(np.angle(values))
    phase[~np.isfinite(amplitude)] = np.nan
    of = f"{len(values)} {'bins' if fine else 'parts'}"
    pictures.append(
        curves(
            f"fringe amplitude, {of}",
            [(_turned(amplitude, backwards), palette.first)],
            width,
            height,
            unit="steps²",
            ends=ends,
        )
    )
    pictures.append(
        curves(
            f"fringe phase, {of}",
            [(_turned(phase, backwards), palette.first)],
            width,
            height,
            span=(-180, 180),
            unit="deg",
            ends=ends,
            joined=False,
        )
    )
    return pictures


def _power_span(power: Floats) -> tuple[float, float] | None:
    """Choose what of bandpasses is drawn: all that stands out, of what is far below (a filter's end) the edge."""
    known = power[np.isfinite(power)]
    if known.size == 0:
        return None
    return max(float(known.min()), float(np.quantile(known, 0.02)) - 1.0), float(known.max())


def _turned(values: Floats, backwards: bool) -> Floats:
    """Put the lowest frequency of the sky first."""
    return values[::-1] if backwards else values


def _ends(glance: Glance, observation: Observation | None) -> tuple[str, str]:
    if observation is None:
        return f"channel {glance.first_channel}", f"{glance.first_channel + glance.channels - 1}"
    sky = observation.sky_frequencies[glance.first_channel : glance.first_channel + glance.channels] / 1e6
    return f"{sky.min():.8g}", f"{sky.max():.8g} MHz"


def _in_time(
    history: Sequence[Sight], until: float, glance: Glance, base: Baseline, width: int, height: int, palette: Palette
) -> list[list[Text]]:
    """Draw amplitude and phase of the band's average, integration by integration."""
    alike = in_time(history, until, glance, base)
    found = fringes(alike, [base.here])
    amplitude = np.asarray(found.amplitude[:, 0])
    phase = np.where(np.isfinite(amplitude), np.degrees(found.phase[:, 0]), np.nan)
    ends = (f"integration {alike[0].number}", str(alike[-1].number)) if alike else ("", "")
    return [
        curves("amplitude in time", [(amplitude, palette.first)], width, height, unit="steps²", ends=ends),
        curves(
            "phase in time",
            [(phase, palette.first)],
            width,
            height,
            span=(-180, 180),
            unit="deg",
            ends=ends,
            joined=False,
        ),
    ]
