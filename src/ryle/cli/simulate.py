"""`ryle simulate`: a simulated array's digitizers."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import ObservationFile


def simulate(
    file: ObservationFile,
    speed: Annotated[str, typer.Option(help='Fraction of real time, or "max"; the file\'s if absent.')] = "",
    duration: Annotated[str, typer.Option(help='How much signal, such as "10 s"; the file\'s if absent.')] = "",
    pcap: Annotated[str, typer.Option(help="Write the packets to this capture file instead of sending them.")] = "",
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True)] = False,
) -> None:
    """Send the digitizer packets of a simulated array, as its [simulate] table describes sky and receivers."""
    from ..engines.simulator import overridden, record, serve

    observation = overridden(file, speed, duration)
    if pcap:
        record(observation, pcap)
    else:
        serve(observation, supervised)
