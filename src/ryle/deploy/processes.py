"""Processes on hosts: the one description of what runs where that all schedulers' files are written from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from ryle.config import Observation
from ryle.config.observation import Engine
from ryle.engines.budget import memory, packet_buffers
from ryle.plan.checks import gpus_of
from ryle.plan.placement_file import EngineTable, HostTable, PlacementFile

Stage = Literal["simulate", "fx", "f", "x", "catcher"]
#: The order in which stages start, so that nobody sends to nobody. They end in the opposite order.
STARTING: tuple[Stage, ...] = ("catcher", "x", "fx", "f", "simulate")
#: Seconds that an engine may take to finish what it has and close its files: what `ryle run` gives it, and some more.
PATIENCE = 150
#: Seconds until an engine that failed is started again.
AGAIN = 1
#: Bytes of a process besides its buffers: Python, libraries, stacks of threads.
_PROGRAM = 1 << 30


@dataclass(frozen=True)
class Process:
    """One process.

    Parameters
    ----------
    name : str
        f0, x12, catcher0.
    stage : Stage
        Of the signal path.
    host : str
        Where it runs.
    command : tuple of str
        The program and its arguments.
    cores : tuple of int
        That it may run on; none: any.
    numa : int or None
        Node that its memory is from.
    gpus : tuple of int
        Its GPUs, as the host counts them.
    memory : int
        Bytes that it needs.
    huge : int
        Bytes of huge pages among these.
    environment : dict of str to str
        What it needs of its environment.
    """

    name: str
    stage: Stage
    host: str
    command: tuple[str, ...]
    cores: tuple[int, ...] = ()
    numa: int | None = None
    gpus: tuple[int, ...] = ()
    memory: int = 0
    huge: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Deployment:
    """All processes of an observation.

    Parameters
    ----------
    name : str
        Of the observation, in letters that names of units, jobs and objects may have.
    plan : Path
        Of which file.
    observation : Observation
        Which.
    hosts : tuple of HostTable
        Those on which something runs, in the plan's order.
    processes : tuple of Process
        In the order in which they start.
    """

    name: str
    plan: Path
    observation: Observation
    hosts: tuple[HostTable, ...]
    processes: tuple[Process, ...]

    def on(self, host: str) -> list[Process]:
        """List a host's processes."""
        return [p for p in self.processes if p.host == host]

    def stages(self) -> list[Stage]:
        """List the stages that there are, in the order in which they start."""
        return [stage for stage in STARTING if any(p.stage == stage for p in self.processes)]

    def header(self, *words: str) -> str:
        """Write the comment that each file begins with: what it came from, and how to run it."""
        made = f"Made by `ryle deploy` from {self.plan} ({self.observation.source}); made anew, your changes are lost."
        return "".join(f"# {line}\n" if line else "#\n" for line in (made, *words))


def deployment(
    plan: PlacementFile,
    o: Observation,
    path: Path,
    *,
    program: str = "ryle",
    observation: str | None = None,
    data: str | None = None,
    simulate: bool = False,
) -> Deployment:
    """Say what runs where.

    Parameters
    ----------
    plan : PlacementFile
        Checked (`load_placement`).
    o : Observation
        Its observation.
    path : Path
        The plan's file, for people.
    program : str
        What `ryle` is called on the hosts.
    observation : str, optional
        Where the observation file is on the hosts; where it is here if absent.
    data : str, optional
        Directory for what engines write; that of the observation if absent.
    simulate : bool
        Whether the simulator runs too, on the host of the first engine; else an array sends.

    Raises
    ------
    ValueError
        If there is nothing to simulate.
    """
    if simulate and o.simulate is None:
        raise ValueError(f"{o.source} has no table [simulate]: add it, or leave out --simulate")
    file = observation or str(Path(o.source).resolve())
    live = () if simulate else ("--live",)
    written = () if data is None else ("--output", data)
    needs = _Needs(o)
    found = [
        Process(
            e.name,
            e.kind,
            e.host,
            (program, "engine", e.kind, file, *_index(e), *(written if e.kind != "x" else ()), *live),
            e.cores,
            e.numa,
            gpus_of(e, o),
            needs.of(e.kind),
            needs.huge(e.kind),
            _environment(e, o),
        )
        for e in plan.engines
        if not (e.kind == "catcher" and _elsewhere(o))
    ]
    if simulate:
        found.append(Process("simulate", "simulate", found[0].host, (program, "simulate", file), memory=2 * _PROGRAM))
    found.sort(key=lambda p: STARTING.index(p.stage))
    used = {p.host for p in found}
    hosts = tuple(host for host in plan.hosts if host.name in used)
    return Deployment(_label(o.observation.name), path, o, hosts, tuple(found))


def kinds(d: Deployment) -> dict[tuple[int, int], list[HostTable]]:
    """Group hosts by what they have: cores and GPUs."""
    found: dict[tuple[int, int], list[HostTable]] = {}
    for host in d.hosts:
        found.setdefault((host.cores, host.gpus), []).append(host)
    return found


def runs(cores: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Give cores as runs of neighbours, first and last."""
    first = last = None
    for core in sorted(cores):
        if last is not None and core == last + 1:
            last = core
            continue
        if first is not None and last is not None:
            yield first, last
        first = last = core
    if first is not None and last is not None:
        yield first, last


def ranges(cores: tuple[int, ...]) -> str:
    """Write cores as the kernel and systemd do: ``0-3,8``."""
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs(cores))


class _Needs:
    """How much memory engines need, by kind."""

    def __init__(self, o: Observation) -> None:
        self._o, self._buffers = o, memory(o)
        self.huge = cache(self._huge)

    def of(self, kind: Engine) -> int:
        """Give the bytes of one engine, the program's own included."""
        return _PROGRAM + sum(m.bytes for m in self._buffers if m.engine == kind) + self._huge(kind)

    def _huge(self, kind: Engine) -> int:
        """Bytes of huge pages: of DPDK, an engine's packet buffers, at least a GiB, and whole pages."""
        if self._o.receive(kind).by != "dpdk":
            return 0
        return max(1 << 30, -(-packet_buffers(self._o, kind) // (1 << 21)) << 21)


def _index(e: EngineTable) -> tuple[str, ...]:
    return () if e.kind == "fx" else ("--index", str(e.index))


def _environment(e: EngineTable, o: Observation) -> dict[str, str]:
    """Say which GPUs an engine sees: the plan's, unless the observation names them itself."""
    numbers = {"PYTHONUNBUFFERED": "1"}
    gpus = gpus_of(e, o)
    if gpus and not o.gpu_of("x" if e.kind == "x" else "f", e.index):
        # In the order of the bus, which is how the plan and nvidia-smi count them.
        numbers |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))}
    return numbers


def _elsewhere(o: Observation) -> bool:
    """Whether a program of others' takes the visibilities."""
    return o.xengine.sends == "meerkat" and o.catcher.packets is None


def _label(name: str) -> str:
    """Write a name in small letters, digits and hyphens, at most 40."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "observation"
