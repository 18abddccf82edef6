"""`ryle simulate`: a simulated array's digitizers."""

from __future__ import annotations

from pathlib import Path
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
    vdif: Annotated[
        bool, typer.Option("--vdif", help="Write VDIF files as [vdif] maps them, one a station, instead of sending.")
    ] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="Directory for the VDIF files.")] = Path("."),
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True)] = False,
) -> None:
    """Send the packets of a simulated array, of its digitizers or of others' F-engines, as [simulate] has it.

    With --pcap or --vdif they are written to files, as fast as they can be made.
    """
    from ryle.engines.simulator import overridden, record, serve

    faults = {"loss": loss, "duplicate": duplicate, "reorder": reorder, "corrupt": corrupt, "seed": fault_seed}
    observation = overridden(file, speed, duration, {k: v for k, v in faults.items() if v is not None})
    if vdif:
        from ryle.engines.vdif_recording import record_vdif

        paths = record_vdif(observation, output)
        given = " ".join(f"--input {path}" for path in paths)
        typer.echo(f"correlate them with: ryle correlate {file} {given}", err=True)
    elif pcap:
        record(observation, pcap)
        typer.echo(f"correlate it with: ryle correlate {file} --input {pcap}", err=True)
    else:
        serve(observation, supervised)
