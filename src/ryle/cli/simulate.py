"""`ryle simulate`: a simulated array's digitizers."""

from __future__ import annotations

from typing import Annotated

import typer

from ryle.cli.arguments import ObservationFile


def simulate(
    file: ObservationFile,
    speed: Annotated[str, typer.Option(help='Fraction of real time, or "max"; the file\'s if absent.')] = "",
    duration: Annotated[str, typer.Option(help='How much signal, such as "10 s"; the file\'s if absent.')] = "",
    loss: Annotated[float | None, typer.Option(min=0, max=1, help="Fraction of packets lost.")] = None,
    duplicate: Annotated[float | None, typer.Option(min=0, max=1, help="Fraction sent twice.")] = None,
    reorder: Annotated[float | None, typer.Option(min=0, max=1, help="Fraction overtaken by later ones.")] = None,
    corrupt: Annotated[float | None, typer.Option(min=0, max=1, help="Fraction damaged.")] = None,
    fault_seed: Annotated[int | None, typer.Option(min=0, help="Seed of the four above.")] = None,
    pcap: Annotated[str, typer.Option(help="Write the packets to this capture file instead of sending them.")] = "",
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True)] = False,
) -> None:
    """Send the packets of a simulated array, of its digitizers or of others' F-engines, as [simulate] has it."""
    from ryle.engines.simulator import overridden, record, serve

    faults = {"loss": loss, "duplicate": duplicate, "reorder": reorder, "corrupt": corrupt, "seed": fault_seed}
    observation = overridden(file, speed, duration, {k: v for k, v in faults.items() if v is not None})
    if pcap:
        record(observation, pcap)
    else:
        serve(observation, supervised)
