"""How fast `ryle correlate` goes once it has begun: the time that a longer recording takes more than a shorter one.

    python -m ryle.bench.offline [--gigabytes 3 12] [--backends cpu cuda] [--turns 3] [--directory D] [--json FILE]

What is timed is the command, start to end; the rate is samples over seconds of the difference, within a turn. The
recording is random 8-bit samples, as `ryle capture` stores packets: memory that is a disk (/dev/shm) reads faster than
disks are. The baseline is reading the same files alone, once, as they are, and nothing else.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from ryle.bench.harness import quartiles, ratios, take_turns
from ryle.bench.network_engine import antennas_on_a_line
from ryle.bench.results import Row, computer, save, table, wide_console
from ryle.config import Observation, load
from ryle.monitor.progress import working
from ryle.store.chunk_file import Layout, StoredChunk, file_header, pages, record_header

_FILE = """
observation = {{name = "recorded", sync_time = "2026-03-20T20:00:00Z"}}
band = {{sample_rate = "64 MHz", lo = "1.4 GHz"}}
digitizer = {{bits = 8, heap_samples = 8192}}
fengine = {{channels = 1024, backend = "{backend}"{f}}}
xengine = {{integration = "200 ms", backend = "{backend}"{x}}}
[array]
name = "line"
location = {{latitude = "-30.7 deg", longitude = "21.4 deg", height = "1000 m"}}
polarizations = ["x", "y"]
antennas = [{names}]
"""
ANTENNAS, RESULT = 8, "recorded.uvh5"
_PACKETS, _BLOCKS = 16, 8  # packets of an input in a chunk; chunks of random samples, in turn
_PIECE = 16 << 20  # bytes read at a time by the baseline
LEAST = {"cpu": 0.7, "cuda": 7.0}  # Gsample/s that are to be reached: by 16 threads, and by an H200


def observed(file: Path, *, backend: str = "cpu", f_threads: int | None = None, x_threads: int | None = None) -> Path:
    """Write the observation file; engines have so many threads, or as many as they take by themselves."""
    f, x = ("" if n is None else f", threads = {n}" for n in (f_threads, x_threads))
    file.write_text(_FILE.format(names=antennas_on_a_line(ANTENNAS), backend=backend, f=f, x=x))
    return file


def record(o: Observation, directory: Path, size: float) -> list[Path]:
    """Write a file of chunks for each antenna, of so many bytes in all."""
    rng, found = np.random.default_rng(), []
    directory.mkdir(exist_ok=True)
    shape = (o.pols, _PACKETS, o.digitizer_heap_bytes)
    blocks = max(1, round(size / (len(o.antennas) * int(np.prod(shape)))))
    present = np.ones(shape[:2], np.uint8)
    for antenna in range(len(o.antennas)):
        heads = tuple(tuple(o.digitizer_head(antenna * o.pols + p)) for p in range(o.pols))
        step, fields = o.digitizer.heap_samples, tuple(o.digitizer_format.timestamp.stream)
        data = [rng.integers(0, 256, shape, np.uint8) for _ in range(_BLOCKS)]
        path = directory / f"{antenna:03d}.chunks"
        with path.open("wb") as file:
            file.write(file_header(Layout(o.digitizer_format.name, heads, fields, _PACKETS, shape, step, 0, "samples")))
            for number in range(blocks):
                at = number * _PACKETS * step
                chunk = StoredChunk(number, 0, at, present.size, data[number % _BLOCKS], present)
                file.write(record_header(chunk))
                for part in (present, chunk.data):
                    file.write(part.tobytes().ljust(pages(part.nbytes), b"\0"))
        found.append(path)
    return found


def correlate(
    file: Path, recordings: Sequence[Path], to: Path, *more: str, cores: Sequence[int] | None = None
) -> float:
    """Run the command on so many cores, or on all, and give the seconds that it took.

    Raises
    ------
    RuntimeError
        If it fails.
    """
    shutil.rmtree(to, ignore_errors=True)
    command = [sys.executable, "-m", "ryle", "correlate", str(file), "-o", str(to), *more]
    command += ["-i", *map(str, recordings)]
    held = None if cores is None else partial(os.sched_setaffinity, 0, cores)
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=held)
    took = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-3000:]}")
    return took


def _read(recordings: Sequence[Path]) -> float:
    """Read files, and give the seconds."""
    room = bytearray(_PIECE)
    began = time.perf_counter()
    for path in recordings:
        with path.open("rb", buffering=0) as file:
            while file.readinto(room):
                pass
    return time.perf_counter() - began


def measure(
    directory: Path, sizes: Sequence[float], backends: Sequence[str], turns: int, console: Console
) -> list[Row]:
    """Correlate a short and a long recording in turn.

    Parameters
    ----------
    directory : Path
        For recordings and results.
    sizes : sequence of float
        Bytes of the shorter and of the longer.
    backends : sequence of str
        "cpu", "cuda".
    turns : int
        Of each, after one that is not counted.
    """
    short, long = sizes
    if not 0 < short < long:
        raise SystemExit(f"--gigabytes {short * 1e-9:g} {long * 1e-9:g}: first the shorter, then the longer recording")
    files = {backend: observed(directory / f"{backend}.toml", backend=backend) for backend in backends}
    o = load(next(iter(files.values())))
    recordings = {}
    for size in sizes:
        with working(f"recording {size * 1e-9:.1f} GB"):
            recordings[size] = record(o, directory / f"{size:.0f}", size)
    samples = {size: sum(path.stat().st_size for path in found) for size, found in recordings.items()}
    more = 1e-9 * (samples[long] - samples[short])

    def took(backend: str) -> tuple[float, float]:
        one, other = (
            _read(recordings[size])
            if backend == "reading"
            else correlate(files[backend], recordings[size], directory / "result")
            for size in sizes
        )
        console.print(f"{backend}: {one:.2f} s, {other:.2f} s, {more / (other - one):.3f} Gsample/s", highlight=False)
        return one, other

    work = {name: partial(took, name) for name in ("reading", *backends)}
    take_turns(work, 1)  # compiles kernels and fills caches
    found = take_turns(work, turns)
    rates = {name: [more / (long - short) for short, long in each] for name, each in found.items()}
    return [
        Row(
            case=f"ryle correlate, {backend}",
            value=statistics.median(rates[backend]),
            unit="Gsample/s",
            size={"inputs": ANTENNAS * o.pols, "channels": o.fengine.channels, "bits": o.digitizer.bits},
            baseline="reading alone",
            baseline_value=statistics.median(rates["reading"]),
            ratio=statistics.median(ratios(rates[backend], rates["reading"])),
            spread=quartiles(rates[backend]),
            ratio_spread=quartiles(ratios(rates[backend], rates["reading"])),
            more={
                "wanted": LEAST[backend],
                "seconds": [statistics.median(each) for each in zip(*found[backend], strict=True)],
                "gigabytes": [1e-9 * size for size in samples.values()],
                "turns": turns,
            },
        )
        for backend in backends
    ]


def main() -> None:
    """Measure, as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, nargs=2, default=[3.0, 12.0], help="of the recordings")
    parser.add_argument("--backends", choices=("cpu", "cuda"), nargs="+", default=["cpu"])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--directory", type=Path, help="for recordings and results; temporary if absent")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    console = wide_console()
    about = computer("cuda" in given.backends)
    with tempfile.TemporaryDirectory(prefix="ryle-offline-", dir=given.directory) as directory:
        sizes = [1e9 * size for size in given.gigabytes]
        rows = measure(Path(directory), sizes, given.backends, given.turns, console)
    console.print(table(rows))
    save(given.json, about, rows, console)


if __name__ == "__main__":
    main()
