"""Time the X-engine on a GPU: ``python bench/correlate.py [--json FILE] [--runs N]``; the same as ``ryle bench correlate``."""

from pathlib import Path
from typing import Annotated

import typer

from ryle.bench.correlate import bench_correlate


def main(
    json: Annotated[Path | None, typer.Option("--json", help="Also write the figures to this file.")] = None,
    runs: Annotated[int, typer.Option(help="How often each case is run.", min=1)] = 3,
) -> None:
    bench_correlate(json, runs)


if __name__ == "__main__":
    typer.run(main)
