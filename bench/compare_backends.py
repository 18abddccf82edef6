"""Say whether CPU and GPU agree: ``python bench/compare_backends.py [--engine fengine|xengine|both] [FILE_A FILE_B]``.

Without files, packets of bench/capture.toml are simulated and correlated on the CPU, then with the F-engine on the GPU,
which must agree within quantization noise, and with the X-engine on it, which must be equal in data, flags and
nsamples. With two UVH5 files of the same samples, these are compared. Exit status 1 says that they do not agree.
"""

import sys
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ryle.bench.compare import backends, compare
from ryle.config import load
from ryle.gpu import GpuUnavailable

CAPTURE = Path(__file__).with_name("capture.toml")


class Engine(StrEnum):
    """What runs on the GPU."""

    FENGINE = "fengine"
    XENGINE = "xengine"
    BOTH = "both"


def main(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Two correlations of the same samples.", exists=True)
    ] = None,
    engine: Annotated[Engine, typer.Option(help="What runs on the GPU; both: one after the other.")] = Engine.BOTH,
    observation: Annotated[Path, typer.Option(help="What is simulated.")] = CAPTURE,
    output: Annotated[Path | None, typer.Option(help="Keep capture and correlations here.")] = None,
) -> None:
    if files:
        if len(files) != 2:
            raise typer.BadParameter(f"{len(files)} files given; give two, or none")
        found = compare(*files)
        print(found)
        raise typer.Exit(not found.agree)
    wrong = False
    with tempfile.TemporaryDirectory() as folder:
        for name in ("fengine", "xengine") if engine is Engine.BOTH else (str(engine),):
            try:
                found = backends(load(observation), name, output or Path(folder))
            except GpuUnavailable as reason:
                sys.exit(f"there is no GPU to compare with: {reason}")
            wrong |= not (found.identical if name == "xengine" else found.agree)
            print(f"CPU, and CPU with the {name} on the GPU:\n{found}\n")
    raise typer.Exit(wrong)


if __name__ == "__main__":
    typer.run(main)
