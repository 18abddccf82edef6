"""Measure how pure the F-engine is: ``python bench/precision.py [--backend cuda] [--json FILE]``, as ``ryle bench precision``."""

from pathlib import Path
from typing import Annotated

import typer

from ryle.bench.precision import bench_precision


def main(
    backend: Annotated[str, typer.Option(help="Form of the channelizer.")] = "cpu",
    bits: Annotated[int, typer.Option(help="Bits of the samples for the response of a channel.")] = 16,
    json: Annotated[Path | None, typer.Option("--json", help="Also write the figures to this file.")] = None,
) -> None:
    bench_precision(backend, bits, json)


if __name__ == "__main__":
    typer.run(main)
