"""What an observation takes of this machine: two short runs of it, and a straight line through them.

Processes begin, then take so much for each second of signal: what two durations take says both. The runs are those of
`ryle run`, with the observation's own engines and simulator, and write to a folder that is removed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ryle.config import Observation

_LOOK = 0.1  # s between two looks at memory
_SHARES = (0.25, 0.5)  # of the duration
_LONGEST = (2.0, 4.0)  # s of signal


class RunError(Exception):
    """A short run that failed, with its last words."""


@dataclass(frozen=True)
class Taken:
    """What a run took.

    Parameters
    ----------
    signal, wall : float
        Seconds of signal, and of time.
    cpu : float
        Seconds of processor time, of all processes.
    memory : float
        Bytes of all processes at most, what they share counted once.
    """

    signal: float
    wall: float
    cpu: float
    memory: float


@dataclass(frozen=True)
class Here:
    """What an observation is predicted to take.

    Parameters
    ----------
    begin : float
        Processor seconds that it takes to begin and to end.
    rate : float
        Processor seconds for a second of signal: so many cores keep up in real time.
    whole : Taken
        The whole observation; `wall` if this machine has nothing else to do.
    probes : tuple of Taken
        What was run.
    """

    begin: float
    rate: float
    whole: Taken
    probes: tuple[Taken, ...]


def predict(o: Observation, say: Callable[[str], None] = lambda _: None) -> Here:
    """Run an observation for a short while, twice, and say what all of it will take.

    Parameters
    ----------
    o : Observation
        Simulated, with an end.
    say : callable
        Is told what runs.

    Raises
    ------
    ValueError
        If it is not simulated, or has no end.
    RunError
        If a run fails.
    """
    if o.simulate is None or o.end_sample is None:
        raise ValueError("needs an observation with [simulate] and an end (observation.duration)")
    signal = float(o.end_sample / o.sample_rate)
    least = 3 * float(o.integration_time)
    probes = []
    for share, longest in zip(_SHARES, _LONGEST, strict=True):
        seconds = min(signal, max(min(share * signal, longest), share / _SHARES[0] * least))
        say(f"{seconds:.3g} s of signal")
        probes.append(run_for(o, seconds))
    short, long = probes
    rate = (long.cpu - short.cpu) / (long.signal - short.signal) if long.signal > short.signal else long.cpu / signal
    rate = max(rate, 0.0)
    begin = max(0.0, long.cpu - rate * long.signal)
    pace = (long.wall - short.wall) / (long.signal - short.signal) if long.signal > short.signal else 0.0
    wall = long.wall + max(0.0, pace) * (signal - long.signal)
    return Here(begin, rate, Taken(signal, wall, begin + rate * signal, long.memory), tuple(probes))


def run_for(o: Observation, seconds: float | None = None) -> Taken:
    """Run an observation, or its first seconds, with `ryle run`, and say what it took.

    Raises
    ------
    RunError
        If it fails.
    """
    signal = float((o.end_sample or 0) / o.sample_rate) if seconds is None else seconds
    with tempfile.TemporaryDirectory(prefix="ryle-here-") as folder:
        place = Path(folder)
        _copied(o, place, seconds)
        command = [sys.executable, "-m", "ryle", "run", "here.toml", "-o", "out"]
        before, began = os.times(), time.monotonic()
        with (place / "words").open("wb") as words:
            process = subprocess.Popen(command, cwd=place, stdout=words, stderr=words)
        with _watched(process.pid) as most:
            status = process.wait()
        after, wall = os.times(), time.monotonic() - began
        if status:
            raise RunError(f"ryle run ended with {status}:\n{(place / 'words').read_text(errors='replace')[-1500:]}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Taken(signal, wall, cpu, most[0])


def _copied(o: Observation, place: Path, seconds: float | None) -> None:
    """Write the observation with another duration, beside whatever it names."""
    source = Path(o.source).resolve()
    for other in source.parent.iterdir():
        if other.name not in ("here.toml", "out", "words"):
            (place / other.name).symlink_to(other)
    text = o.text
    if seconds is not None:
        line = f'duration = "{seconds:.6f} s"'
        text, found = re.subn(r'(?m)^(\s*)duration\s*=\s*"[^"]*"', rf"\1{line}", text, count=1)
        if not found:
            raise ValueError("its duration does not stand on a line of its own: observation.duration")
    (place / "here.toml").write_text(text)


@contextmanager
def _watched(pid: int) -> Iterator[list[float]]:
    """Look at the memory of a process and of all that it starts, again and again; gives a list with the most."""
    most, end = [0.0], threading.Event()

    def look() -> None:
        while not end.wait(_LOOK):
            most[0] = max(most[0], sum(map(_memory, _family(pid))))

    thread = threading.Thread(target=look, name="memory", daemon=True)
    thread.start()
    try:
        yield most
    finally:
        end.set()
        thread.join()


def _family(pid: int) -> list[int]:
    """List a process and those that it, or they, have started."""
    found = [pid]
    for each in found:
        try:
            for task in os.listdir(f"/proc/{each}/task"):
                found += map(int, Path(f"/proc/{each}/task/{task}/children").read_text().split())
        except OSError:
            continue  # it has ended
    return found


def _memory(pid: int) -> float:
    """Bytes that a process has in memory; of what it shares its part."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return 1024.0 * int(found[1]) if found else 0.0
