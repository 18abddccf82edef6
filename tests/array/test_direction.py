from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
from astropy import units
from astropy.coordinates import AltAz, SkyCoord, get_sun
from astropy.time import Time
from pyuvdata import Telescope, UVData
from pyuvdata.utils import phasing

from ryle.array.direction import (
    GRID_STEP,
    ZENITH,
    Fixed,
    Sidereal,
    _direct,
    antenna_uvw,
    apparent,
    azel_directions,
    icrs_directions,
    to_azel,
)
from ryle.array.earth import EarthOrientationWarning
from ryle.array.geometry import Location
from ryle.array.time import SyncTime

KAROO = Location(-30.7128, 21.4436, 1051.0)
ENU = np.array([[0.0, 0, 0], [10e3, 0, 0], [0, 10e3, 0], [-7e3, 7e3, 100.0]])


def instants(rng: np.random.Generator, count: int) -> Time:
    return Time(np.sort(rng.uniform(57000, 61300, count)), format="mjd", scale="utc")


def test_agrees_with_astropy_altaz(rng: np.random.Generator) -> None:
    times = instants(rng, 8)
    ra, dec = rng.uniform(0, 360, 30), np.degrees(np.arcsin(rng.uniform(-1, 1, 30)))
    ra[0], dec[0], dec[1], dec[2] = 37.95456067, 89.26410897, 90.0, -90.0
    location = Location(rng.uniform(-80, 80), rng.uniform(-180, 180), rng.uniform(0, 5000))
    vectors = icrs_directions(ra, dec, location, times)
    assert vectors.shape == (8, 30, 3)
    for time, seen in zip(times, vectors, strict=True):
        frame = AltAz(obstime=time, location=location.earth_location, pressure=0 * units.hPa)
        expected = SkyCoord(ra, dec, unit="deg", frame="icrs").transform_to(frame)
        wanted = azel_directions(expected.az.deg, expected.alt.deg, location)
        # 2e-10 rad is 2 µm on 10 km.
        np.testing.assert_allclose(seen, wanted, atol=2e-10)


def test_interpolation_is_as_good_as_direct(rng: np.random.Generator) -> None:
    sync = SyncTime("2026-03-20T20:00:00Z", 1000)
    for span, step in [(86400, 30), (3 * GRID_STEP, 7), (GRID_STEP / 10, 1), (86400 * 3, 100)]:
        counts = np.arange(0, int(span * 1000), int(step * 1000), dtype=np.int64)
        # Not beside the Sun, which then is at the equinox and bends light too unevenly to be followed by any grid.
        ra, dec = rng.uniform(20, 340, 3), rng.uniform(-90, 90, 3)
        many = icrs_directions(ra, dec, KAROO, sync.time(counts))
        pick = np.unique(np.append(rng.integers(0, len(counts), 4), [0, len(counts) - 1]))
        for i in pick:
            one = _direct(np.radians(ra), np.radians(dec), KAROO, sync.time(counts[[i]]))
            np.testing.assert_allclose(many[i], one[0], atol=2e-12)


def test_an_instant_does_not_depend_on_the_others(rng: np.random.Generator) -> None:
    times = Time(60000 + np.sort(rng.uniform(0, 1, 300)), format="mjd", scale="utc")
    ra, dec = rng.uniform(0, 360, 3), rng.uniform(-90, 90, 3)
    many = icrs_directions(ra, dec, KAROO, times)
    for _ in range(20):
        some = np.sort(rng.choice(300, rng.integers(1, 8), replace=False))
        assert np.array_equal(icrs_directions(ra, dec, KAROO, times[some]), many[some])
    assert icrs_directions(ra, dec, KAROO, times[:0]).shape == (0, 3, 3)


def test_interpolation_across_a_leap_second() -> None:
    sync = SyncTime("2016-12-31T23:00:00Z", 10)
    counts = np.arange(0, 72000, 5)
    many = icrs_directions([100.0], [-20.0], KAROO, sync.time(counts))
    near = np.flatnonzero(np.abs(counts - 36005) <= 15)
    one = _direct(np.radians([100.0]), np.radians([-20.0]), KAROO, sync.time(counts[near]))
    np.testing.assert_allclose(many[near], one, atol=2e-12)
    # The sky turns as evenly through 23:59:60 as at any other time.
    turned = np.linalg.norm(np.diff(many[:, 0], axis=0), axis=-1)
    np.testing.assert_allclose(turned, turned.mean(), rtol=1e-5)


def test_the_first_point_of_aries_at_the_2026_equinox() -> None:
    # A hand check: at 2026-03-20T14:46Z the Sun stands at the equinox of date, at the zenith of the equator where the
    # sundial shows noon: at longitude 15° (12 h − UT + 7.4 min), the equation of time being −7.4 min.
    location = Location(0.0, -15 * (14 + 46 / 60 - 12 - 7.4 / 60))
    azimuth, elevation = to_azel(icrs_directions([0], [0], location, Time(["2026-03-20T14:46:00"])), location)
    # Precession since 2000 has moved that point by 26.2 × 50.3″ = 0.366° along the ecliptic.
    assert elevation[0, 0] == pytest.approx(90 - 0.366, abs=0.06)
    assert azimuth.shape == (1, 1)


def test_uvw_agrees_with_pyuvdata(rng: np.random.Generator) -> None:
    direction = Sidereal(rng.uniform(0, 360), rng.uniform(-80, 30))
    # Within some degrees of the Sun, whose gravity bends light, the angle is another for each length of arc.
    times = instants(rng, 40)
    sun = get_sun(times)
    far = SkyCoord(sun.ra, sun.dec).separation(SkyCoord(direction.ra, direction.dec, unit="deg")) > 20 * units.deg
    times = times[far][:5]
    ours = antenna_uvw(direction, KAROO, ENU, times)
    telescope = Telescope.new(
        name="test",
        location=KAROO.earth_location,
        antenna_positions=dict(enumerate(KAROO.enu_to_offsets(ENU))),
        instrument="test",
        feeds=["x", "y"],
        mount_type="fixed",
    )
    pairs = [(a, b) for b in range(4) for a in range(b + 1)]
    uvd = UVData.new(
        freq_array=np.array([1e9]),
        channel_width=1e6,
        polarization_array=["xx"],
        telescope=telescope,
        times=times.jd,
        antpairs=pairs,
        integration_time=1.0,
        do_blt_outer=True,
        time_axis_faster_than_bls=False,
        phase_center_catalog={
            0: {
                "cat_name": "s",
                "cat_type": "sidereal",
                "cat_lon": np.radians(direction.ra),
                "cat_lat": np.radians(direction.dec),
                "cat_frame": "icrs",
                "cat_epoch": 2000.0,
            },
        },
        empty=True,
    )
    index = np.searchsorted(times.jd, uvd.time_array)
    expected = ours[index, uvd.ant_2_array] - ours[index, uvd.ant_1_array]
    app = apparent(direction, KAROO, times)
    np.testing.assert_allclose(uvd.lst_array, app.lst[index], atol=1e-8)
    np.testing.assert_allclose(uvd.phase_center_app_ra, app.app_ra[index], atol=1e-8)
    np.testing.assert_allclose(uvd.phase_center_app_dec, app.app_dec[index], atol=1e-9)
    # w from pyuvdata alone, start to end; its times are Julian dates in float64, good to 40 µs: 0.03 mm.
    uvd._set_app_coords_helper()
    uvd.set_uvws_from_antenna_positions(update_vis=False)
    np.testing.assert_allclose(uvd.uvw_array[:, 2], expected[:, 2], atol=1e-4)
    # u and v differ by pyuvdata's frame angle, which is that of the southern end of its 1° arc …
    southern = -np.tan(app.app_dec) * np.sin(app.frame_pa)
    difference = uvd.phase_center_frame_pa - app.frame_pa[index]
    np.testing.assert_allclose(difference, np.radians(0.5) * southern[index], rtol=0.15, atol=5e-7)
    # … and agree when that arc is short, or when it is told the angle that we write into the file.
    short = phasing.calc_frame_pos_angle(
        time_array=times.jd,
        app_ra=app.app_ra,
        app_dec=app.app_dec,
        telescope_loc=KAROO.earth_location,
        ref_frame="icrs",
        offset_pos=1e-5,
    )
    np.testing.assert_allclose(app.frame_pa + 1e-5 * southern, short, atol=2e-8)
    uvd.phase_center_frame_pa = app.frame_pa[index]
    uvd.set_uvws_from_antenna_positions(update_vis=False)
    np.testing.assert_allclose(uvd.uvw_array, expected, atol=1e-4)
    uvd.check()


@pytest.mark.parametrize(
    "direction", [Sidereal(10.68, 41.27), Sidereal(3.0, -89.9), ZENITH, Fixed(77, 30), Fixed(200, 0)]
)
def test_calc_uvw_from_our_metadata_gives_our_uvw(direction: Sidereal | Fixed, rng: np.random.Generator) -> None:
    times = instants(rng, 6)
    ours = antenna_uvw(direction, KAROO, ENU, times)
    app = apparent(direction, KAROO, times)
    for b in range(1, 4):
        theirs = phasing.calc_uvw(
            app_ra=app.app_ra,
            app_dec=app.app_dec,
            frame_pa=app.frame_pa,
            lst_array=app.lst,
            use_ant_pos=True,
            antenna_positions=KAROO.enu_to_offsets(ENU),
            antenna_numbers=np.arange(4),
            ant_1_array=np.zeros(6, int),
            ant_2_array=np.full(6, b),
            telescope_lat=np.radians(KAROO.latitude),
            telescope_lon=np.radians(KAROO.longitude),
        )
        np.testing.assert_allclose(ours[:, b] - ours[:, 0], theirs, atol=1e-8)


def test_axes_are_right_handed_and_orthonormal(rng: np.random.Generator) -> None:
    times = instants(rng, 4)
    directions = [
        Sidereal(0, 90),
        Sidereal(123, -90),
        Sidereal(200, 13),
        ZENITH,
        Fixed(0, -KAROO.latitude),
        Fixed(180, 30.7128),
    ]
    for direction in directions:
        axes = direction.axes(KAROO, times)
        assert axes.shape == (4, 3, 3)
        np.testing.assert_allclose(axes @ np.swapaxes(axes, 1, 2), np.broadcast_to(np.eye(3), (4, 3, 3)), atol=1e-13)
        np.testing.assert_allclose(np.linalg.det(axes), 1, atol=1e-12)
        np.testing.assert_allclose(direction.vectors(KAROO, times), axes[:, 2], atol=1e-13)


def test_nearby_sources_lie_where_l_and_m_say(rng: np.random.Generator) -> None:
    """l grows with right ascension along u, m with declination along v: the geometry that imaging assumes."""
    times = instants(rng, 3)
    ra, dec, step = 150.0, -35.0, 1e-3
    axes = Sidereal(ra, dec).axes(KAROO, times)
    east = icrs_directions([ra + step / np.cos(np.radians(dec))], [dec], KAROO, times)[:, 0]
    north = icrs_directions([ra], [dec + step], KAROO, times)[:, 0]
    angle = np.radians(step)
    np.testing.assert_allclose(np.einsum("tij,tj->ti", axes, east)[:, :2], [[angle, 0]] * 3, atol=2e-4 * angle)
    np.testing.assert_allclose(np.einsum("tij,tj->ti", axes, north)[:, :2], [[0, angle]] * 3, atol=2e-4 * angle)


def test_fixed_directions(rng: np.random.Generator) -> None:
    times = instants(rng, 3)
    np.testing.assert_allclose(antenna_uvw(ZENITH, KAROO, ENU, times), [ENU] * 3, atol=1e-11)
    for azimuth, elevation, enu in [(0, 0, [0, 1, 0]), (90, 0, [1, 0, 0]), (180, 60, [0, -0.5, np.sqrt(0.75)])]:
        vectors = Fixed(azimuth, elevation).vectors(KAROO, times)
        np.testing.assert_allclose(KAROO.offsets_to_enu(vectors), [enu] * 3, atol=1e-15)
        back = to_azel(vectors, KAROO)
        np.testing.assert_allclose(np.cos(np.radians(back[0] - azimuth)), 1, atol=1e-12)
        np.testing.assert_allclose(back[1], elevation, atol=1e-12)


def test_a_date_after_the_table_warns_and_goes_on() -> None:
    with pytest.warns(EarthOrientationWarning, match="2040-01-01 is outside the installed IERS table") as caught:
        vectors = icrs_directions([10.0], [-20.0], KAROO, Time(["2040-01-01T00:00:00"], scale="utc"))
    assert "\n" not in str(caught[0].message)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        icrs_directions([10.0], [-20.0], KAROO, Time(["2026-03-20T00:00:00"], scale="utc"))


def test_the_network_is_never_asked() -> None:
    program = """
import socket
def refuse(*a, **k): raise SystemExit("network used")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
import warnings; warnings.simplefilter("ignore")
from ryle.array.direction import Sidereal, apparent
from ryle.array.geometry import Location
from ryle.array.time import SyncTime
from astropy.utils import iers
iers.LeapSeconds._today = classmethod(lambda cls: __import__("astropy.time").time.Time("2050-01-01", scale="tai"))
for date in ("2026-03-20", "2045-01-01"):
    times = SyncTime(date, 1).time([0, 1])
    apparent(Sidereal(1.0, 2.0), Location(-30.0, 21.0), times)
    from pyuvdata import utils
    utils.get_lst_for_time(times.jd, telescope_loc=Location(-30.0, 21.0).earth_location)
print("done")
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "done\n"


def test_bad_directions_are_refused() -> None:
    for make, message in [
        (lambda: Sidereal(-1, 0), "right ascension -1"),
        (lambda: Sidereal(0, 91), "declination 91"),
        (lambda: Fixed(0, -1), "elevation -1"),
        (lambda: Fixed(float("nan"), 1), "azimuth nan"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
