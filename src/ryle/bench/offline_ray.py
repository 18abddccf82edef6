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
import statistics
import tempfile
from functools import partial
from pathlib import Path

from rich.console import Console

from ryle.bench.harness import quartiles, ratios, take_turns
from ryle.bench.offline import RESULT, correlate, observed, record
from ryle.bench.ray_cluster import cluster
from ryle.bench.results import Row, host, save, table, wide_console
from ryle.bench.same_file import differing
from ryle.config import load
from ryle.monitor.progress import working

_QUOTES = {"Header/history", "Ryle/observation"}  # of the observation file


def measure(directory: Path, workers: list[int], each: int, size: float, turns: int, console: Console) -> list[Row]:
    """Correlate the same recording by so many workers, and by one process if 0 are among them, in turn."""
    available, most = sorted(os.sched_getaffinity(0)), max(workers)
    if not 0 < most * each <= len(available):
        raise SystemExit(f"{most} workers of {each} cores need {most * each}, at least 1; {len(available)} are here")
    cores = [available[n * each : (n + 1) * each] for n in range(most)]
    names = {count: f"{count} workers" if count else "process" for count in workers}

    def observation(name: str, threads: int) -> Path:
        x = max(1, threads // 4)
        return observed(directory / f"{name}.toml", f_threads=max(1, threads - x - 1), x_threads=x)

    alone, shared = observation("process", most * each), observation("workers", each)
    o = load(shared)
    with working(f"recording {size * 1e-9:.1f} GB"):
        recordings = record(o, directory, size)
    samples = 1e-9 * size

    def run(name: str, file: Path, held: list[int], *more: str) -> float:
        took = correlate(file, recordings, directory / name, *more, cores=held)
        made, first = (directory / each / RESULT for each in (name, names[workers[0]]))
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
