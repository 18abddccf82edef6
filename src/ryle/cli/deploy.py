"""``ryle deploy``: what a site's own scheduler runs, from a placement."""

from __future__ import annotations

import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ryle.cli.completion import files as named


class Scheduler(StrEnum):
    """What starts engines."""

    SYSTEMD = "systemd"
    SLURM = "slurm"
    KUBERNETES = "kubernetes"


def deploy(
    placement: Annotated[Path, typer.Argument(help="what `ryle plan -o` wrote", autocompletion=named(".toml"))] = Path(
        "placement.toml"
    ),
    to: Annotated[Scheduler, typer.Option(help="what is to start engines and watch them")] = Scheduler.SYSTEMD,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="directory for the files that are made", file_okay=False)
    ] = Path("deploy"),
    file: Annotated[str, typer.Option(help="where hosts have the observation file; if absent where it lies here")] = "",
    data: Annotated[str, typer.Option(help="directory for data on hosts")] = "/var/lib/ryle",
    ryle: Annotated[str, typer.Option(help="path of the command on hosts; if absent that of this one")] = "",
    hardware: Annotated[
        Path | None, typer.Option(help="file of servers, as of `ryle plan`", autocompletion=named(".toml"))
    ] = None,
    user: Annotated[str, typer.Option(help="systemd: whom engines run as; root if absent")] = "",
    time: Annotated[str, typer.Option(help="slurm: limit of the job's time, such as 12:00:00")] = "",
    image: Annotated[str, typer.Option(help="kubernetes: image with Ryle in it")] = "ryle:latest",
    check: Annotated[bool, typer.Option("--check", help="only say whether the placement is right")] = False,
) -> None:
    """Make systemd units, a Slurm job or Kubernetes manifests of a placement, which is checked as a whole before.

    The exit status is 2 if the placement is wrong: engines without a place, cores given twice, addresses that
    are not the observation's, cards that carry too much.
    """
    from ryle.deploy import kubernetes, read_site, slurm, systemd
    from ryle.plan.hardware import read_hardware

    site = read_site(placement, read_hardware(hardware))
    console = Console(stderr=True)
    console.print(f"{placement}: {len(site.processes)} engines on {len(site.hosts)} hosts, in order")
    if check:
        return
    ryle = ryle or shutil.which("ryle") or str(Path(sys.executable).with_name("ryle"))
    file = file or str(Path(site.observation.source).absolute())
    match to:
        case Scheduler.SYSTEMD:
            made = systemd.files(site, ryle, file, data, user)
        case Scheduler.SLURM:
            made = slurm.files(site, ryle, file, data, time)
        case Scheduler.KUBERNETES:
            made = kubernetes.files(site, ryle, file, data, image)
    for name, text in made.items():
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (output / name).write_text(text)
    console.print(f"written: {output}, {len(made)} files; the first lines of each say how to use it")
