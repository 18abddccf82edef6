"""A plan's process as a job for whoever keeps it running: its commands, and the files that go with it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from ryle.config import Observation
from ryle.deploy.kept import Job
from ryle.deploy.processes import Process

#: Keys of an observation that may name a file beside it.
_NAMES = (("array", "antenna_file"), ("fengine", "gains_file"), ("fengine", "packets"), ("digitizer", "packets"))


def job_of(run: str, p: Process, command: Sequence[str], files: Mapping[str, bytes]) -> Job:
    """Make the job of a process of a run.

    Parameters
    ----------
    run : str
        Names the run, the same whoever starts it.
    p : Process
        Of the plan.
    command : sequence of str
        Arguments of ``ryle``; `ryle.deploy.kept.OBSERVATION` stands for the observation file.
    files : mapping of str to bytes
        See `files_of`.
    """
    again, restarts = _again(command), p.stage != "simulate"
    return Job(run, p.name, p.host, tuple(command), again, files, p.cores, p.numa, p.environment, restarts)


def _again(command: Sequence[str]) -> tuple[str, ...]:
    """Give the command of an engine that is started again: a writer chooses a new file, beside that of before."""
    words = [word for word in command if word != "--overwrite"]
    if "--into" in words:
        at = words.index("--into")
        words[at : at + 2] = ["--output", str(Path(words[at + 1]).parent)]
    return tuple(words)


def files_of(o: Observation) -> dict[str, bytes]:
    """Read the observation file and those beside it that it names, for hosts that may not have them."""
    source = Path(o.source)
    found = {source.name: source.read_bytes()}
    tables = tomllib.loads(o.text)
    for table, key in _NAMES:
        name = tables.get(table, {}).get(key)
        if isinstance(name, str) and not Path(name).is_absolute() and (path := source.parent / name).is_file():
            found[name] = path.read_bytes()
    return found
