"""Time the X-engine on a GPU: ``python bench/correlate.py [--quick] [--json FILE] [--runs N]``, as ``ryle bench correlate``."""

from pathlib import Path
from typing import Annotated

import typer

from ryle.bench.correlate import bench_correlate


def main(
    json: Annotated[Path | None, typer.Option("--json", help="Also write the figures to this file.")] = None,
    runs: Annotated[
        int | None, typer.Option(help="How often each case is run; 3 by default, 2 if quick.", min=1)
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Time for all of it; 220 by default, 100 if quick.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Only what targets refer to.")] = False,
) -> None:
    bench_correlate(json, runs or (2 if quick else 3), seconds, quick)


if __name__ == "__main__":
    typer.run(main)
