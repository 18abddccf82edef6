"""`ryle listen`: integrations that a correlator serves, as they come."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def listen(
    address: Annotated[str, typer.Argument(help="What output.stream says.", metavar="HOST:PORT")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="UVH5 file to write.")] = None,
    integrations: Annotated[int | None, typer.Option("--count", help="How many are enough.", min=1)] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
) -> None:
    """Receive the integrations that a correlator serves by TCP, a line for each, until it ends.

    Listening slows nothing down: who is too slow misses integrations, and is told how many.
    """
    from ryle.monitor.progress import working

    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or not 0 < int(port) < 65536:
        raise typer.BadParameter(f'{address!r} is no address: write "host:port", such as 10.0.0.5:17950')
    with working("getting ready"):
        from ryle.engines.listen import listen as receive

    receive(host.strip("[]"), int(port), output, typer.echo, integrations=integrations, overwrite=overwrite)
