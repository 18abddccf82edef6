"""Dirty images: multi-frequency synthesis, in true right ascension and declination."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from astropy import units
from astropy.coordinates import SkyCoord
from astropy.io import fits
from astropy.time import Time
from astropy.wcs import WCS
from numpy.typing import NDArray
from pyuvdata import UVData
from scipy.ndimage import label

import ryle.array.earth  # noqa: F401  keeps astropy off the network
from ryle.products.export import phase_if_unprojected
from ryle.products.gridding import LIGHT, Sampled
from ryle.products.readable import reading
from ryle.products.stokes import Stokes, phase_centre, stokes

Weighting = Literal["natural", "uniform", "robust"]


@dataclass(frozen=True)
class Beam:
    """Elliptical Gaussian fitted to the main lobe of the point-spread function.

    Parameters
    ----------
    major, minor : float
        Full widths at half maximum, radians.
    angle : float
        Position angle of the major axis from north through east, radians, in [0, π).
    """

    major: float
    minor: float
    angle: float


@dataclass(frozen=True)
class Image:
    """A dirty image and what is needed to read it.

    Parameters
    ----------
    dirty : ndarray of float64, shape (y, x)
        Flux per beam in units of the file; y grows north, x grows west. NaN beyond the horizon.
    psf : ndarray of float64, shape (2y, 2x)
        Answer to a unit source at the phase centre, 1 at pixel ``(y, x)``; twice as large as the image each way.
    wcs : astropy.wcs.WCS
        Pixel ↔ ICRS, SIN projection.
    beam : Beam or None
        Fitted to `psf`; None if it has no elliptical main lobe, as for two antennas.
    pixel : float
        Pixel size in radians (of direction cosine).
    stokes : str
        Which parameter.
    frequency : float
        Weighted mean frequency in hertz.
    time : astropy.time.Time
        Middle of the observation.
    telescope, object : str
        Names.
    units : str
        Of fluxes: ``"correlator units"``, ``"Jy"`` or ``"K str"``.
    baselines : int
        Pairs of antennas.
    sampled : Sampled
        The visibilities that it was made from.
    notes : tuple of str
        What the user should be told.
    """

    dirty: NDArray[np.float64]
    psf: NDArray[np.float64]
    wcs: WCS
    beam: Beam | None
    pixel: float
    stokes: Stokes
    frequency: float
    time: Time
    telescope: str
    object: str
    units: str
    baselines: int
    sampled: Sampled
    notes: tuple[str, ...]

    def direction(self, y: float, x: float) -> tuple[float, float]:
        """Direction cosines l (east), m (north) of a pixel's middle."""
        side = self.dirty.shape[0]
        return (side // 2 - 1 - x) * self.pixel, (y - side // 2) * self.pixel

    def place(self, east: float, north: float) -> tuple[float, float]:
        """Pixel (y, x) of direction cosines, the inverse of `direction`."""
        side = self.dirty.shape[0]
        return north / self.pixel + side // 2, side // 2 - 1 - east / self.pixel

    def side_lobe(self, beam: Beam) -> float:
        """Height of the point-spread function's highest side lobe: all that is farther from its middle than a beam."""
        cy, cx = self.psf.shape[0] // 2, self.psf.shape[1] // 2
        y, x = np.ogrid[: self.psf.shape[0], : self.psf.shape[1]]
        return float(self.psf[np.hypot(y - cy, x - cx) * self.pixel > beam.major].max(initial=0))

    def blanked(self, plane: NDArray[np.float64]) -> NDArray[np.float64]:
        """Put NaN where the field reaches beyond the horizon of the phase centre."""
        return blanked(plane, self.pixel)

    def write_fits(
        self, path: str | Path, *, plane: NDArray[np.float64] | None = None, overwrite: bool = False
    ) -> Path:
        """Write the image as FITS with celestial axes, beam and units.

        Parameters
        ----------
        path : str or Path
            File to write.
        plane : ndarray of float64, shape (y, x), optional
            What to write, a restored image for example; default `dirty`.
        overwrite : bool
            Replace an existing file.

        Returns
        -------
        Path
            The file.
        """
        header = self.wcs.to_header()
        header["BUNIT"] = f"{self.units}/beam" if self.units == "Jy" else f"beam-1 {self.units}"
        if self.beam is not None:
            header["BMAJ"], header["BMIN"] = np.rad2deg(self.beam.major), np.rad2deg(self.beam.minor)
            header["BPA"] = np.rad2deg(self.beam.angle)
        header["TELESCOP"], header["OBJECT"] = self.telescope, self.object
        header["DATE-OBS"] = self.time.utc.isot
        header["RESTFRQ"] = (self.frequency, "Hz, weighted mean")
        header["STOKES"] = self.stokes
        data = self.dirty if plane is None else plane
        fits.PrimaryHDU(data.astype(np.float32), header).writeto(path, overwrite=overwrite)
        return Path(path)


def read_visibilities(path: str | Path) -> tuple[UVData, tuple[str, ...]]:
    """Read UVH5, MS or any other file pyuvdata knows, phased to one centre.

    Parameters
    ----------
    path : str or Path
        File.

    Returns
    -------
    data : pyuvdata.UVData
        Visibilities conj(X_a)·X_b, uvw = r_b − r_a, whatever the file.
    notes : tuple of str
        Where data that follow no source were phased to.
    """
    data = UVData()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with reading(Path(path)):
            data.read(str(path))
        notes = phase_if_unprojected(data)
    return data, tuple(notes)


def make_image(
    source: str | Path | UVData,
    *,
    pixels: int | None = None,
    pixel: float | None = None,
    parameter: Stokes = "I",
    weighting: Weighting = "natural",
    robust: float = 0.0,
    threads: int = 2,
) -> Image:
    """Dirty image of all unflagged cross-correlations over all channels and times.

    Parameters
    ----------
    source : path or pyuvdata.UVData
        Visibilities with a phase centre; a file without one is phased to the zenith at mid-file.
    pixels : int, optional
        Pixels along each side, even. Default 512.
    pixel : float, optional
        Radians. Default: a fifth of the wavelength over the longest baseline.
    parameter : {"I", "Q", "U", "V"}
        Stokes parameter.
    weighting : {"natural", "uniform", "robust"}
        Natural: by valid integration time. Uniform: each cell of the uv plane counts the same. Robust: between them
        (Briggs 1995).
    robust : float
        Briggs' parameter, −2 (nearly uniform) to 2 (nearly natural).
    threads : int
        For the gridder.

    Returns
    -------
    Image
        With point-spread function and fitted beam.

    Raises
    ------
    ValueError
        If the data cannot be imaged: no phase centre, no unflagged cross-correlation, products missing.
    """
    notes: tuple[str, ...] = ()
    if isinstance(source, UVData):
        data = source
    else:
        data, notes = read_visibilities(source)
    pixels = 512 if pixels is None else pixels
    if pixels < 16 or pixels % 2:
        raise ValueError(f"pixels is {pixels}; it must be even and at least 16")
    centre = phase_centre(data)
    cross = data.ant_1_array != data.ant_2_array
    values, weights = stokes(data, parameter)
    values, uvw = values[cross], np.ascontiguousarray(data.uvw_array[cross], np.float64)
    weights = weights[cross] * np.asarray(data.integration_time)[cross, np.newaxis]
    if not weights.any():
        raise ValueError("every cross-correlation is flagged; there is nothing to image")
    frequencies = np.ascontiguousarray(data.freq_array, np.float64)
    longest = np.hypot(uvw[:, 0], uvw[:, 1])[weights.any(axis=1)].max() * frequencies.max() / LIGHT
    if longest == 0:
        raise ValueError("all baselines have length 0 as seen from the source; there is nothing to image")
    size = 0.2 / longest if pixel is None else pixel
    if pixels * size > 2:
        raise ValueError(f"{pixels} pixels of {size:.3g} rad reach beyond the horizon; take fewer or smaller ones")
    if weighting != "natural":
        weights = _reweighted(uvw, frequencies, weights, pixels * size, weighting, robust)

    sampled = Sampled(uvw, frequencies, np.ascontiguousarray(np.where(weights > 0, values, 0)), weights, size, threads)
    dirty = blanked(sampled.dirty(sampled.values, pixels), size)
    wide = 2 * pixels if 2 * pixels * size <= 2 else pixels
    psf = sampled.dirty(np.ones(values.shape, np.complex128), wide)
    # Reversed, the centre of an even side is one pixel to the left of the middle; put it on the middle again.
    psf = np.roll(psf, 1, axis=1)
    psf = np.pad(psf, pixels - wide // 2) if wide < 2 * pixels else psf
    beam: Beam | None = None
    try:
        beam = fit_beam(psf, size)
    except ValueError as error:
        notes = (*notes, str(error))
    return Image(
        dirty=dirty,
        psf=psf,
        wcs=_wcs(centre, pixels, size),
        beam=beam,
        pixel=size,
        stokes=parameter,
        frequency=float((weights.sum(axis=0) * frequencies).sum() / weights.sum()),
        time=Time((data.time_array.min() + data.time_array.max()) / 2, format="jd"),
        telescope=str(data.telescope.name),
        object=str(data.phase_center_catalog[int(data.phase_center_id_array[0])]["cat_name"]),
        units="correlator units" if data.vis_units in ("uncalib", "UNCALIB") else str(data.vis_units),
        baselines=len(np.unique(np.stack([data.ant_1_array, data.ant_2_array])[:, cross], axis=1).T),
        sampled=sampled,
        notes=notes,
    )


def blanked(plane: NDArray[np.float64], pixel: float) -> NDArray[np.float64]:
    """Put NaN in pixels beyond the horizon, where l² + m² reaches 1; others stay.

    Parameters
    ----------
    plane : ndarray of float64, shape (y, x)
        Square image, its middle as `Image` has it.
    pixel : float
        Radians.
    """
    side = plane.shape[0]
    offset = (np.arange(side) - side // 2) * pixel
    below = (offset[np.newaxis] + pixel) ** 2 + offset[:, np.newaxis] ** 2 >= 1
    return np.where(below, np.nan, plane) if below.any() else plane


def fit_beam(psf: NDArray[np.float64], pixel: float) -> Beam:
    """Elliptical Gaussian through the main lobe, by least squares on its logarithm above 0.4.

    Parameters
    ----------
    psf : ndarray of float64, shape (y, x)
        Point-spread function, 1 at its middle pixel ``(y//2, x//2)``, north up, east left.
    pixel : float
        Radians.

    Returns
    -------
    Beam
        Full widths at half maximum.

    Raises
    ------
    ValueError
        If the lobe is not resolved by the pixels or has no maximum at the middle.
    """
    cy, cx = psf.shape[0] // 2, psf.shape[1] // 2
    lobe = _lobe(psf, cy, cx, 0.4)
    if lobe[0].size < 6:
        raise ValueError(f"the beam covers {lobe[0].size} pixels of {pixel:.3g} rad; take smaller pixels to fit it")
    north, east = (lobe[0] - cy) * pixel, -(lobe[1] - cx) * pixel
    height = psf[lobe]
    terms = np.stack([east**2, 2 * east * north, north**2], axis=-1)
    a, b, c = np.linalg.lstsq(terms * height[:, np.newaxis], np.log(height) * height, rcond=None)[0]
    values, vectors = np.linalg.eigh(-np.array([[a, b], [b, c]]))
    if values[0] <= 0:
        raise ValueError("the point-spread function has no elliptical main lobe; the uv coverage is a line: no beam")
    major, minor = 2 * np.sqrt(np.log(2) / values)  # smallest curvature first: the major axis
    return Beam(float(major), float(minor), float(np.arctan2(vectors[0, 0], vectors[1, 0]) % np.pi))


def _lobe(psf: NDArray[np.float64], cy: int, cx: int, level: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pixels above a level that hang together with the middle one."""
    marked, _ = label(psf > level * psf[cy, cx])
    y, x = np.nonzero(marked == marked[cy, cx])
    return y, x


def _reweighted(
    uvw: NDArray[np.float64],
    frequencies: NDArray[np.float64],
    weights: NDArray[np.float64],
    field: float,
    weighting: Weighting,
    robust: float,
) -> NDArray[np.float64]:
    """Divide weights by the weight in their uv cell (1/field wide), wholly or in Briggs' measure."""
    u, v = (uvw[:, axis, np.newaxis] * frequencies / LIGHT * field for axis in (0, 1))
    conjugate = (v < 0) | ((v == 0) & (u < 0))
    x = np.rint(np.where(conjugate, -u, u)).astype(np.int64)
    y = np.rint(np.where(conjugate, -v, v)).astype(np.int64)
    _, cell = np.unique(np.stack([x.ravel(), y.ravel()]), axis=1, return_inverse=True)
    cell = cell.ravel()
    total = np.bincount(cell, weights.ravel())
    density = total[cell].reshape(weights.shape)
    if weighting == "uniform":
        return np.where(weights > 0, weights / np.where(density > 0, density, 1), 0)
    f2 = (5 * 10.0**-robust) ** 2 / ((total**2).sum() / weights.sum())
    return np.asarray(weights / (1 + density * f2))


def _wcs(centre: SkyCoord, pixels: int, size: float) -> WCS:
    wcs = WCS(naxis=2)
    wcs.wcs.ctype = ["RA---SIN", "DEC--SIN"]
    wcs.wcs.cunit = ["deg", "deg"]
    wcs.wcs.crval = [centre.ra.to_value(units.deg), centre.dec.to_value(units.deg)]
    wcs.wcs.cdelt = [-np.rad2deg(size), np.rad2deg(size)]
    wcs.wcs.crpix = [pixels - pixels // 2, pixels // 2 + 1]  # FITS counts from 1
    wcs.wcs.radesys = "ICRS"
    return wcs
