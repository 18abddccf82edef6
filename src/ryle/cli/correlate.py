"""`ryle correlate`: offline, as fast as the machine goes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ryle.cli.arguments import RECORDINGS, ObservationFile, OutputDirectory, Overwrite
from ryle.cli.completion import files


def correlate(
    file: ObservationFile,
    inputs: Annotated[
        list[Path],
        typer.Option(
            "--input",
            "-i",
            help="Recording: VDIF, pcap of packets, or chunks of a trigger; may be repeated.",
            exists=True,
            autocompletion=files(*RECORDINGS),
        ),
    ],
    more: Annotated[
        list[Path] | None, typer.Argument(help="Further recordings.", exists=True, autocompletion=files(*RECORDINGS))
    ] = None,
    output: OutputDirectory = None,
    overwrite: Overwrite = False,
    live: Annotated[
        bool, typer.Option("--live", help="As a live correlator: from the first whole integration of a capture.")
    ] = False,
) -> None:
    """Correlate recordings: VDIF, mapped to antennas by the [vdif] table, captures of packets, or triggers' chunks."""
    from rich.console import Console

    from ryle.monitor.progress import working

    console = Console(stderr=True)
    with working(f"reading {file}", console):  # imports take longer
        from ryle.config import load
        from ryle.engines.deliver import deliver
        from ryle.engines.offline import correlate as run

        observation = load(file)
    for result in run(observation, [*inputs, *(more or [])], output, console, overwrite=overwrite, live=live):
        if result.integrations:
            deliver(observation, result.file, console)
