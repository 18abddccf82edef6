"""A dirty image of one glance: what the array sees now, of the visibilities averaged over parts of the band."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from astropy.time import Time
from numpy.typing import NDArray

from ryle.config import Observation
from ryle.products.glance import Glance
from ryle.products.gridding import LIGHT, Sampled
from ryle.products.image import blanked
from ryle.products.metadata import ObservationMetadata
from ryle.products.observed import metadata
from ryle.products.projection import project

_HORIZON = 2.0  # direction cosines over which an image may reach


@dataclass(frozen=True)
class Snapshot:
    """A dirty image.

    Parameters
    ----------
    dirty : ndarray of float64, shape (y, x)
        Stokes I per beam, squared steps of quantized spectra; y grows north, x grows west. NaN beyond the horizon.
    pixel : float
        Radians (of direction cosine).
    frequency : float
        Weighted mean, Hz.
    time : astropy.time.Time
        Middle of the integration.
    object : str
        Name of the phase centre, which is pixel ``(side/2, side/2 − 1)``.
    ra, dec : float
        Its place, ICRS, radians.
    """

    dirty: NDArray[np.float64]
    pixel: float
    frequency: float
    time: Time
    object: str
    ra: float
    dec: float


_known: list[tuple[Observation, ObservationMetadata]] = []  # the last one's


def _about(observation: Observation) -> ObservationMetadata:
    """Give what is the same for all glances at an observation."""
    for known, about in _known:
        if known is observation:
            return about
    about = metadata(observation)
    _known[:] = [(observation, about)]
    return about


def snapshot(observation: Observation, glance: Glance, pixels: int = 128, pixel: float | None = None) -> Snapshot:
    """Make a dirty image of a glance's cross-correlations, parallel hands, naturally weighted.

    Parameters
    ----------
    observation : Observation
        That the glance is of.
    glance : Glance
        What is seen.
    pixels : int
        Pixels along each side, even.
    pixel : float, optional
        Radians; a fifth of the wavelength over the longest baseline if absent, or less, so that nothing lies beyond the
        horizon.

    Raises
    ------
    ValueError
        If it cannot be made: nothing is tracked, there is one antenna, or nothing came; says which.
    """
    o, g = observation, glance
    if o.phase_centre is None:
        raise ValueError("there is no image of data that follow no source: give the observation a [phase_centre]")
    if g.antennas < 2:
        raise ValueError("one antenna makes no image")
    if pixels < 16 or pixels % 2:
        raise ValueError(f"pixels is {pixels}; it must be even and at least 16")
    about = _about(o)
    centre = about.phase_centre
    assert centre is not None
    a2, a1 = np.tril_indices(g.antennas, -1)
    numbers = np.array(about.antenna_numbers, np.int64)
    time = about.midpoint(g.first_spectrum, g.integration)
    uvw = project(about, time, numbers[a1], numbers[a2]).uvw
    first = g.pols**2 * (a2 * (a2 + 1) // 2 + a1)
    hands = g.coarse[:, first[:, np.newaxis] + np.arange(g.pols) * (g.pols + 1)].astype(np.complex128)
    there = np.isfinite(hands).all(axis=2).T
    # As files have it: conj(X_a)·X_b of the sky's voltages, which a falling band has conjugated (the files' Stokes I).
    values = hands.mean(axis=2).T * (2.0 if about.pol_convention == "sum" else 1.0)
    values = values if o.sideband_sign < 0 else values.conj()
    share = np.nan_to_num(g.present.astype(np.float64)).reshape(g.antennas, g.pols).min(axis=1)
    weights = np.where(there, np.diff(g.coarse_edges) * (share[a1] * share[a2])[:, np.newaxis], 0.0)
    if not weights.any():
        raise ValueError("no cross-correlation has come; there is nothing to make an image of")
    channels = o.sky_frequencies[g.first_channel : g.first_channel + g.channels]
    frequencies = np.add.reduceat(channels, g.coarse_edges[:-1]) / np.diff(g.coarse_edges)
    longest = np.hypot(uvw[:, 0], uvw[:, 1])[weights.any(axis=1)].max() * frequencies.max() / LIGHT
    if longest == 0:
        raise ValueError("all baselines have length 0 as seen from the source; there is nothing to make an image of")
    step = min(0.2 / longest, _HORIZON / pixels) if pixel is None else pixel
    order = np.argsort(frequencies)
    sampled = Sampled(
        np.ascontiguousarray(uvw),
        np.ascontiguousarray(frequencies[order]),
        np.ascontiguousarray(np.where(weights > 0, values, 0)[:, order]),
        np.ascontiguousarray(weights[:, order]),
        step,
        threads=1,
    )
    return Snapshot(
        dirty=blanked(sampled.dirty(sampled.values, pixels), step),
        pixel=step,
        frequency=float((weights.sum(axis=0) * frequencies).sum() / weights.sum()),
        time=time,
        object=centre.name,
        ra=centre.ra,
        dec=centre.dec,
    )
