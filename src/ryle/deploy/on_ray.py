"""A run on the hosts of a Ray cluster, which starts and watches its engines; data never passes through Ray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from ryle.config import Observation
from ryle.deploy.cluster import joined, nodes
from ryle.deploy.processes import deployment
from ryle.deploy.ray_site import OnRay
from ryle.engines.run import RunResult, run_processes
from ryle.engines.supervisor import RunError
from ryle.plan.checks import load_placement
from ryle.plan.hardware import read_hardware
from ryle.plan.placement import place, written
from ryle.plan.placement_file import PlacementFile, parse_placement


def plan_of(ray: Any, o: Observation) -> PlacementFile:
    """Place an observation's engines on the hosts of a cluster, as ``ryle plan`` does on servers of one kind.

    Raises
    ------
    RunError
        If they have no room there.
    """
    found = [node for node in nodes(ray) if node.cores]
    if not found:
        raise RunError("no node of the Ray cluster has a core to give: `ray status`")
    hardware = read_hardware(None)
    least = hardware.servers["h200"].model_copy(
        update={"cores": min(n.cores for n in found), "gpus": min(n.gpus for n in found), "nodes": 1}
    )
    hardware = hardware.model_copy(update={"servers": {**hardware.servers, "h200": least}})
    placement = place(o, hardware, "h200", [n.host for n in found], 1.0)
    if placement.problems:
        raise RunError(
            f"the cluster's hosts are too few or too small: {placement.problems[0]}; see `ryle plan {o.source}`"
        )
    return parse_placement(written(o, placement, least), "the cluster's plan")


def run_on_ray(
    o: Observation,
    output: Path | None,
    console: Console,
    address: str | None = None,
    placement: Path | None = None,
    *,
    simulate: bool = True,
    overwrite: bool = False,
) -> RunResult:
    """Run an observation on the hosts of a cluster; see `ryle.engines.run.run_processes`.

    Parameters
    ----------
    address : str, optional
        Of the cluster's head; see `ryle.deploy.cluster.connect`.
    placement : Path, optional
        What runs where; all hosts of the cluster are filled in order if absent.
    """
    with joined(address) as ray:
        if placement is not None:
            plan, _ = load_placement(placement, observation=Path(o.source))
        else:
            plan, placement = plan_of(ray, o), Path("the cluster's plan")
        simulated = simulate and o.simulate is not None
        with OnRay(ray, deployment(plan, o, placement, simulate=simulated), console) as site:
            return run_processes(o, output, simulate=simulate, console=console, overwrite=overwrite, site=site)
