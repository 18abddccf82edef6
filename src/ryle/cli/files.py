"""`ryle export`, `recover`, `plot`, `image`: what is done with a visibility file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

VisibilityFile = Annotated[Path, typer.Argument(help="UVH5 file.", metavar="FILE", exists=True)]


def export(
    file: VisibilityFile,
    to: Annotated[list[str], typer.Option("--to", help="ms, uvfits or miriad; may be repeated.")] = ["ms"],  # noqa: B006
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Directory; beside FILE if absent.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
) -> None:
    """Write a visibility file as MeasurementSet, UVFITS or MIRIAD."""
    from ..products.export import export as write

    for form in to:
        typer.echo(write(file, form, directory=output, overwrite=overwrite))


def recover(file: VisibilityFile) -> None:
    """Mend a visibility file whose writer was killed; it keeps every integration that was reported written."""
    from ..products.uvh5 import recover as mend

    typer.echo(mend(file))


def plot(
    file: VisibilityFile,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Directory; beside FILE if absent.")] = None,
) -> None:
    """Draw bandpasses, waterfalls, fringes, lags, closure phases, losses and ADC levels as PNG."""
    from ..products.plots import plot_all

    for picture in plot_all(file, output or file.parent):
        typer.echo(picture)


def image(
    file: Annotated[Path, typer.Argument(help="UVH5 file or MeasurementSet.", metavar="FILE", exists=True)],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="PNG file; FILE with .png if absent.")] = None,
) -> None:
    """Make a dirty image of a phase-tracked field, with true right ascension and declination axes."""
    from ..products.image import picture

    typer.echo(picture(file, output or file.with_suffix(".image.png")))
