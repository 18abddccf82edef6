"""Where the array's baselines point at one moment, as a visibility file states it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from astropy.time import Time
from astropy.utils import iers
from numpy.typing import NDArray
from pyuvdata import utils as uvutils

from ryle.products.metadata import ObservationMetadata


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


@contextmanager
def offline_iers() -> Iterator[None]:
    """Keep astropy from fetching Earth-orientation tables; dates beyond the installed ones use their last value."""
    with (
        iers.conf.set_temp("auto_download", False),
        iers.conf.set_temp("auto_max_age", None),
        iers.conf.set_temp("iers_degraded_accuracy", "ignore"),
    ):
        yield


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
    location, centre = metadata.location, metadata.phase_centre
    jd = np.array([time.utc.jd])
    with offline_iers():
        lst = uvutils.get_lst_for_time(jd, telescope_loc=location)
        if centre is None:
            app_ra, app_dec, frame_pa = lst.copy(), np.array([location.lat.rad]), np.zeros(1)
        else:
            app_ra, app_dec = uvutils.phasing.calc_app_coords(
                lon_coord=centre.ra,
                lat_coord=centre.dec,
                coord_frame="icrs",
                coord_type="sidereal",
                time_array=jd,
                lst_array=lst,
                telescope_loc=location,
            )
            frame_pa = uvutils.phasing.calc_frame_pos_angle(
                time_array=jd, app_ra=app_ra, app_dec=app_dec, telescope_loc=location, ref_frame="icrs"
            )
    rows = len(antenna_1)
    uvw = uvutils.phasing.calc_uvw(
        app_ra=np.repeat(app_ra, rows),
        app_dec=np.repeat(app_dec, rows),
        frame_pa=np.repeat(frame_pa, rows),
        lst_array=np.repeat(lst, rows),
        use_ant_pos=True,
        antenna_positions=metadata.antenna_positions,
        antenna_numbers=np.array(metadata.antenna_numbers),
        ant_1_array=antenna_1,
        ant_2_array=antenna_2,
        telescope_lat=location.lat.rad,
        telescope_lon=location.lon.rad,
        to_enu=centre is None,
    )
    return Projection(float(lst[0]), float(app_ra[0]), float(app_dec[0]), float(frame_pa[0]), uvw)
