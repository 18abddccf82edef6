"""`ryle demo`: the first ten minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ryle.cli.arguments import Overwrite


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Directory for everything made.")] = Path(
        "demo-output"
    ),
    overwrite: Overwrite = False,
) -> None:
    """Observe a simulated sky with ten antennas over real UDP packets; compare what was found with what is there."""
    from ryle.monitor.progress import working

    with working("getting ready"):
        from ryle.engines.demo import run_demo

    raise typer.Exit(0 if run_demo(output, overwrite=overwrite) else 1)
