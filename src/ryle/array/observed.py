"""The array of an observation file: its time, place, antennas and phase tracking."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ryle.array.direction import Direction, Sidereal
from ryle.array.geometry import Location
from ryle.array.time import SyncTime
from ryle.array.tracking import Antennas, PhaseTracker
from ryle.config import Observation


def sync_time(observation: Observation) -> SyncTime:
    """Sample counts ↔ UTC."""
    return SyncTime(observation.observation.sync_time, observation.sample_rate)


def location(observation: Observation) -> Location:
    """Find the reference point of the array."""
    table = observation.array.location
    if table.itrf is not None:
        return Location.from_itrf(table.itrf)
    assert table.latitude is not None and table.longitude is not None and table.height is not None
    return Location(table.latitude, table.longitude, table.height)


def antennas(observation: Observation, which: Sequence[int] | None = None) -> Antennas:
    """Positions and cable delays of all antennas, or of those in `which`."""
    place = location(observation)
    chosen = observation.antennas if which is None else [observation.antennas[i] for i in which]
    enu = [place.itrf_to_enu(np.array(a.itrf)) if a.itrf is not None else np.array(a.enu) for a in chosen]
    cables = [a.cable_delay or [0.0] * observation.pols for a in chosen]
    return Antennas(place, [a.name for a in chosen], np.array(enu).reshape(-1, 3), np.array(cables))


def phase_centre(observation: Observation) -> Direction | None:
    """Find what is tracked, or None."""
    centre = observation.phase_centre
    return None if centre is None else Sidereal(centre.ra % 360, centre.dec)


def phase_tracker(
    observation: Observation, direction: Direction | None, which: Sequence[int] | None = None
) -> PhaseTracker:
    """Delay models of all antennas, or of those in `which`, towards a phase centre; None: of their cables alone."""
    return PhaseTracker(
        sync=sync_time(observation),
        antennas=antennas(observation, which),
        direction=direction,
        centre_frequency=observation.centre_frequency,
        highest_frequency=float(observation.sky_frequencies.max()),
        sideband=observation.sideband_sign,
        max_delay=observation.fengine.max_delay,
        whole=antennas(observation),
    )
