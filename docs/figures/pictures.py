"""The pictures of "Reading the pictures", as small files, and as the colour-blind see them.

python docs/figures/pictures.py demo-output                   into docs/_static/pictures
python docs/figures/pictures.py demo-output --seen DIRECTORY   each with red-blind and green-blind vision, to be looked at
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image as Picture

STATIC = Path(__file__).parents[1] / "_static" / "pictures"
NAMES = ("dirty", "image", "bandpass", "waterfall", "lags", "matrix", "uv", "adc", "loss", "fringes", "closure")
#: Machado, Oliveira & Fernandes (2009), severity 1, on linear RGB.
VISION = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
}


def small(source: Path, target: Path, width: int = 620) -> Path:
    """Write a picture that is at most so wide, in 256 colours: of fewer, thin lines would share some."""
    picture = Picture.open(source).convert("RGB")
    picture.thumbnail((width, width), Picture.Resampling.LANCZOS)
    picture.quantize(256).save(target, optimize=True)
    return target


def seen(picture: Picture.Image, vision: str) -> Picture.Image:
    """Turn a picture's colours into those that a vision tells apart."""
    value = np.asarray(picture.convert("RGB"), np.float64) / 255
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    turned = np.clip(linear @ np.array(VISION[vision]).T, 0, 1)
    back = np.where(turned <= 0.0031308, 12.92 * turned, 1.055 * turned ** (1 / 2.4) - 0.055)
    return Picture.fromarray(np.round(255 * back).astype(np.uint8))


def main() -> None:
    output = Path(sys.argv[1])
    for name in NAMES:
        source = output / f"{name}.png"
        if len(sys.argv) == 4:
            for vision in VISION:
                seen(Picture.open(source), vision).save(Path(sys.argv[3]) / f"{name}-{vision}.png")
        else:
            print(small(source, STATIC / f"{name}.png"))


if __name__ == "__main__":
    main()
