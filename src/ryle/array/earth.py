"""Earth orientation (UT1, polar motion) from the IERS table installed with the program; the network is never asked.

Importing this module sets, for the whole process, the astropy options that would otherwise fetch newer tables in the
middle of an observation or stop it when the installed one has aged. pyuvdata reads its Earth orientation through the
same options, so file metadata and delay tracking use the same numbers. It also gives astropy the table that an earlier
process has parsed (`ryle.array.earth_table`).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from astropy.time import Time
from astropy.utils import iers
from numpy.typing import NDArray

from ryle.array.earth_table import installed_table, use_kept_table

iers.conf.auto_download = False
iers.conf.auto_max_age = None
iers.conf.iers_degraded_accuracy = "ignore"
use_kept_table()

_ARCSEC = np.pi / (180 * 3600)


class EarthOrientationWarning(UserWarning):
    """The date lies outside the IERS table, so that directions are less accurate."""


@dataclass(frozen=True, slots=True)
class EarthOrientation:
    """Earth orientation at some instants.

    Parameters
    ----------
    dut1 : ndarray of float64, shape (time,)
        UT1−UTC in seconds.
    xp, yp : ndarray of float64, shape (time,)
        Polar motion in radians.
    """

    dut1: NDArray[np.float64]
    xp: NDArray[np.float64]
    yp: NDArray[np.float64]


def earth_orientation(times: Time) -> EarthOrientation:
    """UT1−UTC and polar motion, interpolated linearly in the installed IERS table.

    Outside the table its first or last entry is used and an `EarthOrientationWarning` says so. UT1−UTC then drifts by
    about 1 ms a day at most, which turns the sky by 15 mas: 0.7 mm on a 10 km baseline. Celestial pole offsets (below
    1 mas, 50 µm on 10 km) are left out, as they are in astropy's AltAz and in pyuvdata.

    Parameters
    ----------
    times : Time, shape (time,)
        Instants.
    """
    table = installed_table()
    dut1, status = table.ut1_utc(times, return_status=True)
    xp, yp = table.pm_xy(times)
    outside = np.isin(np.asarray(status), (iers.TIME_BEFORE_IERS_RANGE, iers.TIME_BEYOND_IERS_RANGE))
    if outside.any():
        first, last = (Time(mjd, format="mjd").utc.iso[:10] for mjd in (table["MJD"][0].value, table["MJD"][-1].value))
        date = np.atleast_1d(times.utc.iso)[np.atleast_1d(outside)][0][:10]
        warnings.warn(
            f"{date} is outside the installed IERS table ({first} to {last}): directions may be wrong by an arcsecond "
            "or more; run 'pip install -U astropy-iers-data' for a newer table",
            EarthOrientationWarning,
            stacklevel=2,
        )
    return EarthOrientation(
        np.asarray(dut1.to_value("s"), np.float64),
        np.asarray(xp.to_value("arcsec"), np.float64) * _ARCSEC,
        np.asarray(yp.to_value("arcsec"), np.float64) * _ARCSEC,
    )
