"""Apparent directions of sources and the u, v, w axes of a phase centre, as unit vectors fixed to the Earth (ITRF).

Directions come from ERFA's ``apco13 → atciqz → atioq`` at zero pressure: precession and nutation (IAU 2006/2000A),
yearly and diurnal aberration, light deflection by the Sun, Earth rotation (UT1) and polar motion. The result is the
direction that an observer at the array's reference point sees, against the ITRF axes that antenna positions are
measured in. That is what pyuvdata's default path uses too (``atco13``: hour angle and declination with respect to the
ITRF pole and the local ITRF meridian; its LST carries the same polar-motion term, which cancels), and what astropy's
AltAz uses.

Working with ITRF vectors throughout, with no hour angle or sidereal time in between, makes ``w = r·ŝ`` the tracked
geometric delay (times c) by construction.

pyuvdata differs in one thing: its ``frame_pa`` (the angle of ICRS north against north of date) is the position angle
of a 1° arc at the arc's southern end, so that it is off by about ``−0.5° tan(dec) sin(frame_pa)``, 0.1″ at mid
declinations. It turns u and v (6 mm on 10 km) and leaves w alone. Here v points to ICRS north at the phase centre
itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import erfa
import numpy as np
from astropy.time import Time
from numpy.typing import ArrayLike, NDArray

from ryle.array.earth import earth_orientation
from ryle.array.geometry import Location

#: Spacing in seconds of the instants of TAI at which astrometry is evaluated. What is interpolated between them is the
#: direction with Earth rotation taken out; its fastest part is diurnal aberration (1.5 µrad a day), so that a cubic is
#: good to 1e-13 rad.
GRID_STEP = 600.0
_STEPS = round(86400 / GRID_STEP)  # a day

_OFFSET = np.radians(0.1)


def icrs_directions(ra: ArrayLike, dec: ArrayLike, location: Location, times: Time) -> NDArray[np.float64]:
    """Apparent topocentric directions of ICRS positions.

    What is given for an instant does not depend on which others are asked for, to the last bit: engines ask for
    different ranges, and parts of a recording for less than the whole.

    Parameters
    ----------
    ra, dec : array of float, shape (source,)
        ICRS right ascension and declination, degrees.
    location : Location
        Observer.
    times : Time, shape (time,)
        Instants.

    Returns
    -------
    ndarray of float64, shape (time, source, 3)
        ITRF unit vectors towards the sources.
    """
    alpha, delta = np.radians(np.atleast_1d(np.asarray(ra, np.float64))), np.radians(np.atleast_1d(dec))
    tai = times.ravel().tai
    day = np.rint(tai.jd1)
    at = ((tai.jd1 - day) + tai.jd2) * _STEPS
    before = np.floor(at)
    # The four nodes about each instant, as steps since JD 0; neighbours share most of them.
    wanted = (day * _STEPS + before).astype(np.int64)[:, np.newaxis] + np.arange(-1, 3)
    nodes, index = np.unique(wanted, return_inverse=True)
    node_times = Time(nodes // _STEPS, nodes % _STEPS / _STEPS, format="jd", scale="tai").utc
    slow = _spin(_direct(alpha, delta, location, node_times), _earth_rotation(node_times))
    fast = _cubic(slow[index.reshape(wanted.shape)], at - before)
    fast /= np.linalg.norm(fast, axis=-1, keepdims=True)
    return _spin(fast, -_earth_rotation(times.ravel()))


def _cubic(nodes: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Interpolate between the second and the third of four equidistant nodes by a cubic.

    SciPy's interpolation does the same, and takes every engine most of a second to import.

    Parameters
    ----------
    nodes : ndarray of float64, shape (point, 4, ...)
        Values about each point.
    at : ndarray of float64, shape (point,)
        Where, in steps from the second node.
    """
    t = at[(slice(None),) + (np.newaxis,) * (nodes.ndim - 2)] + 1  # from 1 to 2
    result: NDArray[np.float64] = np.zeros((len(at), *nodes.shape[2:]))
    for i in range(4):  # Lagrange's form
        others = [k for k in range(4) if k != i]
        result += nodes[:, i] * np.prod([(t - k) / (i - k) for k in others], axis=0)
    return result


def _direct(
    alpha: NDArray[np.float64], delta: NDArray[np.float64], location: Location, times: Time
) -> NDArray[np.float64]:
    """Directions by the whole of astrometry at each instant (see `icrs_directions`; radians)."""
    utc = times.utc
    earth = earth_orientation(times)
    longitude, latitude = np.radians(location.longitude), np.radians(location.latitude)
    astrom, _ = erfa.apco13(
        utc.jd1, utc.jd2, earth.dut1, longitude, latitude, location.height, earth.xp, earth.yp, 0.0, 0.0, 0.0, 0.0
    )
    astrom = astrom[:, np.newaxis]
    cirs_ra, cirs_dec = erfa.atciqz(alpha, delta, astrom)
    _, _, hour_angle, declination, _ = erfa.atioq(cirs_ra, cirs_dec, astrom)
    return np.asarray(erfa.s2c(longitude - hour_angle, declination))


def _earth_rotation(times: Time) -> NDArray[np.float64]:
    """Earth rotation angle in radians, shape (time,)."""
    utc = times.utc
    return np.asarray(erfa.era00(*erfa.utcut1(utc.jd1, utc.jd2, earth_orientation(times).dut1)))


def _spin(vectors: NDArray[np.float64], angle: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn vectors (time, source, 3) eastwards about the z axis by angles (time,)."""
    cos, sin = np.cos(angle)[:, np.newaxis], np.sin(angle)[:, np.newaxis]
    x, y, z = np.moveaxis(vectors, -1, 0)
    return np.stack([cos * x - sin * y, sin * x + cos * y, z], axis=-1)


def azel_directions(azimuth: ArrayLike, elevation: ArrayLike, location: Location) -> NDArray[np.float64]:
    """ITRF unit vectors of azimuths (north through east) and elevations in degrees, shape (..., 3)."""
    az, el = np.radians(np.asarray(azimuth, np.float64)), np.radians(np.asarray(elevation, np.float64))
    enu = np.stack([np.sin(az) * np.cos(el), np.cos(az) * np.cos(el), np.sin(el) + 0 * az], axis=-1)
    return location.enu_to_offsets(enu)


def to_azel(vectors: ArrayLike, location: Location) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Azimuth (0 to 360, north through east) and elevation in degrees of ITRF vectors, shape (..., 3)."""
    east, north, up = np.moveaxis(location.offsets_to_enu(vectors), -1, 0)
    azimuth = np.degrees(np.arctan2(east, north)) % 360
    return azimuth, np.degrees(np.arctan2(up, np.hypot(east, north)))


class Direction(ABC):
    """Where the array points its phase: a position on the sky or one fixed to the ground."""

    @abstractmethod
    def axes(self, location: Location, times: Time) -> NDArray[np.float64]:
        """Return unit vectors u, v, w (rows; w towards the source, v north, u east) in ITRF, shape (time, 3, 3)."""

    def vectors(self, location: Location, times: Time) -> NDArray[np.float64]:
        """ITRF unit vectors towards the source, shape (time, 3)."""
        return self.axes(location, times)[:, 2]


@dataclass(frozen=True)
class Sidereal(Direction):
    """A position fixed among the stars. Its v axis points to the ICRS north pole.

    Parameters
    ----------
    ra, dec : float
        ICRS right ascension and declination, degrees.

    Raises
    ------
    ValueError
        If an angle is out of range.
    """

    ra: float
    dec: float

    def __post_init__(self) -> None:
        if not 0 <= self.ra < 360:
            raise ValueError(f"right ascension {self.ra!r} is not in 0…360 degrees (24 h = 360°)")
        if not -90 <= self.dec <= 90:
            raise ValueError(f"declination {self.dec!r} is not in −90…90 degrees")

    def vectors(self, location: Location, times: Time) -> NDArray[np.float64]:
        """ITRF unit vectors towards the source, shape (time, 3)."""
        return icrs_directions([self.ra], [self.dec], location, times)[:, 0]

    def axes(self, location: Location, times: Time) -> NDArray[np.float64]:
        """Return unit vectors u, v, w (see `Direction.axes`)."""
        # North is the chord between two points 0.1° either side along the ICRS meridian: exact to second order.
        ra, dec = np.radians(self.ra), np.radians(self.dec)
        centre = erfa.s2c(ra, dec)
        north = np.array([-np.sin(dec) * np.cos(ra), -np.sin(dec) * np.sin(ra), np.cos(dec)])
        points = [np.cos(_OFFSET) * centre + sign * np.sin(_OFFSET) * north for sign in (-1, 1)]
        longitude, latitude = np.degrees(erfa.c2s(np.stack(points)))
        seen = icrs_directions([self.ra, *longitude], [self.dec, *latitude], location, times)
        w = seen[:, 0]
        u = np.cross(seen[:, 2] - seen[:, 1], w)
        u /= np.linalg.norm(u, axis=-1, keepdims=True)
        return np.stack([u, np.cross(w, u), w], axis=1)


@dataclass(frozen=True)
class Fixed(Direction):
    """A direction fixed to the ground (drift scan). Its v axis points to the Earth's north pole.

    Off the meridian, pyuvdata 3.2.8 derives a ``driftscan`` centre's apparent right ascension as LST + hour angle
    instead of LST − hour angle, east and west exchanged: files should carry what `apparent` gives.

    Parameters
    ----------
    azimuth, elevation : float
        Degrees; azimuth from north through east. The default is the zenith, whose axes are east, north and up: those of
        visibilities that were not phased.

    Raises
    ------
    ValueError
        If an angle is out of range.
    """

    azimuth: float = 0.0
    elevation: float = 90.0

    def __post_init__(self) -> None:
        if not -360 <= self.azimuth <= 360:
            raise ValueError(f"azimuth {self.azimuth!r} is not in −360…360 degrees (north through east)")
        if not 0 <= self.elevation <= 90:
            raise ValueError(f"elevation {self.elevation!r} is not in 0…90 degrees")

    def axes(self, location: Location, times: Time) -> NDArray[np.float64]:
        """Return unit vectors u, v, w (see `Direction.axes`), the same at all times."""
        if self.elevation == 90:
            axes = location.enu_basis
        else:
            w = azel_directions(self.azimuth, self.elevation, location)
            longitude = np.arctan2(w[1], w[0])
            u = np.array([-np.sin(longitude), np.cos(longitude), 0.0])
            axes = np.stack([u, np.cross(w, u), w])
        return np.broadcast_to(axes, (times.size, 3, 3))


#: Straight up: the axes of unphased data.
ZENITH = Fixed()


def antenna_uvw(direction: Direction, location: Location, enu: ArrayLike, times: Time) -> NDArray[np.float64]:
    """Antenna positions along the u, v, w axes of a phase centre.

    A baseline's uvw is a difference of two rows: ``uvw[:, b] − uvw[:, a]`` for UVH5 and MIRIAD row (a, b), the negative
    for MS and UVFITS. Row ``i``'s ``w / c`` is antenna ``i``'s geometric delay.

    Parameters
    ----------
    direction : Direction
        Phase centre.
    location : Location
        The array's reference point.
    enu : array of float, shape (antenna, 3)
        Positions east, north and up of the reference point, metres.
    times : Time, shape (time,)
        Instants.

    Returns
    -------
    ndarray of float64, shape (time, antenna, 3)
        Metres.
    """
    axes = direction.axes(location, times)
    return np.asarray(np.einsum("tij,aj->tai", axes, location.enu_to_offsets(enu)))


class Apparent(NamedTuple):
    """Equatorial coordinates of date as UVH5 stores them: radians, each of shape (time,)."""

    app_ra: NDArray[np.float64]
    app_dec: NDArray[np.float64]
    frame_pa: NDArray[np.float64]
    lst: NDArray[np.float64]


def apparent(direction: Direction, location: Location, times: Time) -> Apparent:
    """UVH5's apparent position, frame angle and local apparent sidereal time, from the same axes as `antenna_uvw`.

    Parameters
    ----------
    direction : Direction
        Phase centre.
    location : Location
        The array's reference point.
    times : Time, shape (time,)
        Instants.
    """
    utc = times.utc
    earth = earth_orientation(times)
    longitude, latitude = np.radians(location.longitude), np.radians(location.latitude)
    astrom, eo = erfa.apco13(
        utc.jd1, utc.jd2, earth.dut1, longitude, latitude, location.height, earth.xp, earth.yp, 0.0, 0.0, 0.0, 0.0
    )
    # ERFA's local Earth rotation angle holds longitude, TIO locator and polar motion.
    lst = np.asarray(erfa.anp(astrom["eral"] - eo))
    u, v, w = np.moveaxis(direction.axes(location, times), 1, 0)
    sky_longitude, app_dec = erfa.c2s(w)
    east = np.stack([-np.sin(sky_longitude), np.cos(sky_longitude), np.zeros_like(sky_longitude)], axis=-1)
    frame_pa = np.arctan2(np.einsum("ti,ti->t", v, east), np.einsum("ti,ti->t", u, east))
    return Apparent(np.asarray(erfa.anp(lst + sky_longitude - longitude)), np.asarray(app_dec), frame_pa, lst)
