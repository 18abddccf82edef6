"""`ryle example`: observation files to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ryle.cli.completion import examples


def example(
    name: Annotated[str, typer.Argument(help="Which one; none lists them.", autocompletion=examples)] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the file and those that it reads.")
    ] = None,
) -> None:
    """Print a shipped observation file, to save and edit: `ryle example demo > my-array.toml`.

    Some read a table of antennas from a file beside them: with --output both are written.
    """
    from ryle.config import example, example_files, example_names, example_title

    if not name:
        width = max(map(len, example_names()))
        typer.echo("\n".join(f"{each:{width}}  {example_title(each)}" for each in example_names()))
        typer.echo("start with one: ryle example NAME -o . writes it, ryle check NAME.toml explains it", err=True)
    elif output is None:
        typer.echo(example(name).read_text(), nl=False)
        if others := [path.name for path in example_files(name)[1:]]:
            typer.echo(f"it reads {', '.join(others)} too; ryle example {name} -o . writes all of it", err=True)
    else:
        output.mkdir(parents=True, exist_ok=True)
        for path in example_files(name):
            to = output / path.name
            try:
                with to.open("x") as file:  # somebody's edited copy is never overwritten
                    file.write(path.read_text())
            except FileExistsError:
                typer.echo(f"{to} exists already; remove it or choose another folder", err=True)
                raise typer.Exit(1) from None
            typer.echo(f"wrote {to}", err=True)
