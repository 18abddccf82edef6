"""Stokes parameters from the products of linear or circular feeds.

A feed p answers X_p = c_N E_N + c_E E_E to the field towards north and east. Linear, at position angle ψ:
c = (cos ψ, sin ψ); right circular (IEEE, voltages turning as e^{+jωt}): c = (1, i)/√2 · e^{−iψ}; left with −i. With the
coherency ⟨E E^H⟩ = ½ [[I+Q, U+iV], [U−iV, I−Q]] (Hamaker & Bregman 1996; IAU 1974) the product ⟨X_p X_q^*⟩ is
c_p ⟨E E^H⟩ c_q^H. UVH5 rows hold conj(X_a)·X_b, its conjugate.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from astropy import units
from astropy.coordinates import AltAz, EarthLocation, SkyCoord
from astropy.time import Time
from numpy.typing import NDArray
from pyuvdata import UVData

from ryle.products.metadata import AIPS_POLARIZATIONS

Stokes = Literal["I", "Q", "U", "V"]

#: Coherency of unit I, Q, U and V: axes (Stokes, north/east, north/east).
_COHERENCY = 0.5 * np.array(
    [[[1, 0], [0, 1]], [[1, 0], [0, -1]], [[0, 1], [1, 0]], [[0, 1j], [-1j, 0]]], dtype=np.complex128
)
_NAMES = {number: name for name, number in AIPS_POLARIZATIONS.items()}


def stokes(data: UVData, parameter: Stokes) -> tuple[NDArray[np.complex128], NDArray[np.float64]]:
    """Visibilities of one Stokes parameter and their weights.

    Parameters
    ----------
    data : pyuvdata.UVData
        Visibilities in pyuvdata's convention, with one phase centre.
    parameter : {"I", "Q", "U", "V"}
        Which. I needs one parallel hand (an unpolarized sky is then assumed) or both; the others, and antennas whose
        feeds point in different directions, need all four products.

    Returns
    -------
    visibilities : ndarray of complex128, shape (row, channel)
        In units in which an unpolarized source of flux S has I = S (the file's ``pol_convention`` is honoured).
    weights : ndarray of float64, shape (row, channel)
        Valid fraction, the lowest of the products used; 0 where any of them is flagged.

    Raises
    ------
    ValueError
        If the file lacks the products needed.
    """
    names = [_NAMES[int(number)] for number in data.polarization_array]
    convention = data.pol_convention or data.extra_keywords.get("stokconv", "sum")
    factor = 1.0 if convention == "sum" else 0.5
    parallel = [k for k, name in enumerate(names) if name[0] == name[1]]
    angles = data.telescope.feed_angle
    alike = angles is None or np.abs(np.exp(1j * angles) - np.exp(1j * angles[0])).max() < 1e-6
    if parameter == "I" and alike:
        if not parallel:
            raise ValueError(f"Stokes I needs a parallel-hand product; the file has {', '.join(names)}")
        used = parallel
        values = data.data_array[..., parallel].sum(axis=-1, dtype=np.complex128) * (2 / len(parallel))
    else:
        if len(names) != 4:
            where = "" if alike else " of antennas whose feeds point in different directions"
            raise ValueError(f"Stokes {parameter}{where} needs all four products; the file has {', '.join(names)}")
        used = list(range(4))
        matrices = np.linalg.inv(_mixing(data, names))[:, "IQUV".index(parameter)]
        values = np.einsum("rp,rcp->rc", matrices, data.data_array)
    weights = np.where(data.flag_array, 0, data.nsample_array)[..., used].min(axis=-1).astype(np.float64)
    return values * factor, weights


def _mixing(data: UVData, names: list[str]) -> NDArray[np.complex128]:
    """Answer of each product of each row to unit Stokes parameters: shape (row, product, Stokes)."""
    telescope = data.telescope
    feeds = [str(f) for f in telescope.feed_array[0]]
    turn = _field_rotation(data)
    numbers = list(telescope.antenna_numbers)
    index_1 = np.array([numbers.index(a) for a in data.ant_1_array])
    index_2 = np.array([numbers.index(a) for a in data.ant_2_array])
    products = []
    for first, second in (tuple(name) for name in names):
        c_1 = _response(first, telescope.feed_angle[index_1, feeds.index(first)] + turn)
        c_2 = _response(second, telescope.feed_angle[index_2, feeds.index(second)] + turn)
        products.append(np.einsum("ri,sij,rj->rs", c_1, _COHERENCY, c_2.conj()).conj())
    return np.stack(products, axis=1)


def _response(feed: str, angle: NDArray[np.float64]) -> NDArray[np.complex128]:
    if feed in "xy":
        return np.stack([np.cos(angle), np.sin(angle)], axis=-1).astype(np.complex128)
    hand = 1j if feed == "r" else -1j
    circular: NDArray[np.complex128] = np.exp(-hand * angle)[:, np.newaxis] * np.array([1, hand]) / np.sqrt(2)
    return circular


def _field_rotation(data: UVData) -> NDArray[np.float64]:
    """Position angle on the sky, at the phase centre, of the direction from which feed angles count; radians a row.

    That is the zenith for steerable mounts, the northern horizon for fixed ones, ICRS north for equatorial ones.
    """
    mount = str(data.telescope.mount_type[0])
    if mount == "equatorial":
        return np.zeros(data.Nblts)
    times, row = np.unique(data.time_array, return_inverse=True)
    angles: NDArray[np.float64] = feed_reference(phase_centre(data), times, data.telescope.location, mount)[row]
    return angles


def feed_reference(
    centre: SkyCoord, times: NDArray[np.float64], location: EarthLocation, mount: str
) -> NDArray[np.float64]:
    """Position angle, from ICRS north through east, of the zenith (or, for ``"fixed"``, the northern horizon).

    Parameters
    ----------
    centre : astropy.coordinates.SkyCoord
        Where on the sky.
    times : ndarray of float64, shape (time,)
        Julian dates, UTC.
    location : astropy.coordinates.EarthLocation
        Telescope.
    mount : str
        See `ryle.products.metadata.ObservationMetadata`.

    Returns
    -------
    ndarray of float64, shape (time,)
        Radians; the parallactic angle for steerable mounts.
    """
    altitudes = np.full(len(times), 0.0 if mount == "fixed" else 90.0) * units.deg
    frame = AltAz(obstime=Time(times, format="jd"), location=location)
    pole = SkyCoord(az=np.zeros(len(times)) * units.deg, alt=altitudes, frame=frame).icrs
    angles: NDArray[np.float64] = centre.icrs.position_angle(pole).to_value(units.rad)
    return angles


def phase_centre(data: UVData) -> SkyCoord:
    """Direction that the data follow.

    Parameters
    ----------
    data : pyuvdata.UVData
        Visibilities.

    Raises
    ------
    ValueError
        If there are several, or it does not stand still on the sky.
    """
    used = np.unique(data.phase_center_id_array)
    entry = data.phase_center_catalog[int(used[0])]
    if len(used) != 1 or entry["cat_type"] != "sidereal" or entry["cat_frame"] not in ("icrs", "fk5"):
        raise ValueError(
            f"imaging needs one sidereal phase centre in ICRS or FK5; the file has {len(used)} "
            f"({entry['cat_type']}, {entry['cat_frame']}): select one field, or phase the data first"
        )
    return SkyCoord(entry["cat_lon"] * units.rad, entry["cat_lat"] * units.rad, frame=entry["cat_frame"]).icrs
