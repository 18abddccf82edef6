"""Where on the uv plane, and what the sky looks like."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from astropy.visualization import AsymmetricPercentileInterval
from matplotlib.patches import Ellipse
from numpy.typing import NDArray

from ryle.products.clean import FoundSource
from ryle.products.image import Image
from ryle.products.plots import style
from ryle.products.plots.source import VisibilityFile

_LIGHT = 299792458.0


def uv_coverage(file: VisibilityFile, output: Path) -> Path:
    """Tracks in wavelengths at the lowest, middle and highest channel, both halves of the plane."""
    cross = file.antenna_1 != file.antenna_2
    u, v = file.uvw[cross, 0], file.uvw[cross, 1]
    step = -(-len(u) // 200_000)
    frequencies = file.frequencies
    with style.figure(output, "uv coverage", file.subtitle, (7.2, 7.2)) as drawing:
        axes = style.grid(drawing, 1, 1)[0, 0]
        picks = sorted({0, len(frequencies) // 2, len(frequencies) - 1})
        for frequency, colour in zip(frequencies[picks], style.COLOURS, strict=False):
            for sign in (1, -1):
                scale = sign * frequency / _LIGHT / 1e3
                label = f"{frequency / 1e6:.6g} MHz" if sign > 0 else None
                axes.plot(u[::step] * scale, v[::step] * scale, ".", ms=2, color=colour, label=label, rasterized=True)
        axes.set(xlabel="u (kλ), east →", ylabel="v (kλ), north →", aspect="equal")
        axes.grid(alpha=0.25)
        axes.legend(loc="upper right", markerscale=4)
    return output


def sky_image(
    image: Image,
    output: Path,
    *,
    pixels: NDArray[np.float64] | None = None,
    sources: list[FoundSource] | None = None,
    title: str = "",
    subtitle: str = "",
) -> Path:
    """Image with true right ascension and declination axes, the beam, and found sources circled.

    Parameters
    ----------
    image : Image
        Gives axes and beam.
    output : Path
        PNG file.
    pixels : ndarray of float64, shape (y, x), optional
        What to draw, a restored image for example; default ``image.dirty``.
    sources : list of FoundSource, optional
        Circled.
    title, subtitle : str
        Default: dirty image, telescope, object, time and frequency.
    """
    data = image.dirty if pixels is None else pixels
    low, high = AsymmetricPercentileInterval(0.5, 100).get_limits(data)
    what = title or f"Dirty image Stokes {image.stokes}"
    when = image.time.utc.isot[:19].replace("T", " ")
    line = subtitle or f"{image.telescope}  ·  {image.object}  ·  {when} UTC  ·  {image.frequency / 1e6:.6g} MHz"
    with style.figure(output, what, line, (7.6, 7.2)) as drawing:
        axes = drawing.add_subplot(projection=image.wcs)
        shown = axes.imshow(data, origin="lower", cmap="inferno", vmin=low, vmax=high)
        axes.coords[0].set_axislabel("Right ascension (ICRS)")
        axes.coords[1].set_axislabel("Declination (ICRS)")
        axes.coords.grid(color="white", alpha=0.15)
        if image.beam is not None:
            side = data.shape[0]
            beam = Ellipse(
                (0.07 * side, 0.07 * side),
                image.beam.major / image.pixel,
                image.beam.minor / image.pixel,
                angle=90 + np.degrees(image.beam.angle),
                facecolor="none",
                edgecolor="white",
            )
            axes.add_patch(beam)
        for k, source in enumerate(sources or []):
            x, y = image.wcs.world_to_pixel(source.position)
            axes.plot(x, y, "o", ms=14, mfc="none", mec="#56B4E9")
            axes.annotate(str(k + 1), (x, y), (9, 7), textcoords="offset points", color="#56B4E9")
        drawing.colorbar(shown, ax=axes, label="Flux per beam (file's units)", shrink=0.85, pad=0.02)
    return output
