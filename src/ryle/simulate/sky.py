"""Point sources: where they are, what their polarized light is in the feeds, and the visibilities they make.

Polarization is the IAU's (Hamaker & Bregman 1996, A&AS 117, 161): with phases that turn as e^{+jωt} and field
components north and east, ``<E_N E_N*> = (I+Q)/2``, ``<E_E E_E*> = (I−Q)/2``, ``<E_N E_E*> = (U+jV)/2``; V > 0 is
right-hand circular.

Feeds are ideal, without a beam: every source is received in full whatever its direction, zero below the horizon.
A linear feed of angle ψ points to position angle χ + ψ on the sky (north through east); circular ones are
``r = (N + jE)/√2 · e^{−j(χ+ψ)}`` and ``l = (N − jE)/√2 · e^{j(χ+ψ)}``. So with χ = 0 and the default angles,
x at 90° and y at 0, XX = (I−Q)/2, YY = (I+Q)/2, XY = (U−jV)/2; of r and l at 0, RR = (I+V)/2, LL = (I−V)/2,
RL = (Q+jU)/2. χ follows from the mount:

==========  ===========================================================================================
alt-az      position angle of the zenith at the source (the parallactic angle): ψ = 0 is vertical
equatorial  0: feeds are fixed to the sky
fixed       dipoles over ground, ψ = 0 north, seen off zenith without foreshortening (Ludwig's third
            definition, 1973, IEEE Trans. AP-21, 116)
==========  ===========================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from astropy.time import Time
from numpy.typing import ArrayLike, NDArray

from ryle.array.direction import Sidereal
from ryle.array.observed import antennas, phase_centre, sync_time
from ryle.array.tracking import SPEED_OF_LIGHT
from ryle.config import Observation
from ryle.config.simulation import SourceTable

Mount = Literal["alt-az", "equatorial", "fixed"]

#: Seconds between the instants at which directions are computed in full; a cubic through four of them errs by less
#: than 1e-14 rad, because directions turn by 7e-4 rad in that time.
_NODE_STEP = 10


def feed_matrix(feeds: Sequence[str], angles: ArrayLike) -> NDArray[np.complex128]:
    """Response of ideal feeds to the field's east and north components.

    Parameters
    ----------
    feeds : sequence of str
        Any of x, y, r, l.
    angles : array of float, shape (..., feed)
        Position angle χ + ψ of each feed on the sky, radians; see the module's head.

    Returns
    -------
    ndarray of complex128, shape (..., feed, 2)
    """
    psi = np.asarray(angles, np.float64)
    linear = np.stack([np.sin(psi), np.cos(psi)], -1)
    # Of jE, by which a circular feed's answer to east leads that to north; 0 marks linear ones.
    hand = np.array([{"r": 1, "l": -1}.get(feed, 0) for feed in feeds])[:, np.newaxis]
    circular = np.exp(-1j * hand * psi[..., np.newaxis]) * np.concatenate([1j * hand, np.ones_like(hand)], -1)
    return np.where(hand == 0, linear, circular / np.sqrt(2))


def coherency(source: SourceTable, frequency: ArrayLike, reference_frequency: float) -> NDArray[np.complex128]:
    """Coherency of the field's east and north components, Jy: (I−Q)/2 east, (I+Q)/2 north.

    Parameters
    ----------
    source : SourceTable
        Stokes parameters and spectral index.
    frequency : array of float
        Hz.
    reference_frequency : float
        Hz, where the flux holds if the source does not say so itself.

    Returns
    -------
    ndarray of complex128, shape (..., 2, 2)
    """
    i, q, u, v = source.flux, source.q, source.u, source.v
    east_north = 0.5 * np.array([[i - q, u - 1j * v], [u + 1j * v, i + q]])
    spectrum = (
        np.asarray(frequency, np.float64) / (source.reference_frequency or reference_frequency)
    ) ** source.spectral_index
    return np.asarray(spectrum[..., None, None] * east_north)


class Sky:
    """The sources of an observation above its array.

    Parameters
    ----------
    observation : Observation
        With a ``[simulate]`` table.
    mount : str, optional
        How feeds turn on the sky, instead of the observation's ``array.mount``; see the module's head.

    Raises
    ------
    ValueError
        If there is no ``[simulate]`` table or the mount is not known.
    """

    def __init__(self, observation: Observation, mount: Mount | None = None) -> None:
        if observation.simulate is None:
            raise ValueError(f"{observation.source} has no [simulate] table; add one to simulate this observation")
        mount = mount or observation.array.mount
        if mount not in get_args(Mount):
            raise ValueError(f"mount {mount!r} is not known; use one of {', '.join(get_args(Mount))}")
        self.sources = observation.simulate.sources
        self.feeds = observation.array.polarizations
        #: Angle ψ of every feed, shape (antenna, feed), radians.
        self.feed_angles = np.radians(observation.feed_angles)
        self.mount = mount
        self.reference_frequency = observation.centre_frequency
        self.sync = sync_time(observation)
        self.location = antennas(observation).location
        #: Antenna positions relative to the reference point along ITRF axes, light seconds, shape (antenna, 3).
        self.offsets = self.location.enu_to_offsets(antennas(observation).enu) / SPEED_OF_LIGHT
        self.phase_centre = phase_centre(observation)
        self._directions = [Sidereal(s.ra % 360, s.dec) for s in self.sources]
        self._node_step = round(_NODE_STEP * self.sync.sample_rate)
        self._node = lru_cache(maxsize=64)(self._compute_node)

    def axes(self, times: Time) -> NDArray[np.float64]:
        """Return unit vectors east, north (on the sky) and towards each source, ITRF, shape (time, source, 3, 3)."""
        if not self._directions:
            return np.zeros((times.size, 0, 3, 3))
        return np.stack([d.axes(self.location, times.ravel()) for d in self._directions], axis=1)

    def axes_at(self, count: float) -> NDArray[np.float64]:
        """`axes` at one sample count, shape (source, 3, 3), by interpolation between nodes at fixed counts."""
        index = int(count // self._node_step)
        x = count / self._node_step - index
        weights = (
            -x * (x - 1) * (x - 2) / 6,
            (x + 1) * (x - 1) * (x - 2) / 2,
            -(x + 1) * x * (x - 2) / 2,
            (x + 1) * x * (x - 1) / 6,
        )
        return np.asarray(sum(w * self._node(index + i - 1) for i, w in enumerate(weights)))

    def _compute_node(self, index: int) -> NDArray[np.float64]:
        return np.asarray(self.axes(self.sync.time(np.array([index * self._node_step])))[0])

    def delays(self, axes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Geometric delays ``r·ŝ/c`` in seconds, shape (..., source, antenna)."""
        return np.asarray(axes[..., 2, :] @ self.offsets.T)

    def visible(self, axes: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which sources are above the horizon, shape (..., source)."""
        return np.asarray(axes[..., 2, :] @ self.location.enu_basis[2] > 0)

    def rotation(self, axes: NDArray[np.float64]) -> NDArray[np.float64]:
        """χ of each source in radians, shape (..., source)."""
        east, north, up = self.location.enu_basis
        if self.mount == "equatorial":
            return np.zeros(axes.shape[:-2])
        parallactic = np.arctan2(axes[..., 0, :] @ up, axes[..., 1, :] @ up)
        if self.mount == "alt-az":
            return np.asarray(parallactic)
        azimuth = np.arctan2(axes[..., 2, :] @ east, axes[..., 2, :] @ north)
        return np.asarray(parallactic + np.pi - azimuth)

    def visibilities(self, times: Time, frequencies: ArrayLike, phased: bool = False) -> NDArray[np.complex128]:
        """Noise-free visibilities ``<x(a1,p1) conj(x(a2,p2))>`` of ideal receivers, Jy.

        A source contributes ``C[p1,p2] · e^{+2πi f (r1−r2)·ŝ/c}``; phased, that becomes the design's
        ``e^{+2πi(ul+vm+w(n−1))f/c}`` with ``uvw`` of ``r1−r2``.

        Parameters
        ----------
        times : Time, shape (time,)
            Instants.
        frequencies : array of float, shape (frequency,)
            Sky frequencies, Hz.
        phased : bool
            Whether delays towards the observation's phase centre are taken out.

        Returns
        -------
        ndarray of complex128, shape (time, frequency, product)
            Products in the order of `ryle.chunk.Integration`.
        """
        axes = self.axes(times)
        frequencies = np.atleast_1d(np.asarray(frequencies, np.float64))
        tau = self.delays(axes)
        if phased and self.phase_centre is not None:
            towards = self.phase_centre.vectors(self.location, times.ravel())
            tau = tau - (towards @ self.offsets.T)[:, np.newaxis]
        chi = self.rotation(axes)
        up = self.visible(axes)
        n, pols = len(self.offsets), len(self.feeds)
        first, second = _pairs(n)
        total = np.zeros((times.size, len(frequencies), len(first), pols, pols), np.complex128)
        for s, source in enumerate(self.sources):
            light = coherency(source, frequencies, self.reference_frequency)[:, np.newaxis]
            response = feed_matrix(self.feeds, chi[:, s, np.newaxis, np.newaxis] + self.feed_angles)[:, np.newaxis]
            received = response[..., first, :, :] @ light @ response[..., second, :, :].conj().swapaxes(-1, -2)
            turns = frequencies[:, np.newaxis] * tau[:, np.newaxis, s]
            wave = np.exp(2j * np.pi * turns) * up[:, s, np.newaxis, np.newaxis]
            total += (wave[..., first] * wave[..., second].conj())[..., np.newaxis, np.newaxis] * received
        # [p1][p2] to p1 + p·p2
        return np.asarray(np.swapaxes(total, -1, -2).reshape(times.size, len(frequencies), -1))


def _pairs(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Antennas a1 <= a2 of every baseline, in order of index a2(a2+1)/2 + a1."""
    second, first = np.tril_indices(n)
    return first, second
