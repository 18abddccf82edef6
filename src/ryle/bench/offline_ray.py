"""Recordings correlated by 1, 2, 4 … workers of a Ray cluster here, beside one process that has the cores of all.

    python -m ryle.bench.offline_ray [--workers 0 1 2 4] [--cores 4] [--gigabytes 8] [--turns 3] [--json FILE]

A worker is a Ray node that is held to cores of its own, so that one has what another would bring; 0 workers are the one
process. What is timed is the command, start to end. Every file is compared with that of the first, byte for byte of
every dataset (but two that quote the observation file, in which numbers of threads differ). The recording is random
8-bit samples, as `ryle capture` stores packets, and is read from memory, as far as memory goes.
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
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from ryle.bench.harness import quartiles, ratios, take_turns
from ryle.bench.network_engine import antennas_on_a_line
from ryle.bench.ray_cluster import cluster
from ryle.bench.results import Row, host, save, table, wide_console
from ryle.bench.same_file import differing
from ryle.config import Observation, load
from ryle.store.chunk_file import Layout, StoredChunk, file_header, pages, record_header

_FILE = """
observation = {{name = "recorded", sync_time = "2026-03-20T20:00:00Z"}}
band = {{sample_rate = "64 MHz", lo = "1.4 GHz"}}
digitizer = {{bits = 8, heap_samples = 8192}}
fengine = {{channels = 1024, backend = "cpu", threads = {f}}}
xengine = {{integration = "200 ms", backend = "cpu", threads = {x}}}
[array]
name = "line"
location = {{latitude = "-30.7 deg", longitude = "21.4 deg", height = "1000 m"}}
polarizations = ["x", "y"]
antennas = [{names}]
"""
_PACKETS, _BLOCKS = 16, 8  # packets of an input in a chunk; chunks of random samples, in turn
_QUOTES = {"Header/history", "Ryle/observation"}  # of the observation file


def record(o: Observation, directory: Path, size: float) -> list[Path]:
    """Write a file of chunks for each antenna, of so many bytes in all."""
    rng, found = np.random.default_rng(), []
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


def measure(directory: Path, workers: list[int], each: int, size: float, turns: int, console: Console) -> list[Row]:
    """Correlate the same recording by so many workers, and by one process if 0 are among them, in turn."""
    available, most = sorted(os.sched_getaffinity(0)), max(workers)
    if not 0 < most * each <= len(available):
        raise SystemExit(f"{most} workers of {each} cores need {most * each}, at least 1; {len(available)} are here")
    cores = [available[n * each : (n + 1) * each] for n in range(most)]
    names = {count: f"{count} workers" if count else "process" for count in workers}

    def observed(name: str, threads: int) -> Path:
        x = max(1, threads // 4)
        file = directory / f"{name}.toml"
        file.write_text(_FILE.format(names=antennas_on_a_line(8), f=max(1, threads - x - 1), x=x))
        return file

    alone, shared = observed("process", most * each), observed("workers", each)
    o = load(shared)
    with console.status(f"recording {size * 1e-9:.1f} GB"):
        recordings = record(o, directory, size)
    samples = 1e-9 * size

    def run(name: str, file: Path, held: list[int], *more: str) -> float:
        to = directory / name
        shutil.rmtree(to, ignore_errors=True)
        command = [sys.executable, "-m", "ryle", "correlate", str(file), "-o", str(to), *more]
        command += ["-i", *map(str, recordings)]
        began = time.perf_counter()
        done = subprocess.run(
            command, capture_output=True, text=True, preexec_fn=partial(os.sched_setaffinity, 0, held)
        )
        took = time.perf_counter() - began
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr[-3000:]}")
        made, first = (directory / each / "recorded.uvh5" for each in (name, names[workers[0]]))
        if wrong := differing(made, first, _QUOTES):
            raise RuntimeError(f"the file of {name} differs in {wrong} from that of {names[workers[0]]}")
        console.print(f"{name}: {took:.1f} s, {samples / took:.3f} Gsample/s", highlight=False)
        return samples / took

    def by(count: int) -> float:
        if not count:
            return run(names[0], alone, available[: most * each])
        with cluster(nodes=cores[:count]) as address:
            return run(names[count], shared, available, "--on", "ray", "--ray", address)

    found = take_turns({count: partial(by, count) for count in workers}, turns)
    least = min(filter(None, workers))  # others are compared with the fewest workers
    rows = []
    for count, rates in found.items():
        compared = count > least
        shown = ratios(rates, found[least])
        rows.append(
            Row(
                case="workers" if count else "one process",
                value=statistics.median(rates),
                unit="Gsample/s",
                size={"workers": count, "cores": each * (count or most), "inputs": len(o.antennas) * o.pols},
                baseline=f"{least} workers" if compared else "",
                baseline_value=statistics.median(found[least]) if compared else None,
                ratio=statistics.median(shown) if compared else None,
                spread=quartiles(rates),
                ratio_spread=quartiles(shown) if compared else None,
                least=3.5 if (count, least) == (4, 1) else None,
                more={
                    "seconds": samples / statistics.median(rates),
                    "gigabytes": samples,
                    "turns": turns,
                }
                | ({"of_one_process": statistics.median(ratios(rates, found[0]))} if 0 in found else {}),
            )
        )
    return rows


def main() -> None:
    """Measure, as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2, 4], help="0: one process")
    parser.add_argument("--cores", type=int, default=4, help="of a worker")
    parser.add_argument("--gigabytes", type=float, default=8.0, help="of the recording")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument(
        "--directory", type=Path, help="where recordings and files are put for as long; temporary if absent"
    )
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    console = wide_console()
    with tempfile.TemporaryDirectory(prefix="ryle-offline-", dir=given.directory) as directory:
        size = 1e9 * given.gigabytes
        rows = measure(Path(directory), given.workers, given.cores, size, given.turns, console)
    console.print(table(rows))
    save(given.json, host(), rows, console)


if __name__ == "__main__":
    main()
