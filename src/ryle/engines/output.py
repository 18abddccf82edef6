"""The files of a live engine: chosen and opened, and what supervisors and viewers are told of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from ryle.chunk import Integration
from ryle.config import Observation
from ryle.engines.beginning import WholeBand
from ryle.engines.glance import GlanceMaker
from ryle.engines.scans import Scan, Scans, phase_centre
from ryle.engines.write_file import WriteFile
from ryle.monitor.status import StatusReporter
from ryle.products.observed import band_files, kept_note, metadata, output_file
from ryle.products.publisher import Publisher
from ryle.products.uvh5 import UVH5Writer
from ryle.stream.metrics import Registry


def choose_file(observation: Observation, output: Path | None, file: Path | None, *, overwrite: bool) -> Path:
    """Choose the file of the whole band; say on standard error if an earlier run's keeps the name.

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
    """
    path = file or output_file(observation, output, overwrite=overwrite)
    if note := kept_note(observation, path):
        print(note, file=sys.stderr)
    return path


def open_file(
    observation: Observation, path: Path, *, overwrite: bool = False, catcher: int | None = None
) -> UVH5Writer:
    """Open what an engine writes.

    Parameters
    ----------
    observation : Observation
        What is observed.
    path : Path
        File of the whole band.
    overwrite : bool
        Replace what is there.
    catcher : int, optional
        Which of several catchers, each of which writes a band of that file to a directory of its own.
    """
    substreams = None
    if catcher is not None:
        path, substreams = band_files(observation, path)[catcher], observation.catcher_substreams(catcher)
    path.parent.mkdir(parents=True, exist_ok=True)
    return UVH5Writer(path, metadata(observation, substreams), overwrite=overwrite)


@contextmanager
def published(
    observation: Observation, write: WriteFile, m: Registry, glances: GlanceMaker, catcher: int = 0
) -> Iterator[None]:
    """Serve what is written, from ``with`` to its end, if the observation says where; and leave glances at it.

    Parameters
    ----------
    observation : Observation
        What is observed.
    write : WriteFile
        Hands on what it has written.
    m : Registry
        Where it is said how many listen.
    glances : GlanceMaker
        Makes them.
    catcher : int
        Which of several catchers.
    """
    o = observation
    if o.output.stream is None:
        write.publish = glances.publish
        try:
            yield
        finally:
            glances.close()
        return
    mine = o.catcher_substreams(catcher) if o.catcher.directories else range(o.substreams)
    wide, to = o.substream_channels, o.output.stream.nth(catcher)
    about = {
        "observation": {"source": Path(o.source).name, "toml": o.text},
        "channels": [mine.start * wide, len(mine) * wide],
        "products": o.products,
    }
    with Publisher(to.host, to.port, about) as publisher:
        m.gauge("listeners", "", "who is served integrations by TCP", lambda: publisher.listeners)
        m.counter("missed", "integrations", "that listeners were too slow for", lambda: publisher.missed)

        def publish(number: int, pieces: Sequence[Integration]) -> None:
            publisher.publish(
                number, pieces, {"phase_centre": phase_centre(o if write.scan is None else write.scan.observation)}
            )
            glances.publish(number, pieces)

        write.publish = publish
        try:
            yield
        finally:
            glances.close()


def watchable(observation: Observation, m: Registry, write: WriteFile, file: Path, catcher: int = 0) -> GlanceMaker:
    """Let an engine that writes be watched and steered: what it writes where, new scans, glances.

    Parameters
    ----------
    observation : Observation
        What is observed.
    m : Registry
        Where it is said; before a status reporter is made of it.
    write : WriteFile
        Writes.
    file : Path
        That it begins with, of the whole band.
    catcher : int
        Which of several catchers.

    Returns
    -------
    GlanceMaker
        Keeps nothing yet.
    """
    o = observation
    opens = partial(open_file, catcher=catcher if o.catcher.directories else None)
    write.scans = scans = Scans(Scan(0, o, file, None), opens)
    scans.register(m)
    place = band_files(o, file)[catcher].parent

    def writes() -> str:
        return str((place if write.writer is None else write.writer.path).absolute())

    m.gauge("source", "", "the observation file", lambda: str(Path(o.source).absolute()))
    m.gauge("directory", "", "where files of the whole band are", lambda: str(file.parent.absolute()))
    m.gauge("file", "", "what is written, of the whole band; empty: nothing is", lambda: scans.said()["file"])
    m.gauge("writes", "", "what this engine writes of it, or where it would", writes)
    m.counter("unwritten", "integrations", "that were not to be written", lambda: write.unwritten)
    mine, wide = o.catcher_substreams(catcher), o.substream_channels
    glances = GlanceMaker(o, mine.start * wide, len(mine) * wide)
    glances.register(m)
    return glances


def measure_file(m: Registry, o: Observation, write: WriteFile) -> None:
    """Say where in the signal files begin and end, and how much is in them."""
    seconds, beginning = o.step / float(o.sample_rate), write.beginning

    def begin() -> float | None:
        return None if write.begin is None else write.begin * seconds

    m.gauge("begin", "s", "signal at which the first integration begins", begin)
    m.gauge("position", "s", "signal up to which the file goes", lambda: write.position * seconds)
    m.counter("integrations", "integrations", "integrations in files", lambda: write.integrations)
    if beginning is not None:
        m.counter("left_out", "integrations", "before the first that is whole", lambda: beginning.left_out)


def tell(reporter: StatusReporter, write: WriteFile) -> None:
    """Let a step report what it writes, and each scan that begins."""

    def begins(scan: Scan) -> None:
        reporter.event("scan", **scan.as_dict())

    write.written = partial(tell_written, reporter, write.beginning)
    assert write.scans is not None
    write.scans.begins = begins


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
