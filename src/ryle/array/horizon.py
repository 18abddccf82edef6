"""What an observation would look at through the ground, and dates of which the Earth's rotation is not known."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ryle.array.direction import icrs_directions
from ryle.array.earth import EarthOrientationWarning
from ryle.array.geometry import Location
from ryle.array.observed import location, sync_time
from ryle.config import Observation
from ryle.config.simulation import SourceTable
from ryle.config.tables import PhaseCentreTable
from ryle.problems import Problem, listed

#: Antennas so far from the array's location, in metres, have a horizon of their own: it is turned by a degree.
_FAR = 111e3
#: Simulated sources that are told one by one.
_TOLD = 3
_DAY = 86400.0
_STEP = 60.0


def horizon_cautions(o: Observation) -> Iterator[Problem]:
    """Warn of a phase centre, and of simulated sources, that are below the horizon, refraction left aside.

    With a duration, for the time that it lasts, with times of rise and set; without one, of what never rises.
    """
    targets: list[tuple[str, PhaseCentreTable | SourceTable]] = []
    if o.phase_centre is not None:
        targets.append(("phase_centre", o.phase_centre))
    if o.simulate is not None:
        targets += [(f"simulate.sources[{i}]", source) for i, source in enumerate(o.simulate.sources)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EarthOrientationWarning)
        down = 0
        for key, target in targets:
            below: dict[str, list[str]] = {}
            for who, place in _places(o).items():
                if text := _below(o, place, target.ra % 360, target.dec):
                    below.setdefault(text, []).append(who)
            down += bool(below) and key != "phase_centre"
            for text, sites in below.items() if down <= _TOLD else ():
                where = "" if sites == [""] else f" at {listed(sites)}"
                yield Problem(key, target.name or None, f"is below the horizon{where} {text}")
    if down > _TOLD:
        yield Problem("simulate.sources", down, f"are below the horizon in all, {down - _TOLD} more than these")
    if unknown := [w for w in caught if issubclass(w.category, EarthOrientationWarning)]:
        yield Problem("observation.sync_time", o.observation.sync_time, str(unknown[0].message))


def _places(o: Observation) -> dict[str, Location]:
    """Give the array's location, under no name; of an array wider than a degree each antenna's."""
    place = location(o)
    each = {
        a.name: place.enu_to_itrf(np.array(a.enu)) if a.itrf is None else np.array(a.itrf, np.float64)
        for a in o.antennas
    }
    if all(np.linalg.norm(itrf - place.itrf) < _FAR for itrf in each.values()):
        return {"": place}
    return {name: Location.from_itrf(itrf) for name, itrf in each.items()}


def _below(o: Observation, place: Location, ra: float, dec: float) -> str | None:
    """Say when a direction is below a place's horizon; None if it never is while the observation lasts."""
    highest = 90 - abs(place.latitude - dec)
    if highest < 0:
        side = f"above {place.latitude - 90:+.2f}" if place.latitude > 0 else f"below {place.latitude + 90:+.2f}"
        return f"always: at latitude {place.latitude:+.2f} deg only what has a declination {side} deg rises"
    if o.observation.duration is None:
        return None
    lasts = float(o.observation.duration)
    looked = min(lasts, _DAY)  # then it repeats itself
    seconds = np.linspace(0, looked, max(2, int(looked / _STEP) + 2))
    up = _elevations(o, place, ra, dec, seconds)
    if (up >= 0).all():
        return None
    if (up < 0).all():
        after: NDArray[np.float64] = looked + np.arange(0, _DAY + _STEP, _STEP, np.float64)
        rises = [t for t, rising in _crossings(after, _elevations(o, place, ra, dec, after)) if rising]
        when = f"; it rises at {_clock(o, rises[0])}" if rises else ""
        return f"throughout, by {-up.max():.1f} deg and more{when}"
    events = [
        f"{'rises' if rising else 'sets'} at {_clock(o, t)}, {_span(t)} after the start"
        for t, rising in _crossings(seconds, up)
    ]
    return f"for {100 * float((up < 0).mean()):.0f} % of {_span(looked)}: it {listed(events)}"


def _elevations(
    o: Observation, place: Location, ra: float, dec: float, seconds: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Degrees above the horizon so many seconds after sync."""
    clock = sync_time(o)
    times = clock.time(np.rint(seconds * float(clock.sample_rate)).astype(np.int64))
    towards = icrs_directions([ra], [dec], place, times)[:, 0]
    return np.asarray(np.degrees(np.arcsin(np.clip(towards @ place.enu_basis[2], -1, 1))), np.float64)


def _crossings(seconds: NDArray[np.float64], up: NDArray[np.float64]) -> list[tuple[float, bool]]:
    """Find when it crosses the horizon, and whether it rises then."""
    at = np.flatnonzero((up[1:] >= 0) != (up[:-1] >= 0))
    part = up[at] / (up[at] - up[at + 1])
    times = seconds[at] + part * (seconds[at + 1] - seconds[at])
    return [(float(t), bool(up[i + 1] >= 0)) for t, i in zip(times, at, strict=True)]


def _span(seconds: float) -> str:
    return f"{seconds / 3600:.2f} h" if seconds >= 3600 else f"{seconds:.4g} s"


def _clock(o: Observation, seconds: float) -> str:
    clock = sync_time(o)
    return clock.iso(round(seconds * float(clock.sample_rate)), 0)
