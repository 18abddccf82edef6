"""``ryle deploy``: a plan, as what a site's own scheduler runs."""

from __future__ import annotations

import shutil
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ryle.cli.completion import files


class Target(StrEnum):
    """Who is to start engines."""

    SLURM = "slurm"
    SYSTEMD = "systemd"
    KUBERNETES = "kubernetes"


def deploy(
    placement: Annotated[
        Path, typer.Argument(help="what `ryle plan --output` wrote", metavar="FILE", autocompletion=files(".toml"))
    ],
    to: Annotated[Target, typer.Option("--to", help="what starts the engines")],
    output: Annotated[Path, typer.Option("--output", "-o", help="directory for what is written", file_okay=False)],
    observation: Annotated[
        str | None, typer.Option(help="where the observation file is on the hosts; where it is here if absent")
    ] = None,
    program: Annotated[
        str | None, typer.Option(help="where the command `ryle` is on the hosts; where it is here if absent")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="directory on the hosts for visibility files; the observation's if absent")
    ] = None,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="start the simulator too, on the first engine's host, and end after it")
    ] = False,
    shared: Annotated[
        bool, typer.Option("--shared", help="slurm: ask for the plan's cores only, and not for whole hosts")
    ] = False,
    image: Annotated[str | None, typer.Option(help="kubernetes: image with Ryle in it")] = None,
) -> None:
    """Write a plan as a Slurm job, systemd units or Kubernetes manifests, after checking it as a whole.

    Nothing is started. Each file begins with how to run it; files of an earlier plan in the directory are replaced.
    """
    from ryle.deploy import kubernetes, slurm, systemd
    from ryle.deploy.processes import deployment
    from ryle.plan.checks import load_placement

    plan, o = load_placement(placement)
    pods = to == Target.KUBERNETES
    found = deployment(
        plan,
        o,
        placement,
        program=program or ("ryle" if pods else shutil.which("ryle") or "ryle"),
        observation=kubernetes.OBSERVATION if pods else observation,
        data=data or ("/data" if pods else None),
        simulate=simulate,
    )
    if to == Target.SLURM:
        texts = slurm.script(found, exclusive=not shared)
    elif to == Target.SYSTEMD:
        texts = systemd.units(found)
    else:
        texts = kubernetes.manifests(found, image=image, data=data or "/data")
    for name, text in texts.items():
        path = output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    first = next(iter(texts))
    hosts = f"{len(found.hosts)} host{'s' if len(found.hosts) > 1 else ''}"
    said = f"{len(texts)} file{'s' if len(texts) > 1 else ''} in {output}: {len(found.processes)} processes on {hosts}"
    Console().print(f"{said}; {output / first} begins with how to run it", highlight=False, soft_wrap=True)
