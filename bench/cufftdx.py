"""Compile cuFFTDx's transforms for `ryle bench channelize --cufftdx FOLDER`: ``python bench/cufftdx.py FOLDER [ARCH]``."""

from pathlib import Path

import typer

from ryle.bench.cufftdx import compile_all


def main(folder: Path, arch: str = "sm_90a") -> None:
    compile_all(folder, arch)


if __name__ == "__main__":
    typer.run(main)
