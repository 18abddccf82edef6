"""Högbom's CLEAN, and the image restored with a beam without side lobes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.products.image import Beam, Image
from ryle.products.sources import Found, robust_deviation


@dataclass(frozen=True)
class Cleaned:
    """Result of `clean`.

    Parameters
    ----------
    restored : ndarray of float64, shape (y, x)
        Sources and components convolved with the Gaussian beam, plus `residual`. NaN beyond the horizon.
    residual : ndarray of float64, shape (y, x)
        Dirty image minus the answer to sources and components.
    components : ndarray of float64, shape (y, x)
        Flux of the point components.
    iterations : int
        Components subtracted.
    noise : float
        Robust standard deviation of `residual`.
    """

    restored: NDArray[np.float64]
    residual: NDArray[np.float64]
    components: NDArray[np.float64]
    iterations: int
    noise: float


def clean(
    image: Image, found: Found | None = None, *, gain: float = 0.1, iterations: int = 2000, threshold: float = 3.0
) -> Cleaned:
    """Subtract the answer to point sources, strongest first (Högbom 1974).

    With the beam that made the image, the residual becomes ever weaker. With another one, as far from the centre of a
    wide field, it may grow: the loop ends when its peak is 1.5 times the least so far. Whatever the beam, what comes
    back is the state of the least peak of all those passed through, so

    - the residual's peak (largest magnitude) is at most the dirty image's, to rounding;
    - dirty image = residual + components ∗ point-spread function, to rounding;
    - each component taken is less than 1.5 × `gain` × the dirty image's peak.

    Nothing bounds the restored image but these: where a wrong beam makes many components lie together, it may be
    stronger than the dirty one.

    Parameters
    ----------
    image : Image
        Dirty image and point-spread function.
    found : Found, optional
        Point sources, which are taken out first, exactly; what is said of the dirty image is then said of what they
        leave of it.
    gain : float
        Fraction of the peak taken at a time, 0 to 1.
    iterations : int
        At most so many components.
    threshold : float
        Stop when the peak is at most so many times the residual's robust standard deviation, or less than a
        thousandth of the dirty image's.

    Returns
    -------
    Cleaned
        Restored image, residual and components.

    Raises
    ------
    ValueError
        If the image has no beam to restore with.
    """
    if image.beam is None:
        raise ValueError(
            "the image has no elliptical beam (see its notes), so it cannot be restored; use more antennas or time"
        )
    blank = np.isnan(image.dirty)
    residual = np.where(blank, 0, image.dirty if found is None else found.residual)
    height, width = residual.shape

    def answer(y: int, x: int) -> NDArray[np.float64]:
        return image.psf[height - y : 2 * height - y, width - x : 2 * width - x]

    least = 1e-3 * float(np.nanmax(np.abs(image.dirty)))
    taken: list[tuple[int, int, float]] = []
    noise, best, kept = 0.0, np.inf, 0
    while True:
        magnitude = np.abs(residual)
        y, x = divmod(int(magnitude.argmax()), width)
        peak = float(magnitude[y, x])
        if peak < best:
            best, kept = peak, len(taken)
        if len(taken) % 10 == 0:
            noise = robust_deviation(residual[~blank])
        if len(taken) >= iterations or peak <= threshold * noise or peak < least or peak >= 1.5 * best:
            break
        flux = gain * float(residual[y, x])
        residual -= flux * answer(y, x)
        taken.append((y, x, flux))
    for y, x, flux in taken[kept:]:  # back to the best state
        residual += flux * answer(y, x)
    components = np.zeros_like(residual)
    for y, x, flux in taken[:kept]:
        components[y, x] += flux
    restored = residual + _convolved(components, image.beam, image.pixel)
    for flux, *direction in np.zeros((0, 3)) if found is None else found.parameters:
        restored += flux * _lobe(image, image.beam, *image.place(*direction))
    residual[blank] = restored[blank] = np.nan
    return Cleaned(restored, residual, components, kept, robust_deviation(residual))


def _lobe(image: Image, beam: Beam, y: float, x: float) -> NDArray[np.float64]:
    """Gaussian of peak 1 about a place between pixels."""
    height, width = image.dirty.shape
    return _gaussian(beam, (np.arange(height) - y)[:, np.newaxis], (np.arange(width) - x)[np.newaxis], image.pixel)


def _gaussian(beam: Beam, y: NDArray[Any], x: NDArray[Any], pixel: float) -> NDArray[np.float64]:
    """Beam at pixels from its middle; y grows north, x west."""
    north, east = y * pixel, -x * pixel
    along = east * np.sin(beam.angle) + north * np.cos(beam.angle)
    across = east * np.cos(beam.angle) - north * np.sin(beam.angle)
    return np.asarray(np.exp(-4 * np.log(2) * ((along / beam.major) ** 2 + (across / beam.minor) ** 2)))


def _convolved(components: NDArray[np.float64], beam: Beam, pixel: float) -> NDArray[np.float64]:
    """Convolve with a unit-peak Gaussian, through its Fourier transform on a doubled grid."""
    height, width = components.shape
    y, x = np.meshgrid(
        np.fft.fftfreq(2 * height, 1 / (2 * height)), np.fft.fftfreq(2 * width, 1 / (2 * width)), indexing="ij"
    )
    gaussian = _gaussian(beam, y, x, pixel)
    padded = np.zeros((2 * height, 2 * width))
    padded[:height, :width] = components
    result: NDArray[np.float64] = np.fft.irfft2(np.fft.rfft2(padded) * np.fft.rfft2(gaussian), padded.shape)
    return result[:height, :width]
