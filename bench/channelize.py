"""Time the F-engine on a GPU: ``python bench/channelize.py [--quick | --full] [--json FILE]``, as ``ryle bench channelize``."""

from pathlib import Path
from typing import Annotated

import typer

from ryle.bench.channelize import bench_channelize


def main(
    seconds: Annotated[float | None, typer.Option(help="Time for all of it; 210 by default, 55 if quick.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Only what targets refer to.")] = False,
    full: Annotated[bool, typer.Option("--full", help="All powers of two of channels too.")] = False,
    cufftdx: Annotated[Path | None, typer.Option(help="Folder that bench/cufftdx.py made.")] = None,
    json: Annotated[Path | None, typer.Option("--json", help="Also write the figures to this file.")] = None,
) -> None:
    bench_channelize(seconds, full, json, cufftdx, quick)


if __name__ == "__main__":
    typer.run(main)
