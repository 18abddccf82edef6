"""Measured figures of a GPU: one row each, as a table and as a file of JSON."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from ryle import __version__
from ryle.gpu.interface import Gpu


@dataclass(slots=True)
class Row:
    """One measured figure.

    Parameters
    ----------
    case : str
        What ran: "fused", "three kernels", one of its parts, "cuFFT c2c", "HBM copy".
    channels, taps, bits : int, optional
        Shape of the work, where it has one. Of a transform alone, `channels` is the number of its values.
    value : float
        Median.
    unit : str
        Unit of `value` and `baseline_value`.
    baseline : str
        What took turns with it; empty if nothing did.
    baseline_value : float, optional
        That one's median.
    ratio : float, optional
        Value over the baseline's: more is better (less for energy).
    spread : tuple of float, optional
        First and last quartile of the value.
    target, least : float, optional
        What the value, and the ratio, are to reach.
    more : dict
        Streams, spectra, layout, policy and further numbers.
    """

    case: str
    channels: int | None
    taps: int | None
    bits: int | None
    value: float
    unit: str = "Gsample/s"
    baseline: str = ""
    baseline_value: float | None = None
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    target: float | None = None
    least: float | None = None
    more: dict[str, Any] = field(default_factory=dict)


def commit() -> str:
    """Commit of the source tree that this module lies in; RYLE_COMMIT where that is no repository."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("RYLE_COMMIT", "unknown")


def machine(gpu: Gpu) -> dict[str, Any]:
    """Describe the GPU and this program."""
    query = ("driver_version", "clocks.sm", "clocks.max.sm", "clocks.mem", "power.limit", "temperature.gpu")
    about: dict[str, Any] = {"gpu": gpu.name, "arch": gpu.arch, "multiprocessors": gpu.multiprocessors}
    about |= {"memory_bytes": gpu.memory_bytes, "cuda": gpu.driver, "date": datetime.now(UTC).strftime("%Y-%m-%d")}
    about |= {"ryle": __version__, "commit": commit(), "numpy": np.__version__}
    command = ["nvidia-smi", f"--query-gpu={','.join(query)}", "--format=csv,noheader", "--id=0"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout
        about |= dict(zip(query, (word.strip() for word in answer.strip().split(",")), strict=True))
    except (OSError, subprocess.SubprocessError, ValueError):
        pass
    return about


def table(rows: list[Row]) -> Table:
    """Show the rows: the more the better, but for energy."""
    shown = Table("case", "channels", "taps", "bits", "form", "value", "quartiles", "target", "baseline", "ratio")
    for column in (1, 2, 3, 5, 6, 7, 9):
        shown.columns[column].justify = "right"
    for r in rows:
        streams = r.more.get("streams", 2)
        form = [f"{streams} streams"] if streams != 2 else []
        form += [r.more["layout"]] if r.more.get("layout", "blocks") != "blocks" else []
        form += ["packets"] if r.more.get("policy", "flat") != "flat" else []
        met = "" if r.target is None else "[green]" if r.value >= r.target else "[red]"
        kept = "" if r.least is None or r.ratio is None else "[green]" if r.ratio >= r.least else "[red]"
        shown.add_row(
            r.case,
            *("" if v is None else str(v) for v in (r.channels, r.taps, r.bits)),
            ", ".join(form),
            f"{r.value:.4g} {r.unit}",
            "" if r.spread is None else f"{r.spread[0]:.4g}-{r.spread[1]:.4g}",
            "" if r.target is None else f"{met}≥ {r.target:g}[/]",
            "" if r.baseline_value is None else f"{r.baseline}: {r.baseline_value:.4g}",
            "" if r.ratio is None else f"{r.ratio:.2f}" + (f" {kept}≥ {r.least:g}[/]" if kept else ""),
        )
    return shown


def as_json(about: dict[str, Any], rows: Sequence[Any]) -> str:
    """Give the text of a file of results: a header and one object a line for each figure, a dataclass with ``more``."""

    def short(value: Any) -> Any:
        if isinstance(value, float):
            return float(f"{value:.5g}")
        return [short(v) for v in value] if isinstance(value, tuple | list) else value

    def line(row: Any) -> str:
        found = {key: short(value) for key, value in asdict(row).items() if key != "more"}
        return json.dumps(found | {key: short(value) for key, value in row.more.items()})

    return f'{{\n "machine": {json.dumps(about)},\n "results": [\n  ' + ",\n  ".join(map(line, rows)) + "\n ]\n}\n"
