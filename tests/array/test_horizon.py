"""What is below the horizon is said, with times that astropy's own transformation agrees with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from astropy import units
from astropy.coordinates import AltAz, EarthLocation, SkyCoord
from astropy.time import Time

from ryle.array.horizon import horizon_cautions
from ryle.config import changed, example, load

SMALL = load(Path(__file__).parents[1] / "small.toml")  # latitude -30.72 deg, sources up from 20:00 UTC


def altitude(o, target, when) -> float:
    site = o.array.location
    place = EarthLocation.from_geodetic(site.longitude, site.latitude, site.height)
    return float(
        SkyCoord(target.ra, target.dec, unit="deg").transform_to(AltAz(obstime=Time(when), location=place)).alt.deg
    )


def at(latitude: float) -> dict[str, object]:
    return {"location": SMALL.array.location.model_copy(update={"latitude": latitude})}


def clocks(text: str) -> list[str]:
    return [found.rstrip("Z") for found in re.findall(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text)]


@pytest.mark.parametrize("name", ["demo", "meerkat_extension", "paper128", "alma72", "vdif2"])
def test_examples_look_up(name):
    assert list(horizon_cautions(load(example(name)))) == []


def test_what_is_up_is_not_said():
    assert list(horizon_cautions(SMALL)) == []
    assert list(horizon_cautions(SMALL.model_copy(update={"phase_centre": None, "simulate": None}))) == []


@pytest.mark.parametrize("live", [False, True])
def test_never_up(live):
    """Also of an observation without an end."""
    base = changed(SMALL.live, observation={"duration": None}) if live else SMALL
    (caution,) = horizon_cautions(changed(base, phase_centre={"dec": 65.0}))
    assert caution.key == "phase_centre" and caution.value == "field"
    assert "always" in caution.remedy and "declination below +59.28 deg" in caution.remedy
    north = changed(SMALL, array=at(52.0), phase_centre={"dec": -38.1}, simulate={"sources": []})
    assert ["above -38.00 deg" in c.remedy for c in horizon_cautions(north)] == [True]


def test_below_throughout():
    o = changed(SMALL, phase_centre={"ra": 300.0})
    (caution,) = horizon_cautions(o)
    start = altitude(o, o.phase_centre, "2026-03-20T20:00:04")
    assert start < 0 and f"throughout, by {-start:.1f} deg and more" in caution.remedy
    (rises,) = clocks(caution.remedy)
    assert abs(altitude(o, o.phase_centre, rises)) < 0.02


def test_many_sources_are_told_together():
    source = SMALL.simulate.sources[0]
    sources = [source.model_copy(update={"name": f"S{i}", "ra": 300.0 + i}) for i in range(8)]
    found = list(horizon_cautions(changed(SMALL, simulate={"sources": [source, *sources]})))
    assert [c.key for c in found] == [*(f"simulate.sources[{i}]" for i in (1, 2, 3)), "simulate.sources"]
    assert found[-1].value == 8 and "5 more" in found[-1].remedy


def test_part_of_the_time():
    o = changed(SMALL, observation={"duration": "9 h"}, array=at(-10.0))
    centre, source = horizon_cautions(o)
    assert (centre.key, source.key, source.value) == ("phase_centre", "simulate.sources[0]", "S1")
    (sets,) = clocks(centre.remedy)
    assert abs(altitude(o, o.phase_centre, sets)) < 0.02
    share = 1 - (Time(sets) - Time("2026-03-20T20:00:00")).to_value(units.h) / 9
    assert f"for {100 * share:.0f} % of 9.00 h: it sets at" in centre.remedy
    week = changed(o, observation={"duration": "168 h"}, simulate={"sources": []})
    (caution,) = horizon_cautions(week)
    assert re.search(r"of 24\.00 h: it sets at \S+, \d\.\d\d h after the start, rises at", caution.remedy)
    assert [abs(altitude(o, o.phase_centre, t)) < 0.02 for t in clocks(caution.remedy)] == [True, True]


def test_each_station_of_a_wide_array():
    """A station 109 degrees of longitude to the east has another horizon."""
    far = {"name": "A3", "itrf": ["-3547000 m", "4226000 m", "-3185000 m"]}
    antennas = [{"name": "A0", "enu": ["0 m", "0 m", "0 m"]}, {"name": "A1", "enu": ["210 m", "40 m", "0 m"]}, far]
    centre, _ = horizon_cautions(changed(SMALL, array={"antennas": antennas}))
    assert "below the horizon at A3 throughout" in centre.remedy


def test_dates_of_which_the_earth_is_not_known():
    o = changed(
        SMALL, observation={"sync_time": "2060-01-01T00:00:00Z"}, simulate={"sources": []}, phase_centre={"ra": 200.0}
    )
    found = {c.key: c.remedy for c in horizon_cautions(o)}
    assert "outside the installed IERS table" in found["observation.sync_time"]
