"""Time the X-engine on a GPU: ``python bench/correlate.py [--quick] [--json FILE] [--runs N]``, as ``ryle bench correlate``."""

from pathlib import Path
from typing import Annotated

import typer

from ryle.bench.correlate import bench_correlate


def main(
    json: Annotated[Path | None, typer.Option("--json", help="Also write the figures to this file.")] = None,
    runs: Annotated[int, typer.Option(help="How often each case is run.", min=1)] = 3,
    seconds: Annotated[float | None, typer.Option(help="Time for all of it; 220 by default, 80 if quick.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Only what targets refer to.")] = False,
) -> None:
    bench_correlate(json, runs, seconds, quick)


if __name__ == "__main__":
    typer.run(main)
