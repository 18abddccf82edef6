"""The file of a live engine: chosen and opened, and what supervisors are told of it."""

from __future__ import annotations

import sys
from pathlib import Path

from ryle.chunk import Integration
from ryle.config import Observation
from ryle.engines.beginning import WholeBand
from ryle.monitor.status import StatusReporter
from ryle.products.observed import band_files, kept_note, metadata, output_file
from ryle.products.uvh5 import UVH5Writer


def open_output(
    observation: Observation, output: Path | None, file: Path | None, *, overwrite: bool, catcher: int | None = None
) -> UVH5Writer:
    """Open the file that an engine writes; say on standard error if an earlier run's keeps the name.

    Parameters
    ----------
    observation : Observation
        What is observed.
    output : Path, optional
        Directory to write to, instead of the observation's.
    file : Path, optional
        File to write, which a supervisor has chosen; else the first that no earlier run has left.
    overwrite : bool
        Replace what an earlier run has left.
    catcher : int, optional
        Which of several catchers, each of which writes a band of that file to a directory of its own.
    """
    path = file or output_file(observation, output, overwrite=overwrite)
    if note := kept_note(observation, path):
        print(note, file=sys.stderr)
    substreams = None
    if catcher is not None:
        path, substreams = band_files(observation, path)[catcher], observation.catcher_substreams(catcher)
    path.parent.mkdir(parents=True, exist_ok=True)
    return UVH5Writer(path, metadata(observation, substreams), overwrite=overwrite)


def tell_written(reporter: StatusReporter, beginning: WholeBand | None, number: int, integration: Integration) -> None:
    """Report an integration that is safe in the file; of the first, which it is and what was left out before it.

    Parameters
    ----------
    reporter : StatusReporter
        Prints the events.
    beginning : WholeBand or None
        What chose the first integration; None if nobody did.
    number : int
        Which it is in the file, counted from 1.
    integration : Integration
        That was written.
    """
    if number == 1 and beginning is not None:
        index = integration.first_spectrum // integration.spectra
        reporter.event("began", integration=index, left_out=beginning.left_out, later=beginning.later)
    reporter.event("written", integration=number, first_spectrum=integration.first_spectrum)
