"""What benchmarks find: one row for each figure, shown as a table and written as a file of JSON."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ryle import __version__
from ryle.gpu import Gpu, open_gpu
from ryle.version import commit

#: Columns of a table beside those of a row, by what they are called.
Columns = Mapping[str, Callable[["Row"], str]]


@dataclass(slots=True)
class Row:
    """One measured figure.

    Parameters
    ----------
    case : str
        What ran: "fused", "three kernels", one of its parts, "cuFFT c2c", "HBM copy".
    value : float, optional
        Median; None if it could not be measured, and ``more["note"]`` says why.
    unit : str
        Unit of `value` and `baseline_value`.
    size : dict of int
        Shape of the work, where it has one: channels, taps, bits, inputs, times.
    baseline : str
        What it is compared with; empty if with nothing.
    baseline_value : float, optional
        That one's median, or what was published of it.
    ratio : float, optional
        Value over the baseline's; where speeds on a CPU are compared, time over the baseline's time.
    spread, ratio_spread : tuple of float, optional
        First and last quartile of the value and of the ratio, or the extremes of few.
    target : float, optional
        What the value is to reach.
    least, most : float, optional
        What the ratio is to reach, and what it must not pass.
    more : dict
        Further numbers and words.
    """

    case: str
    value: float | None
    unit: str
    size: dict[str, int] = field(default_factory=dict)
    baseline: str = ""
    baseline_value: float | None = None
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    ratio_spread: tuple[float, float] | None = None
    target: float | None = None
    least: float | None = None
    most: float | None = None
    more: dict[str, Any] = field(default_factory=dict)


def program() -> dict[str, Any]:
    """Describe this program, today."""
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    return {"date": date, "ryle": __version__, "commit": commit(), "numpy": np.__version__}


def host() -> dict[str, Any]:
    """Describe this computer and this program."""
    about = {"cpu": cpu_model(), "cores": len(os.sched_getaffinity(0)), "system": platform.platform()}
    return about | {"python": platform.python_version()} | program()


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


def computer(gpu: bool) -> dict[str, Any]:
    """Describe this computer, its GPU if that takes part, and this program."""
    return host() | (machine(open_gpu()) if gpu else {})


def machine(gpu: Gpu) -> dict[str, Any]:
    """Describe the GPU and this program."""
    query = ("driver_version", "clocks.sm", "clocks.max.sm", "clocks.mem", "power.limit", "temperature.gpu")
    about: dict[str, Any] = {"gpu": gpu.name, "arch": gpu.arch, "multiprocessors": gpu.multiprocessors}
    about |= {"memory_bytes": gpu.memory_bytes, "cuda": gpu.driver} | program()
    command = ["nvidia-smi", f"--query-gpu={','.join(query)}", "--format=csv,noheader", "--id=0"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout
        about |= dict(zip(query, (word.strip() for word in answer.strip().split(",")), strict=True))
    except (OSError, subprocess.SubprocessError, ValueError):
        pass
    return about


def wide_console() -> Console:
    """Make a console that has room for a table, into a file too."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=180)


def table(rows: Sequence[Row], more: Columns | None = None, title: str | None = None) -> Table:
    """Show rows: what they have in common, and `more` columns; of all, those that say anything."""
    columns: dict[str, list[str]] = {"case": [row.case for row in rows]}
    for name in _sizes(rows):
        columns[name] = [str(row.size.get(name, "")) for row in rows]
    columns["value"] = ["" if row.value is None else f"{row.value:.4g} {row.unit}" for row in rows]
    columns["spread"] = [_range(row.spread) for row in rows]
    columns["target"] = [_goal("≥", row.target, row.value) for row in rows]
    columns["baseline"] = [
        row.baseline if row.baseline_value is None else f"{row.baseline}: {row.baseline_value:.4g}" for row in rows
    ]
    columns["ratio"] = ["" if row.ratio is None else f"{row.ratio:.3f}" for row in rows]
    columns["ratios"] = [_range(row.ratio_spread) for row in rows]
    columns["ratio's target"] = [_goal("≥", row.least, row.ratio) + _goal("≤", row.most, row.ratio) for row in rows]
    columns |= {name: [of(row) for row in rows] for name, of in (more or {}).items()}
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    shown = Table(title=title, title_justify="left")
    for name in columns:
        shown.add_column(name, justify="left" if name in ("case", "baseline", *(more or {})) else "right")
    for cells in zip(*columns.values(), strict=True):
        shown.add_row(*cells)
    return shown


def _sizes(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row.size))


def _range(values: tuple[float, float] | None) -> str:
    return "" if values is None else f"{values[0]:.4g}-{values[1]:.4g}"


def _goal(sign: str, goal: float | None, value: float | None) -> str:
    """Say what is to be reached, or not to be passed, and whether it is so."""
    if goal is None or value is None:
        return ""
    met = value >= goal if sign == "≥" else value <= goal
    return f"[green]{sign} {goal:g}[/]" if met else f"[red]{sign} {goal:g}, missed[/]"


def as_json(about: dict[str, Any], rows: Sequence[Row]) -> str:
    """Give the text of a file of results: what they are of, and an object for each row, a line each.

    All rows have all sizes that any has; what is in `Row.more` stands beside the rest.
    """
    sizes: dict[str, int | None] = dict.fromkeys(_sizes(rows))

    def short(value: Any) -> Any:
        if isinstance(value, float):
            return float(f"{value:.5g}")
        if isinstance(value, dict):
            return {key: short(v) for key, v in value.items()}
        return [short(v) for v in value] if isinstance(value, tuple | list) else value

    def plain(row: Row) -> Any:
        found = asdict(row)
        size, more = found.pop("size"), found.pop("more")
        return short({"case": found.pop("case")} | sizes | size | found | more)

    return by_line({"machine": about, "results": [plain(row) for row in rows]})


def by_line(saved: Mapping[str, Any]) -> str:
    """Give JSON in which each key, and each object of a list, has a line: what changed can then be seen."""

    def value(of: Any) -> str:
        if isinstance(of, list) and any(isinstance(item, dict) for item in of):
            return "[\n  " + ",\n  ".join(map(json.dumps, of)) + "\n ]"
        return json.dumps(of)

    return "{\n" + ",\n".join(f" {json.dumps(key)}: {value(of)}" for key, of in saved.items()) + "\n}\n"


def save(path: Path | None, about: dict[str, Any], rows: Sequence[Row], console: Console) -> None:
    """Write a file of results, if one is asked for, and say so."""
    if path is not None:
        path.write_text(as_json(about, rows))
        console.print(f"written: {path}")
