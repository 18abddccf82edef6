"""What an observation file says about its visibility file."""

from __future__ import annotations

import glob
import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ryle import __version__
from ryle.config import Observation
from ryle.version import commit

if TYPE_CHECKING:
    from ryle.products.metadata import ObservationMetadata

#: Endings of what a run leaves, besides pictures and logs.
_MADE = {".uvh5", ".journal", ".ms", ".uvfits", ".mir"}


def output_file(observation: Observation, output: Path | None = None, *, overwrite: bool = False) -> Path:
    """Where the visibilities go: in `output`, or in the observation's own directory.

    Unless what is there may be overwritten, a name that none of an earlier run's files begins with: ``name.uvh5``, or
    ``name-2.uvh5`` and so on.
    """
    directory = Path(observation.output.directory) if output is None else output
    name = observation.observation.name
    stems = itertools.chain([name], (f"{name}-{count}" for count in itertools.count(2)))
    stem = next(s for s in stems if overwrite or not taken(observation, directory, s))
    return directory / f"{stem}.uvh5"


def taken(observation: Observation, directory: Path, stem: str) -> bool:
    """Whether a run has left files of this name: visibilities, a band of them, an export, a journal."""
    places = {directory, *map(Path, observation.catcher.directories)}
    return any(path.suffix in _MADE for place in places for path in place.glob(f"{glob.escape(stem)}.*"))


def band_files(observation: Observation, file: Path) -> list[Path]:
    """Where catchers write, each its band, if there are several; else `file` alone."""
    directories = observation.catcher.directories
    bands = [Path(each) / f"{file.stem}.band{n}.uvh5" for n, each in enumerate(directories)]
    return bands or [file]


def kept_note(observation: Observation, file: Path) -> str | None:
    """Say that an earlier run's files keep their name; None if there were none."""
    if file.stem == observation.observation.name:
        return None
    return (
        f"{file.with_stem(observation.observation.name)} is of an earlier run and stays: "
        f"this one goes to {file} (--overwrite replaces)"
    )


def metadata(observation: Observation, substreams: range | None = None) -> ObservationMetadata:
    """Everything that the visibility file states: of the whole band, or of some substreams, which follow each other."""
    # Here, because they bring astropy and pyuvdata: a supervisor asks for the file's name only, and starts 3 s earlier.
    from ryle.array.observed import antennas, location
    from ryle.products.metadata import ObservationMetadata, PhaseCentre

    place, array = location(observation), antennas(observation)
    centre = observation.phase_centre
    mine, wide = range(observation.substreams) if substreams is None else substreams, observation.substream_channels
    said = {"observer": observation.observation.observer, "project": observation.observation.project}
    return ObservationMetadata(
        telescope=observation.array.name,
        location=place.earth_location,
        antenna_names=tuple(array.names),
        antenna_positions=place.enu_to_offsets(array.enu),
        antenna_diameters=tuple(a.diameter for a in observation.antennas),
        polarizations=tuple(observation.array.polarizations),
        feed_angles=np.radians(observation.feed_angles),
        mount=observation.array.mount,
        frequencies=observation.sky_frequencies[mine.start * wide : mine.stop * wide],
        channel_width=observation.channel_width,
        sideband=observation.sideband_sign,
        sync_time=observation.observation.sync_time,
        sample_rate=observation.sample_rate,
        spectrum_samples=observation.step,
        taps=observation.fengine.taps,
        phase_centre=None
        if centre is None
        else PhaseCentre(centre.name, np.radians(centre.ra), np.radians(centre.dec)),
        history=f"Correlated by Ryle {__version__}, commit {commit()}, as {Path(observation.source).name} says.",
        extra_keywords={name: text for name, text in said.items() if text},
        min_fraction=observation.output.min_fraction,
        observation=json.dumps({"source": Path(observation.source).name, "toml": observation.text}),
    )


def input_labels(observation: Observation) -> list[str]:
    """Names of the inputs for pictures: antenna and polarization."""
    return [f"{a.name} {p}" for a in observation.antennas for p in observation.array.polarizations]
