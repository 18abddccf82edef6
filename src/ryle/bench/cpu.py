"""All measurements of the CPU forms: repeated in fresh processes, as a table and as a file."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from rich.console import Console
from rich.table import Table

from ryle import __version__
from ryle.bench import fengine, fx, xengine
from ryle.bench.harness import in_child
from ryle.bench.results import commit
from ryle.bench.timing import Figure
from ryle.channelize.cpu import instruction_sets
from ryle.correlate.cpu import available_kernels

#: What is measured, each in a process of its own.
PARTS: dict[str, Callable[[], list[Figure]]] = {
    "F-engine": fengine.run,
    "X-engine": xengine.run,
    "F and X": fx.run,
    "memory": fx.memory,
}
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "DUCC0_NUM_THREADS")


def machine() -> dict[str, Any]:
    """Describe this machine, this program and the libraries that the baselines come from."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "f_instruction_set": instruction_sets()[0],
        "x_kernel": available_kernels()[0],
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "ryle": __version__,
        "commit": commit(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "blas": np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"],
        "system": platform.platform(),
    }


def cpu_model() -> str:
    """Name of the CPU; family and model too, since virtual machines shorten names."""
    fields = {}
    try:
        for line in Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines():
            key, _, value = line.partition(":")
            fields[key.strip()] = value.strip()
    except OSError:
        pass
    if "model name" not in fields:
        return platform.processor() or platform.machine()
    return f"{fields['model name']} (family {fields.get('cpu family')}, model {fields.get('model')})"


def _stolen() -> tuple[float, float]:
    """Time that the hypervisor took from this machine, and all time, in ticks since it started."""
    try:
        ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    except OSError:
        return 0.0, 0.0
    return ticks[7], sum(ticks)


def measure(runs: int, progress: Callable[[str], None] = lambda _: None) -> list[Figure]:
    """Run everything `runs` times in fresh processes and combine the figures.

    Parameters
    ----------
    runs : int
        Where arrays happen to lie in memory changes speeds by several per cent: each run finds another place.
    progress : callable
        Told what is being measured.

    Returns
    -------
    list of Figure
        Medians over the runs; `spread` is the least and the greatest ratio of any run.
    """
    for name in _ONE_THREAD:
        os.environ[name] = "1"  # the libraries read this when the new process loads them
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "RYLE_CPU_KERNEL"):
        os.environ.pop(name, None)  # the baseline, too, is to run in the form that suits this CPU
    found: dict[str, list[Figure]] = {}
    for number in range(runs):
        for part, call in PARTS.items():
            progress(f"run {number + 1} of {runs}: {part}")
            for figure in in_child(call):
                found.setdefault(figure.case, []).append(figure)
    return [combine(figures) for figures in found.values()]


def combine(figures: list[Figure]) -> Figure:
    """Make one figure of several runs' figures of one case."""

    def median(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return statistics.median(known) if known else None

    first = figures[0]
    ratios = [figure.ratio for figure in figures if figure.ratio is not None]
    return Figure(
        first.case,
        statistics.median(figure.value for figure in figures),
        first.unit,
        first.baseline,
        median([figure.baseline_value for figure in figures]),
        median([figure.ratio for figure in figures]),
        (min(ratios), max(ratios)) if ratios else None,
        first.target,
        median([figure.limit for figure in figures]),
        {name: statistics.median(figure.notes[name] for figure in figures) for name in first.notes},
    )


def table(figures: list[Figure]) -> Table:
    """Show figures: ratios are of time over the baseline's time, so less is better."""
    shown = Table("case", "value", "baseline", "time ratio", "range of runs", "target", "met", "share of limit")
    for column in (1, 2, 3, 4, 5, 7):
        shown.columns[column].justify = "right"
    for f in figures:
        met = "" if f.target is None or f.ratio is None else "[green]yes[/]" if f.ratio <= f.target else "[red]no[/]"
        shown.add_row(
            f.case,
            f"{f.value:.3g} {f.unit}",
            "" if f.baseline_value is None else f"{f.baseline_value:.3g}",
            "" if f.ratio is None else f"{f.ratio:.3f}",
            "" if f.spread is None else f"{f.spread[0]:.3f}-{f.spread[1]:.3f}",
            "" if f.target is None else f"≤ {f.target:g}",
            met,
            "" if f.limit is None else f"{f.value / f.limit:.0%}",
        )
    return shown


def bench_cpu(runs: int, path: Path | None = None) -> None:
    """Measure, print the table and, if a path is given, save it all as JSON.

    Parameters
    ----------
    runs : int
        See `measure`.
    path : Path, optional
        File to write.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    about = machine()
    with console.status("measuring") as status:
        before, load = _stolen(), os.getloadavg()[0]
        figures = measure(runs, status.update)
        after = _stolen()
    about |= {
        "runs": runs,
        "load_before": load,
        "stolen": round((after[0] - before[0]) / max(1, after[1] - before[1]), 4),
    }
    console.print(
        f"{about['cpu']}, one core of {about['cores']}; F-engine {about['f_instruction_set']}, "
        f"X-engine {about['x_kernel']}; load {load:.1f} before, {about['stolen']:.1%} of the time stolen",
        highlight=False,
    )
    console.print(table(figures))
    for figure in figures:
        if figure.notes:
            notes = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in figure.notes.items())
            console.print(f"{figure.case}: {notes}")
    if path:
        path.write_text(json.dumps({"machine": about, "results": [_row(f) for f in figures]}, indent=1) + "\n")
        console.print(f"written: {path}")


def _row(figure: Figure) -> dict[str, Any]:
    def short(value: Any) -> Any:
        if isinstance(value, float):
            return float(f"{value:.4g}")
        return [short(v) for v in value] if isinstance(value, tuple) else value

    row = {key: short(value) for key, value in asdict(figure).items() if key != "notes"}
    return row | {name: short(value) for name, value in figure.notes.items()}
