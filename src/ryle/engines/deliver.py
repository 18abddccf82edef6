"""What an observation file wants besides the UVH5 file: other formats and pictures.

What makes them is imported when it is wanted: pyuvdata and matplotlib take longer to begin than all else together.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from ryle.config import Observation
from ryle.monitor.progress import working


def pictures_directory(observation: Observation, file: Path) -> Path:
    """Where a file's pictures go: beside it, unless an earlier run's are there."""
    return file.parent if file.stem.split(".")[0] == observation.observation.name else file.with_suffix("")


def deliver(observation: Observation, file: Path, console: Console) -> list[Path]:
    """Export a finished file to the formats of ``[output]`` and draw its pictures, if asked for.

    Parameters
    ----------
    observation : Observation
        Says what is wanted.
    file : Path
        UVH5 file.
    console : Console
        Told what is being made and where it went.

    Returns
    -------
    list of Path
        What was made; exports under the file's own name are replaced. The pictures of a file that got a new name,
        because the observation was run before, lie in a directory of that name.
    """
    made: list[Path] = []
    for form in observation.output.formats:
        if form == "uvh5":
            continue
        from ryle.products.export import SUFFIXES, export, polarizations

        split = form == "miriad" and observation.output.split_polarizations
        plain = observation.output.as_recorded
        for product in polarizations(file, plain) if split else (None,):
            with working(f"writing {file.stem}{'' if product is None else f'.{product}'}{SUFFIXES[form]}", console):
                done = export(file, form, overwrite=True, polarization=product, as_recorded=plain)
            made.append(done.path)
            console.print(done.path, *(f"\n  [dim]{note}[/]" for note in done.notes), highlight=False, soft_wrap=True)
    if observation.output.pictures:
        with working("drawing pictures", console):
            from ryle.products.plots import plot_all

            pictures = plot_all(file, pictures_directory(observation, file))
        made += pictures
        console.print(f"{pictures[0].parent}/: {', '.join(p.name for p in pictures)}", highlight=False)
    return made
