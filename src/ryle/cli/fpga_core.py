"""What the commands of `ryle fpga` share: where the core is, and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ryle.fpga.core import Core

At = Annotated[
    str,
    typer.Option(
        "--at",
        help="Where the registers are: sim:SOCKET, map:FILE (a PCIe BAR), map:FILE@OFFSET, tapcp:HOST:PORT/DEVICE.",
        envvar="RYLE_FPGA",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
NO_FPGA = "sim:/tmp/ryle-fpga"


@contextmanager
def opened(at: str) -> Iterator[Core]:
    """Open a core, and close it at the end."""
    from ryle.fpga.core import Core

    with Core(at) as core:
        yield core


def print_json(value: Any) -> None:
    """Print a line of JSON."""
    import json

    typer.echo(json.dumps(value))
