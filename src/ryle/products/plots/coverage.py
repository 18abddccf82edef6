"""Where on the uv plane, and what the sky looks like."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.patches import Ellipse
from rich.table import Table

from ryle.products.clean import Cleaned
from ryle.products.image import Image
from ryle.products.plots import style
from ryle.products.plots.source import VisibilityFile
from ryle.products.sources import Found

_LIGHT = 299792458.0


def uv_coverage(file: VisibilityFile, output: Path) -> Path:
    """Tracks in wavelengths at the lowest, middle and highest channel, both halves of the plane."""
    cross = file.antenna_1 != file.antenna_2
    u, v = file.uvw[cross, 0], file.uvw[cross, 1]
    step = -(-len(u) // 200_000)
    frequencies = file.frequencies
    dot = float(np.clip(60 / np.sqrt(max(1, len(u) // step)), 1.5, 7))  # few points are large, many do not run together
    with style.figure(output, "uv coverage", file.subtitle, (7.2, 7.2)) as drawing:
        axes = style.grid(drawing, 1, 1)[0, 0]
        picks = sorted({0, len(frequencies) // 2, len(frequencies) - 1})
        for frequency, colour in zip(frequencies[picks], style.COLOURS, strict=False):
            for sign in (1, -1):
                scale = sign * frequency / _LIGHT / 1e3
                label = f"{frequency / 1e6:.6g} MHz" if sign > 0 else None
                axes.plot(u[::step] * scale, v[::step] * scale, ".", ms=dot, color=colour, label=label, rasterized=True)
        axes.set(xlabel="u (kλ), east →", ylabel="v (kλ), north →", aspect="equal")
        axes.grid(alpha=0.25)
        axes.legend(loc="upper right", markerscale=8 / dot)
    return output


def sky_image(image: Image, output: Path, *, found: Found, cleaned: Cleaned | None = None, file: str = "") -> Path:
    """Image with true right ascension and declination axes, the beam, and found sources circled.

    The scale goes from three standard deviations of the residual below zero to the strongest pixel.

    Parameters
    ----------
    image : Image
        Gives axes and beam.
    output : Path
        PNG file.
    found : Found
        Circled, and numbered as in `source_table`.
    cleaned : Cleaned, optional
        Drawn instead of the dirty image.
    file : str
        Name of the file, for the second line.
    """
    data = image.dirty if cleaned is None else cleaned.restored
    noise = found.noise if cleaned is None else cleaned.noise
    when = image.time.utc.isot[:19].replace("T", " ")
    names = [name for name in (file, image.telescope, image.object) if name]
    line = "  ·  ".join((*names, f"{when} UTC", f"{image.frequency / 1e6:.6g} MHz"))
    title = f"{'Dirty' if cleaned is None else 'CLEAN'} image, Stokes {image.stokes}"
    top = float(np.nanmax(np.abs(data)))
    # In Q, U and V both signs are sources: zero has the middle colour.
    limits = (-3 * noise, top) if image.stokes == "I" else (-top, top)
    with style.figure(output, title, line, (7.6, 7.2)) as drawing:
        axes = drawing.add_subplot(projection=image.wcs)
        colours = style.SKY if image.stokes == "I" else style.SIGNED
        shown = axes.imshow(data, origin="lower", cmap=colours, vmin=limits[0], vmax=limits[1])
        axes.set_facecolor("0.6")  # beyond the horizon
        axes.coords[0].set_axislabel("Right ascension (ICRS)")
        axes.coords[1].set_axislabel("Declination (ICRS)")
        line_colour = "white" if image.stokes == "I" else "black"
        axes.coords.grid(color=line_colour, alpha=0.15)
        if image.beam is not None:
            side = data.shape[0]
            size = (image.beam.major / image.pixel, image.beam.minor / image.pixel)
            angle = 90 + np.degrees(image.beam.angle)
            place = (0.05 * side + size[0] / 2, 0.05 * side + size[0] / 2)
            axes.add_patch(Ellipse(place, *size, angle=angle, facecolor="none", edgecolor=line_colour))
            label = f"beam {_arc(image.beam.major)} × {_arc(image.beam.minor)}"
            axes.annotate(label, place, (8 + size[0], -3), textcoords="offset points", color=line_colour, fontsize=8)
        for k, source in enumerate(found.sources):
            x, y = image.wcs.world_to_pixel(source.position)
            axes.plot(x, y, "o", ms=18, mfc="none", mec="#56B4E9", mew=1.5)
            axes.annotate(str(k + 1), (x, y), (10, 8), textcoords="offset points", color="#56B4E9", fontweight="bold")
        drawing.colorbar(shown, ax=axes, label=f"Flux per beam ({image.units})", shrink=0.85, pad=0.02)
    return output


def source_table(found: Found, units: str) -> Table | str:
    """List found sources with what is certain of each.

    Parameters
    ----------
    found : Found
        Strongest first.
    units : str
        Of fluxes.
    """
    if not found.sources:
        return f"no source stands out · noise {found.noise:.3g} {units}"
    title = f"{len(found.sources)} sources · noise {found.noise:.3g} {units}"
    table = Table(
        title=title.replace("1 sources", "1 source") if len(found.sources) == 1 else title, title_justify="left"
    )
    for name in ("", "position (ICRS)", "±", "flux", "±", "sigma"):
        table.add_column(name, justify="left" if name.startswith("pos") else "right")
    for k, source in enumerate(found.sources):
        table.add_row(
            str(k + 1),
            source.position.to_string("hmsdms", precision=2),
            _arc(source.position_error),
            f"{source.flux:.4g}",
            f"{source.error:.2g}",
            f"{source.significance:.0f}",
        )
    return table


def _arc(angle: float) -> str:
    """Angle in radians as degrees, arcminutes or arcseconds, whichever is of the order of 1 to 100."""
    seconds = float(np.degrees(angle)) * 3600
    if seconds >= 7200:
        return f"{seconds / 3600:.3g}°"
    return f"{seconds / 60:.3g}′" if seconds >= 120 else f"{seconds:.2g}″" if seconds < 10 else f"{seconds:.3g}″"
