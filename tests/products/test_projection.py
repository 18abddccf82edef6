"""Projections against pyuvdata's, whose strict check a file has to pass; and no pyuvdata where data are caught."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from astropy.coordinates import EarthLocation
from astropy.time import Time
from pyuvdata import utils as uvutils

from ryle.products.metadata import PhaseCentre
from ryle.products.projection import project


def of_pyuvdata(meta, jd, antenna_1, antenna_2):
    """Sidereal time, apparent place, angle of the frame's north and baselines, by pyuvdata itself."""
    at, centre = {"telescope_loc": meta.location}, meta.phase_centre
    jd = np.array([jd])
    lst = uvutils.get_lst_for_time(jd, **at)
    if centre is None:
        app_ra, app_dec, frame_pa = lst, np.array([meta.location.lat.rad]), np.zeros(1)
    else:
        app_ra, app_dec = uvutils.phasing.calc_app_coords(
            lon_coord=centre.ra, lat_coord=centre.dec, coord_frame="icrs", time_array=jd, lst_array=lst, **at
        )
        frame_pa = uvutils.phasing.calc_frame_pos_angle(
            time_array=jd, app_ra=app_ra, app_dec=app_dec, ref_frame="icrs", **at
        )
    rows = len(antenna_1)
    uvw = uvutils.phasing.calc_uvw(
        app_ra=np.repeat(app_ra, rows),
        app_dec=np.repeat(app_dec, rows),
        frame_pa=np.repeat(frame_pa, rows),
        lst_array=np.repeat(lst, rows),
        use_ant_pos=True,
        antenna_positions=meta.antenna_positions,
        antenna_numbers=np.array(meta.antenna_numbers),
        ant_1_array=antenna_1,
        ant_2_array=antenna_2,
        telescope_lat=meta.location.lat.rad,
        telescope_lon=meta.location.lon.rad,
        to_enu=centre is None,
    )
    return lst[0], app_ra[0], app_dec[0], frame_pa[0], uvw


@pytest.mark.parametrize("centre", ["anywhere", "north pole", "south pole", "none"])
def test_projections_are_those_of_pyuvdata(synthetic, rng, centre):
    for _ in range(3):
        location = EarthLocation.from_geodetic(
            rng.uniform(-180, 180), np.degrees(np.arcsin(rng.uniform(-1, 1))), rng.uniform(-100, 5000)
        )
        dec = {"north pole": np.pi / 2 - 0.003, "south pole": 0.003 - np.pi / 2}.get(
            centre, np.arcsin(rng.uniform(-1, 1))
        )
        meta = synthetic.metadata(
            rng.normal(0, 1e4, (5, 3)),
            location=location,
            antenna_numbers=(7, 3, 12, 1, 2),
            phase_centre=None if centre == "none" else PhaseCentre("field", rng.uniform(0, 2 * np.pi), dec),
        )
        jd = rng.uniform(2451545, 2461000)
        a, b = rng.choice(meta.antenna_numbers, (2, 30))
        got = project(meta, Time(jd, format="jd", scale="utc"), a, b)
        lst, app_ra, app_dec, frame_pa, uvw = of_pyuvdata(meta, jd, a, b)
        assert abs(got.app_dec - app_dec) < 1e-12 and abs(got.frame_pa - frame_pa) < 1e-10
        for angle, other in (got.lst, lst), (got.app_ra, app_ra):
            assert 0 <= angle < 2 * np.pi and abs(np.angle(np.exp(1j * (angle - other)))) < 1e-11
        np.testing.assert_allclose(got.uvw, uvw, rtol=0, atol=1e-6)


def test_who_catches_visibilities_does_not_wait_for_pyuvdata():
    ask = "import sys, ryle.engines.catcher; print(*(m for m in ('pyuvdata', 'scipy', 'numba') if m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout.strip() == ""
