"""The pictures of README and tutorial, from what `ryle demo` left behind.

python docs/figures/demo.py demo-output            the demo's
python docs/figures/demo.py --lossy lossy          the loss map of the tutorial's second run
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from astropy.wcs.utils import skycoord_to_pixel
from PIL import Image as Picture

from ryle.engines.demo import FIELD_PIXELS
from ryle.products.clean import clean
from ryle.products.image import make_image
from ryle.products.plots.fringes import delay_spectrum
from ryle.products.plots.source import VisibilityFile
from ryle.products.plots.style import COLOURS
from ryle.products.sources import find_sources

STATIC = Path(__file__).parents[1] / "_static"


def overview(output: Path) -> Path:
    """Images above; fringe phase, lag spectrum and bandpass below."""
    image = make_image(output / "demo.uvh5", pixels=FIELD_PIXELS)
    found = find_sources(image)
    cleaned = clean(image, found, threshold=5.0)
    plt.rcParams.update({"font.size": 9, "axes.titlesize": 10, "axes.titleweight": "bold"})
    drawing = plt.figure(figsize=(8.8, 7.2), layout="constrained")
    grid = drawing.add_gridspec(2, 6, height_ratios=[1.7, 1])

    for column, (title, pixels) in enumerate((("Dirty image", image.dirty), ("After CLEAN", cleaned.restored))):
        axes = drawing.add_subplot(grid[0, 3 * column : 3 * column + 3], projection=image.wcs)
        axes.imshow(pixels, origin="lower", cmap="inferno", interpolation="bicubic")
        axes.coords[0].set_axislabel("Right ascension (ICRS)")
        axes.coords[1].set_axislabel("Declination (ICRS)" if column == 0 else " ")
        axes.coords[1].set_ticklabel_visible(column == 0)
        axes.set_title(title)
        for number, source in enumerate(found.sources, 1):
            x, y = skycoord_to_pixel(source.position, image.wcs)
            axes.plot(x, y, "o", mfc="none", mec="white", ms=13)
            axes.text(x + 6, y + 4, str(number), color="white")

    with VisibilityFile(output / "demo.uvh5") as file:
        frequencies = file.frequencies / 1e6
        a, b = file.baselines(4)[-1]
        xx = file.waterfall(a, b, file.parallel[0])

        axes = drawing.add_subplot(grid[1, :2])
        degrees = np.degrees(np.angle(xx.T))
        extent = (0.0, len(xx) * file.integration_time, frequencies[0], frequencies[-1])
        how = {"cmap": "twilight", "vmin": -180, "vmax": 180, "aspect": "auto", "origin": "lower", "extent": extent}
        shown = axes.imshow(degrees, interpolation="none", **how)
        drawing.colorbar(shown, ax=axes, ticks=[-180, 0, 180], label="phase (°)")
        axes.set(title=f"Fringe phase, {file.baseline_name((a, b))}", xlabel="time (s)", ylabel="sky frequency (MHz)")

        axes = drawing.add_subplot(grid[1, 2:4])
        for colour, pol in zip(COLOURS, file.parallel, strict=False):
            delay, amplitude, _ = delay_spectrum(file.waterfall(a, b, pol), file.channel_width)
            axes.plot(1e6 * delay, amplitude, color=colour, lw=1, label=file.polarizations[pol])
        axes.set(title=f"Lag spectrum, {file.baseline_name((a, b))}", xlabel="delay (µs)", ylabel="amplitude")
        axes.legend(frameon=False)

        axes = drawing.add_subplot(grid[1, 4:])
        for antenna in file.antennas:
            power = np.nanmean(np.abs(file.waterfall(antenna, antenna, file.parallel[0])), axis=0)
            axes.plot(frequencies, 10 * np.log10(power), lw=0.8)
        axes.set(title="Bandpass of all, XX", xlabel="sky frequency (MHz)", ylabel="power (dB)")
    return save(drawing, "demo.png")


def save(drawing: plt.Figure, name: str) -> Path:
    path = STATIC / name
    drawing.savefig(path, dpi=105)
    plt.close(drawing)
    return path


def shrink(source: Path, path: Path, width: int = 1100) -> Path:
    """Write a picture with 256 colours and at most so many pixels across, so that the repository stays small."""
    picture = Picture.open(source).convert("RGB")
    if picture.width > width:
        picture = picture.resize((width, round(picture.height * width / picture.width)), Picture.Resampling.LANCZOS)
    picture.quantize(256).save(path, optimize=True)
    return path


def main() -> None:
    if sys.argv[1] == "--lossy":
        print(shrink(Path(sys.argv[2]) / "loss.png", STATIC / "lossy-loss.png"))
        return
    output = Path(sys.argv[1])
    print(overview(output))
    for name in ("fringes", "lags"):
        print(shrink(output / f"{name}.png", STATIC / f"demo-{name}.png"))


if __name__ == "__main__":
    main()
