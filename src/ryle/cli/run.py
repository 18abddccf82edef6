"""`ryle run`: the whole correlator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ryle.cli.arguments import ObservationFile, On, OutputDirectory, Overwrite, RayHead
from ryle.cli.completion import files


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
    on: On = None,
    ray: RayHead = None,
    placement: Annotated[
        Path | None,
        typer.Option(
            help="With --on: what `ryle plan --output` wrote; else engines are placed on the cluster's hosts.",
            exists=True,
            dir_okay=False,
            autocompletion=files(".toml"),
        ),
    ] = None,
) -> None:
    """Run the correlator that an observation file describes, until its end or Ctrl-C.

    Starts the simulator (if the file asks for one), the F-engines, the X-engines and the catcher as processes over UDP
    (with [fx] one process in place of these), and shows a live table of rates, losses and states. With --on ray they
    run on hosts of a Ray cluster; the same command finds those that run already.
    """
    from rich.console import Console

    from ryle.monitor.progress import working

    if in_process and not simulate:
        raise typer.BadParameter("--in-process has no sockets to wait at: leave out it or --no-simulate")
    if on is None and (ray is not None or placement is not None):
        raise typer.BadParameter("--ray and --placement are for --on ray: add that, or leave them out")
    if on is not None and in_process:
        raise typer.BadParameter("--in-process is this process: leave out it or --on")
    console = Console(stderr=True)
    with working(f"reading {file}", console):  # imports take longer
        from ryle.config import load
        from ryle.engines.deliver import deliver
        from ryle.engines.offline import run_in_process
        from ryle.engines.run import run_processes

        observation = load(file)
    if in_process:
        result = run_in_process(observation, output, console, overwrite=overwrite)
    elif on is not None:
        from ryle.deploy.on_ray import run_on_ray

        result = run_on_ray(observation, output, console, ray, placement, simulate=simulate, overwrite=overwrite)
    else:
        result = run_processes(observation, output, simulate=simulate, console=console, overwrite=overwrite)
    if json is not None:
        json.write_text(result.as_json())
    if result.integrations:
        for written in result.files:
            deliver(observation, written, console)
