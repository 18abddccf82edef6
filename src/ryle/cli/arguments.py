"""Arguments that several subcommands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ObservationFile = Annotated[Path, typer.Argument(help="Observation file (TOML).", metavar="FILE")]
OutputDirectory = Annotated[
    Path | None, typer.Option("--output", "-o", help="Directory for what is written; [output] directory if absent.")
]
