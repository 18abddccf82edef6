"""Högbom's CLEAN, and the positions of the sources it finds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from astropy.coordinates import SkyCoord
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter

from ryle.products.image import Beam, Image


@dataclass(frozen=True)
class Cleaned:
    """Result of `clean`.

    Parameters
    ----------
    restored : ndarray of float64, shape (y, x)
        Components convolved with the Gaussian beam, plus `residual`.
    residual : ndarray of float64, shape (y, x)
        Dirty image minus the components' answer.
    components : ndarray of float64, shape (y, x)
        Flux of the point components.
    iterations : int
        Components subtracted.
    """

    restored: NDArray[np.float64]
    residual: NDArray[np.float64]
    components: NDArray[np.float64]
    iterations: int


@dataclass(frozen=True)
class FoundSource:
    """One source.

    Parameters
    ----------
    position : astropy.coordinates.SkyCoord
        ICRS.
    flux : float
        Peak of the restored image, in units of the file.
    """

    position: SkyCoord
    flux: float


def clean(image: Image, *, gain: float = 0.1, iterations: int = 2000, threshold: float = 3.0) -> Cleaned:
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
    residual = image.dirty.copy()
    height, width = residual.shape

    def answer(y: int, x: int) -> NDArray[np.float64]:
        return image.psf[height - y : 2 * height - y, width - x : 2 * width - x]

    least = 1e-3 * float(np.abs(residual).max())
    taken: list[tuple[int, int, float]] = []
    noise, best, kept = 0.0, np.inf, 0
    while True:
        magnitude = np.abs(residual)
        y, x = divmod(int(magnitude.argmax()), width)
        peak = float(magnitude[y, x])
        if peak < best:
            best, kept = peak, len(taken)
        if len(taken) % 10 == 0:
            noise = 1.4826 * float(np.median(magnitude))
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
    return Cleaned(restored, residual, components, kept)


def find_sources(
    image: Image, cleaned: Cleaned | None = None, *, most: int = 10, threshold: float = 6.0
) -> list[FoundSource]:
    """Positive peaks of the restored image, to a fraction of a pixel, strongest first.

    Parameters
    ----------
    image : Image
        Dirty image.
    cleaned : Cleaned, optional
        Default: ``clean(image)``.
    most : int
        At most so many.
    threshold : float
        Least peak in robust standard deviations of the residual; and never less than 2 % of the strongest.

    Returns
    -------
    list of FoundSource
        No two closer than a beam.
    """
    cleaned = clean(image) if cleaned is None else cleaned
    assert image.beam is not None
    restored = cleaned.restored
    reach = max(3, round(image.beam.major / image.pixel)) | 1
    floor = max(threshold * 1.4826 * float(np.median(np.abs(cleaned.residual))), 0.02 * float(restored.max()))
    y, x = np.nonzero((restored == maximum_filter(restored, reach)) & (restored > floor))
    inside = (y > 0) & (y < restored.shape[0] - 1) & (x > 0) & (x < restored.shape[1] - 1)
    order = np.argsort(-restored[y, x])
    found = []
    for k in order[inside[order]][:most]:
        dy, dx, peak = _peak(restored[y[k] - 1 : y[k] + 2, x[k] - 1 : x[k] + 2])
        found.append(FoundSource(image.wcs.pixel_to_world(x[k] + dx, y[k] + dy), peak))
    return found


def _peak(patch: NDArray[np.float64]) -> tuple[float, float, float]:
    """Offset (y, x) and height of the maximum of a quadratic through 3 × 3 logarithms, exact for a Gaussian."""
    y, x = np.mgrid[-1:2, -1:2].reshape(2, 9)
    logs = np.log(np.maximum(patch, patch.max() * 1e-3)).ravel()
    terms = np.stack([np.ones(9), y, x, y * y, x * y, x * x], axis=-1)
    c, gy, gx, yy, xy, xx = np.linalg.lstsq(terms, logs, rcond=None)[0]
    hessian = np.array([[2 * yy, xy], [xy, 2 * xx]])
    if np.linalg.eigvalsh(hessian)[1] >= 0:
        return 0.0, 0.0, float(patch[1, 1])
    dy, dx = np.clip(-np.linalg.solve(hessian, [gy, gx]), -1, 1)
    return float(dy), float(dx), float(np.exp(c + 0.5 * (gy * dy + gx * dx)))


def _convolved(components: NDArray[np.float64], beam: Beam, pixel: float) -> NDArray[np.float64]:
    """Convolve with a unit-peak Gaussian, through its Fourier transform on a doubled grid."""
    height, width = components.shape
    y, x = np.meshgrid(
        np.fft.fftfreq(2 * height, 1 / (2 * height)), np.fft.fftfreq(2 * width, 1 / (2 * width)), indexing="ij"
    )
    north, east = y * pixel, -x * pixel
    along = east * np.sin(beam.angle) + north * np.cos(beam.angle)
    across = east * np.cos(beam.angle) - north * np.sin(beam.angle)
    gaussian = np.exp(-4 * np.log(2) * ((along / beam.major) ** 2 + (across / beam.minor) ** 2))
    padded = np.zeros((2 * height, 2 * width))
    padded[:height, :width] = components
    result: NDArray[np.float64] = np.fft.irfft2(np.fft.rfft2(padded) * np.fft.rfft2(gaussian), padded.shape)
    return result[:height, :width]
