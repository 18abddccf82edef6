"""`ryle correlate`: offline, as fast as the machine goes."""

from __future__ import annotations

from typing import Annotated

import typer

from ryle.cli.arguments import RECORDINGS, ObservationFile, On, OutputDirectory, Overwrite, RayHead, recordings
from ryle.cli.completion import files


def correlate(
    file: ObservationFile,
    inputs: Annotated[
        list[str],
        typer.Option(
            "--input",
            "-i",
            help="Recording: VDIF, pcap of packets, or chunks of a trigger, a file or a URL; may be repeated.",
            callback=recordings,
            autocompletion=files(*RECORDINGS),
        ),
    ],
    more: Annotated[
        list[str] | None,
        typer.Argument(help="Further recordings.", callback=recordings, autocompletion=files(*RECORDINGS)),
    ] = None,
    output: OutputDirectory = None,
    overwrite: Overwrite = False,
    live: Annotated[
        bool, typer.Option("--live", help="As a live correlator: from the first whole integration of a capture.")
    ] = False,
    on: On = None,
    ray: RayHead = None,
    pieces: Annotated[
        int | None, typer.Option(help="With --on ray: how many pieces; what suits the cluster if absent.", min=1)
    ] = None,
) -> None:
    """Correlate recordings: VDIF, mapped to antennas by the [vdif] table, captures of packets, or triggers' chunks."""
    from rich.console import Console

    from ryle.monitor.progress import working

    if on is None and (ray or pieces):
        raise typer.BadParameter("is of a cluster: add --on ray", param_hint="--ray" if ray else "--pieces")
    if on is not None and live:
        raise typer.BadParameter(
            "begins with the first whole integration, which only who reads all knows: leave --on or this out",
            param_hint="--live",
        )
    console = Console(stderr=True)
    with working(f"reading {file}", console):  # imports take longer
        from ryle.config import load
        from ryle.engines.deliver import deliver
        from ryle.engines.offline import correlate as correlate_here
        from ryle.store.fetch import Recording

        observation, named = load(file), [*inputs, *(more or [])]
    if on is not None:
        from ryle.deploy.offline import correlate_anywhere

        results = correlate_anywhere(
            observation, named, output, console, address=ray, pieces=pieces, overwrite=overwrite
        )
    else:
        with working("fetching recordings", console):
            here = [Recording.of(name).local() for name in named]
        results = correlate_here(observation, here, output, console, overwrite=overwrite, live=live)
    for result in results:
        if result.integrations:
            deliver(observation, result.file, console)
