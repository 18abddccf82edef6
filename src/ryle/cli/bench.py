"""`ryle bench`: what this machine can sustain."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class What(StrEnum):
    """What can be measured."""

    CPU = "cpu"
    CORRELATE = "correlate"


def bench(
    what: Annotated[What, typer.Argument(help="What to measure.")] = What.CPU,
    json: Annotated[Path | None, typer.Option("--json", help="Also write the figures to this file.")] = None,
    runs: Annotated[int, typer.Option(help="How often everything is measured; on CPUs in fresh processes.", min=1)] = 5,
) -> None:
    """Measure this machine against named baselines: one core at a time, or the X-engine on a GPU.

    Takes about a minute for five runs on a CPU, twice that on a GPU; close other programs for figures that mean
    something.
    """
    if what == What.CORRELATE:
        from ..bench.correlate import bench_correlate

        bench_correlate(json, runs)
        return
    from ..bench.cpu import bench_cpu

    bench_cpu(runs, json)
