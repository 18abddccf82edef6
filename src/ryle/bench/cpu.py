"""All measurements of the CPU forms: repeated in fresh processes, as a table and as a file."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from ryle.bench import fengine, fx, start, xengine
from ryle.bench.harness import in_child
from ryle.bench.results import Row, host, save, table, wide_console
from ryle.channelize.cpu import instruction_sets
from ryle.correlate.cpu import available_kernels
from ryle.host_time import stolen_seconds
from ryle.monitor.progress import status_line

#: What is measured, each in a process of its own.
PARTS: dict[str, Callable[[], list[Row]]] = {
    "F-engine": fengine.run,
    "X-engine": xengine.run,
    "F and X": fx.run,
    "memory": fx.memory,
    "start": start.run,
}
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "DUCC0_NUM_THREADS")


def machine() -> dict[str, Any]:
    """Describe this computer, this program and the libraries that the baselines come from."""
    return host() | {
        "f_instruction_set": instruction_sets()[0],
        "x_kernel": available_kernels()[0],
        "scipy": scipy.__version__,
        "blas": np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"],
    }


def measure(runs: int, progress: Callable[[str], None] = lambda _: None) -> list[Row]:
    """Run everything `runs` times in fresh processes and combine the figures.

    Parameters
    ----------
    runs : int
        Where arrays happen to lie in memory changes speeds by several per cent: each run finds another place.
    progress : callable
        Told what is being measured.

    Returns
    -------
    list of Row
        Medians over the runs; `ratio_spread` is the least and the greatest ratio of any run.
    """
    for name in _ONE_THREAD:
        os.environ[name] = "1"  # the libraries read this when the new process loads them
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "RYLE_CPU_KERNEL"):
        os.environ.pop(name, None)  # the baseline, too, is to run in the form that suits this CPU
    found: dict[str, list[Row]] = {}
    for number in range(runs):
        for part, call in PARTS.items():
            progress(f"run {number + 1} of {runs}: {part}")
            for row in in_child(call):
                found.setdefault(row.case, []).append(row)
    return [combine(rows) for rows in found.values()]


def combine(rows: list[Row]) -> Row:
    """Make one row of several runs' rows of one case."""

    def median(values: Iterable[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return statistics.median(known) if known else None

    ratios = [row.ratio for row in rows if row.ratio is not None]
    return replace(
        rows[0],
        value=median(row.value for row in rows),
        baseline_value=median(row.baseline_value for row in rows),
        ratio=median(ratios),
        ratio_spread=(min(ratios), max(ratios)) if ratios else None,
        more={name: statistics.median(row.more[name] for row in rows) for name in rows[0].more},
    )


def _further(row: Row) -> str:
    """Say the share of what the machine could do at most, where that is known, and whatever else is."""
    found = {name.replace("_", " "): f"{value:.4g}" for name, value in row.more.items() if name != "limit"}
    if "limit" in row.more and row.value is not None:
        found |= {"share of limit": f"{row.value / row.more['limit']:.0%}"}
    return ", ".join(f"{name} {value}" for name, value in found.items())


def bench_cpu(runs: int, path: Path | None = None) -> None:
    """Measure, print the table and, if a path is given, save it all as JSON.

    Parameters
    ----------
    runs : int
        See `measure`.
    path : Path, optional
        File to write.
    """
    console = wide_console()
    about = machine()
    with status_line() as say:
        begun, stolen, load = time.monotonic(), stolen_seconds(), os.getloadavg()[0]
        rows = measure(runs, say)
        share = (stolen_seconds() - stolen) / (time.monotonic() - begun) / (os.cpu_count() or 1)
    about |= {
        "runs": runs,
        "load_before": load,
        "stolen": round(share, 4),
    }
    console.print(
        f"{about['cpu']}, one core of {about['cores']}; F-engine {about['f_instruction_set']}, X-engine "
        f"{about['x_kernel']}; load {load:.1f} before, {about['stolen']:.1%} of the time stolen; ratios are of times"
    )
    console.print(table(rows, {"more": _further}))
    save(path, about, rows, console)
