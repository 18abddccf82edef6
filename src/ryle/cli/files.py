"""`ryle export`, `recover`, `join`, `plot`, `image`: what is done with a visibility file."""

from __future__ import annotations

import math
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from ryle.cli.completion import files


class Form(Enum):
    """Formats of `ryle.products.export`."""

    ms = "ms"
    uvfits = "uvfits"
    miriad = "miriad"


class Parameter(Enum):
    """Stokes parameters."""

    I = "I"  # noqa: E741
    Q = "Q"
    U = "U"
    V = "V"


class Weight(Enum):
    """Weightings of `ryle.products.image`."""

    natural = "natural"
    uniform = "uniform"
    robust = "robust"


VisibilityFile = Annotated[
    Path, typer.Argument(help="UVH5 file.", metavar="FILE", exists=True, autocompletion=files(".uvh5"))
]


def export(
    file: VisibilityFile,
    to: Annotated[list[Form], typer.Option("--to", help="May be repeated.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Directory; beside FILE if absent.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    split: Annotated[bool, typer.Option("--split-polarizations", help="One output for each of xx, yy, …")] = False,
    as_recorded: Annotated[
        bool, typer.Option("--as-recorded", help="Leave feeds x and y, though readers take x to the north.")
    ] = False,
) -> None:
    """Write a visibility file as MeasurementSet, UVFITS or MIRIAD.

    Feeds x and y are named as readers of these formats take them: x to the north (the zenith if steered), y across.
    """
    from ryle.monitor.progress import working

    with working("getting ready"):
        from ryle.products.export import SUFFIXES, polarizations
        from ryle.products.export import export as write

    for form in to:
        for product in polarizations(file, as_recorded) if split else (None,):
            name = file.with_suffix(("" if product is None else f".{product}") + SUFFIXES[form.value]).name
            with working(f"writing {name}"):
                done = write(
                    file,
                    form.value,
                    (output or file.parent) / name,
                    overwrite=overwrite,
                    polarization=product,
                    as_recorded=as_recorded,
                )
            for note in done.notes:
                typer.echo(f"note: {note}", err=True)
            typer.echo(done.path)


def recover(file: VisibilityFile) -> None:
    """Mend a visibility file whose writer was killed; it keeps every integration that was reported written."""
    from ryle.monitor.progress import working

    with working(f"mending {file.name}"):
        from ryle.products.uvh5 import recover as mend

        done = mend(file)
    typer.echo(done)


def join(
    bands: Annotated[
        list[Path],
        typer.Argument(
            help="UVH5 files of bands, as several catchers write them.",
            metavar="FILE...",
            exists=True,
            autocompletion=files(".uvh5"),
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to make.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
) -> None:
    """Make one visibility file over those of several catchers, whose data stay where they are.

    `ryle run` does so at its end. Files that are being written can be joined too: with what they hold now.
    """
    from ryle.monitor.progress import working

    with working("joining"):
        from ryle.products.whole_band import join_bands

        integrations = join_bands(output, bands, overwrite=overwrite)
    typer.echo(f"{output} lies over {len(bands)} files and has {integrations} integrations")


def plot(
    file: VisibilityFile,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Directory; beside FILE if absent.")] = None,
) -> None:
    """Draw bandpasses, waterfalls, fringes, lags, closure phases, losses and ADC levels as PNG."""
    from ryle.monitor.progress import working

    with working("drawing pictures"):
        from ryle.products.plots import plot_all

        pictures = plot_all(file, output or file.parent)
    for picture in pictures:
        typer.echo(picture)


def image(
    file: Annotated[
        Path,
        typer.Argument(
            help="UVH5 file or MeasurementSet.", metavar="FILE", exists=True, autocompletion=files(".uvh5", ".ms")
        ),
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="PNG file; FILE with .png if absent.")] = None,
    deconvolve: Annotated[bool, typer.Option("--clean", help="Take the beam's side lobes away (CLEAN).")] = False,
    fits: Annotated[bool, typer.Option("--fits", help="Write the image as FITS too.")] = False,
    stokes: Annotated[Parameter, typer.Option(help="Which parameter.")] = Parameter.I,
    size: Annotated[int, typer.Option(help="Pixels along each side.", min=16, max=16384)] = 512,
    pixel: Annotated[
        float | None, typer.Option(help="Arcseconds along a pixel; a fifth of the finest fringe if absent.", min=1e-6)
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="Sources and CLEAN go down to so many sigma.", min=3, max=1000)
    ] = 5.0,
    weighting: Annotated[Weight, typer.Option(help="How cells of the uv plane are weighted.")] = Weight.natural,
    robust: Annotated[float, typer.Option(help="Briggs' parameter, with robust weighting.", min=-3, max=3)] = 0.0,
) -> None:
    """Image a phase-tracked field, with true right ascension and declination axes, and list its sources."""
    from rich.console import Console

    from ryle.monitor.progress import working

    with working("getting ready"):
        from ryle.products.clean import clean
        from ryle.products.image import make_image
        from ryle.products.plots.coverage import sky_image, source_table
        from ryle.products.sources import find_sources

    target = output or file.with_suffix(".png")
    if target.is_dir():
        target /= file.with_suffix(".png").name
    target.parent.mkdir(parents=True, exist_ok=True)
    with working(f"imaging {file.name}"):
        made = make_image(
            file,
            pixels=size,
            pixel=None if pixel is None else math.radians(pixel / 3600),
            parameter=stokes.value,
            weighting=weighting.value,
            robust=robust,
        )
        found = find_sources(made, threshold=threshold)
        cleaned = clean(made, found, threshold=threshold) if deconvolve else None
    for note in (*made.notes, *found.notes):
        typer.echo(f"note: {note}", err=True)
    typer.echo(sky_image(made, target, found=found, cleaned=cleaned, file=file.name))
    if fits:
        plane = None if cleaned is None else cleaned.restored
        typer.echo(made.write_fits(target.with_suffix(".fits"), plane=plane, overwrite=True))
    Console(soft_wrap=True).print(source_table(found, made.units), highlight=False)
