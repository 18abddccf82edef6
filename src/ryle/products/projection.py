"""Where the array's baselines point at one moment, as a visibility file states it.

Sidereal time, apparent place and the angle of the frame are what pyuvdata 3.2.8 computes of the same moment, from the
same routines of ERFA, so that its strict check passes. pyuvdata itself would take a catcher three seconds to import.
"""

from __future__ import annotations

from dataclasses import dataclass

import erfa
import numpy as np
from astropy.time import Time
from numpy.typing import NDArray

from ryle.array.earth import earth_orientation
from ryle.products.metadata import ObservationMetadata

#: The frame's north is taken from an arc so long to either side of the phase centre, radians (pyuvdata's `offset_pos`).
_ARC = np.pi / 360


@dataclass(frozen=True)
class Projection:
    """Sidereal time, apparent phase centre and baselines at one moment.

    Parameters
    ----------
    lst : float
        Local apparent sidereal time, radians.
    app_ra, app_dec : float
        Apparent (topocentric) position of the phase centre, radians; the zenith for unprojected data.
    frame_pa : float
        Position angle of ICRS north in the apparent frame, radians.
    uvw : ndarray of float64, shape (baseline, 3)
        r_b − r_a in metres: towards east, north and phase centre.
    """

    lst: float
    app_ra: float
    app_dec: float
    frame_pa: float
    uvw: NDArray[np.float64]


def project(
    metadata: ObservationMetadata, time: Time, antenna_1: NDArray[np.int64], antenna_2: NDArray[np.int64]
) -> Projection:
    """Project baselines towards the phase centre, by pyuvdata's own rules so that its strict check passes.

    Parameters
    ----------
    metadata : ObservationMetadata
        Array and phase centre.
    time : astropy.time.Time
        Scalar.
    antenna_1, antenna_2 : ndarray of int64, shape (baseline,)
        Antenna numbers a and b of each row.

    Returns
    -------
    Projection
        Baselines are r_b − r_a.
    """
    centre = metadata.phase_centre
    longitude, latitude, height = metadata.geodetic
    jd = Time([time.utc.jd], format="jd", scale="utc")  # as the file has it
    earth = earth_orientation(jd)
    days = (jd.jd1, jd.jd2)
    tt = jd.tt
    sidereal = erfa.gst06a(*erfa.utcut1(*days, earth.dut1), tt.jd1, tt.jd2) + erfa.sp00(tt.jd1, tt.jd2)
    lst = np.mod(sidereal + longitude, 2 * np.pi)
    if centre is None:
        app_ra, app_dec, frame_pa = lst, np.array([latitude]), np.zeros(1)
    else:
        site = (*days, earth.dut1, longitude, latitude, height, earth.xp, earth.yp, 0.0, 0.0, 0.0, 0.0)  # no air
        _, _, _, app_dec, cio_ra, origins = erfa.atco13(centre.ra, centre.dec, 0.0, 0.0, 0.0, 0.0, *site)
        app_ra = np.mod(cio_ra - origins, 2 * np.pi)
        south, north = (erfa.atoc13("R", *_on_sphere(app_ra + origins, app_dec + arc), *site) for arc in (-_ARC, _ARC))
        frame_pa = -erfa.pas(*south, *north)
    axes = _axes(lst[0] - longitude - app_ra[0], app_dec[0], frame_pa[0])
    numbers = np.array(metadata.antenna_numbers)
    order = np.argsort(numbers)
    first, second = (order[np.searchsorted(numbers, each, sorter=order)] for each in (antenna_1, antenna_2))
    seen = metadata.antenna_positions @ axes.T
    uvw = seen[second] - seen[first]
    return Projection(float(lst[0]), float(app_ra[0]), float(app_dec[0]), float(frame_pa[0]), uvw)


def _on_sphere(ra: NDArray[np.float64], dec: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Turn declinations beyond a pole into those on its other side."""
    beyond = np.abs(dec) > np.pi / 2
    return np.where(beyond, np.mod(ra + np.pi, 2 * np.pi), ra), np.where(beyond, np.sign(dec) * np.pi - dec, dec)


def _axes(hour_angle: float, dec: float, frame_pa: float) -> NDArray[np.float64]:
    """Give unit vectors u, v, w (rows) in ITRF, of a Greenwich hour angle, declination and angle of the frame's north.

    Thompson, Moran and Swenson, 3rd edition, equation 4.1, then turned about w by `frame_pa`.
    """
    sin_h, cos_h, sin_d, cos_d = np.sin(hour_angle), np.cos(hour_angle), np.sin(dec), np.cos(dec)
    u = np.array([sin_h, cos_h, 0.0])
    v = np.array([-sin_d * cos_h, sin_d * sin_h, cos_d])
    w = np.array([cos_d * cos_h, -cos_d * sin_h, sin_d])
    sin_p, cos_p = np.sin(frame_pa), np.cos(frame_pa)
    return np.stack([cos_p * u - sin_p * v, sin_p * u + cos_p * v, w])
