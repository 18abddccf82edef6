"""`ryle run`: the whole correlator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ryle.cli.arguments import ObservationFile, OutputDirectory, Overwrite


def run(
    file: ObservationFile,
    output: OutputDirectory = None,
    overwrite: Overwrite = False,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="Everything in one process, without sockets; needs [simulate].")
    ] = False,
    simulate: Annotated[
        bool, typer.Option(help="Start the simulator if the file has [simulate]; else wait for packets.")
    ] = True,
    json: Annotated[
        Path | None, typer.Option("--json", help="At the end write to this file what became of every packet.")
    ] = None,
) -> None:
    """Run the correlator that an observation file describes, until its end or Ctrl-C.

    Starts the simulator (if the file asks for one), the F-engines, the X-engines and the catcher as processes over UDP
    (with [fx] one process in place of these), and shows a live table of rates, losses and states.
    """
    from rich.console import Console

    from ryle.monitor.progress import working

    if in_process and not simulate:
        raise typer.BadParameter("--in-process has no sockets to wait at: leave out it or --no-simulate")
    console = Console(stderr=True)
    with working(f"reading {file}", console):  # imports take longer
        from ryle.config import load
        from ryle.engines.deliver import deliver
        from ryle.engines.offline import run_in_process
        from ryle.engines.run import run_processes

        observation = load(file)
    if in_process:
        result = run_in_process(observation, output, console, overwrite=overwrite)
    else:
        result = run_processes(observation, output, simulate=simulate, console=console, overwrite=overwrite)
    if json is not None:
        json.write_text(result.as_json())
    if result.integrations:
        for written in result.files:
            deliver(observation, written, console)
