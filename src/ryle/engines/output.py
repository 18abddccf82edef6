"""The file of a live engine: chosen and opened, and what supervisors are told of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ryle.chunk import Integration
from ryle.config import Observation
from ryle.engines.beginning import WholeBand
from ryle.engines.glance import GlanceMaker
from ryle.engines.write_file import WriteFile
from ryle.monitor.status import StatusReporter
from ryle.products.observed import band_files, kept_note, metadata, output_file
from ryle.products.publisher import Publisher
from ryle.products.uvh5 import UVH5Writer
from ryle.stream.metrics import Registry


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
            publisher.publish(number, pieces)
            glances.publish(number, pieces)

        write.publish = publish
        try:
            yield
        finally:
            glances.close()


def watchable(
    observation: Observation, m: Registry, write: WriteFile, catcher: int = 0, whole: Path | None = None
) -> GlanceMaker:
    """Let an engine be watched that writes: say what it writes where, and make glances at it.

    Parameters
    ----------
    observation : Observation
        What is observed.
    m : Registry
        Where it is said; before a status reporter is made of it.
    write : WriteFile
        Writes.
    catcher : int
        Which of several catchers.
    whole : Path, optional
        File of the whole band, if this is another.

    Returns
    -------
    GlanceMaker
        Keeps nothing yet.
    """
    o = observation
    m.gauge("source", "", "the observation file", lambda: str(Path(o.source).absolute()))
    m.gauge("file", "", "what is written, of the whole band", lambda: str((whole or write.path or Path()).absolute()))
    m.gauge("writes", "", "what this engine writes of it", lambda: str((write.path or Path()).absolute()))
    mine, wide = o.catcher_substreams(catcher), o.substream_channels
    glances = GlanceMaker(o, mine.start * wide, len(mine) * wide)
    glances.register(m)
    return glances


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
