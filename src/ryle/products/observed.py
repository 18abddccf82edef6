"""What an observation file says about its visibility file."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .. import __version__
from ..config import Observation

if TYPE_CHECKING:
    from .metadata import ObservationMetadata


def output_file(observation: Observation, output: Path | None = None) -> Path:
    """Where the visibilities go: in `output`, or in the observation's own directory."""
    directory = Path(observation.output.directory) if output is None else output
    return directory / f"{observation.observation.name}.uvh5"


def metadata(observation: Observation) -> ObservationMetadata:
    """Everything that the visibility file states."""
    # Here, because they bring astropy and pyuvdata: a supervisor asks for the file's name only, and starts 3 s earlier.
    from ..array.observed import antennas, location, sync_time
    from .metadata import ObservationMetadata, PhaseCentre

    place, array = location(observation), antennas(observation)
    centre = observation.phase_centre
    unix: Fraction = sync_time(observation).unix
    return ObservationMetadata(
        telescope=observation.array.name,
        location=place.earth_location,
        antenna_names=tuple(array.names),
        antenna_positions=place.enu_to_offsets(array.enu),
        antenna_diameters=tuple(a.diameter for a in observation.antennas),
        polarizations=tuple(observation.array.polarizations),
        mount=observation.array.mount,
        frequencies=observation.sky_frequencies,
        channel_width=observation.channel_width,
        sideband=observation.sideband_sign,
        sync_time=Decimal(unix.numerator) / Decimal(unix.denominator),
        sample_rate=observation.sample_rate,
        spectrum_samples=observation.step,
        taps=observation.fengine.taps,
        phase_centre=None
        if centre is None
        else PhaseCentre(centre.name, np.radians(centre.ra), np.radians(centre.dec)),
        history=f"Correlated by Ryle {__version__}.",
        observation=json.dumps({"source": Path(observation.source).name, "toml": observation.text}),
    )


def input_labels(observation: Observation) -> list[str]:
    """Names of the inputs for pictures: antenna and polarization."""
    return [f"{a.name} {p}" for a in observation.antennas for p in observation.array.polarizations]
