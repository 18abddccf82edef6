"""`ryle example`: observation files to start from."""

from __future__ import annotations

from typing import Annotated

import typer


def example(name: Annotated[str, typer.Argument(help="Which one; none lists them.")] = "") -> None:
    """Print a shipped observation file, to save and edit: `ryle example demo > my-array.toml`."""
    from ..config import example, example_names

    if not name:
        typer.echo("\n".join(example_names()))
    else:
        typer.echo(example(name).read_text(), nl=False)
