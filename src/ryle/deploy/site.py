"""Processes on hosts: a ``placement.toml``, read and checked as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from ryle.config import Observation, load
from ryle.config.observation import Engine
from ryle.deploy.checks import problems
from ryle.deploy.placement_file import EngineTable, PlacementFile
from ryle.plan.hardware import Hardware, Server
from ryle.problems import ConfigError, explain
from ryle.toml_file import read_text, read_toml

#: In what order kinds of engines start: from the end of the signal path, so that nobody sends to nobody.
STARTING: tuple[Engine, ...] = ("catcher", "x", "fx", "f")


@dataclass(frozen=True)
class Process:
    """An engine as a process on a host.

    Parameters
    ----------
    engine, index : Engine, int
        Which.
    host : str
        Where.
    gpu : int or None
        GPU of the host that it is to see; None: all, or none is used.
    cores : tuple of int
        Cores that it is to run on; none: anywhere, or where its own table says.
    """

    engine: Engine
    index: int
    host: str
    gpu: int | None
    cores: tuple[int, ...]

    @property
    def name(self) -> str:
        """What it is called: f0."""
        return f"{self.engine}{self.index}"

    def command(self, ryle: str, file: str, data: str) -> list[str]:
        """Give the words that start it, for a `ryle`, an observation file and a directory for data on its host."""
        index = [] if self.engine == "fx" else ["--index", str(self.index)]
        writes = self.engine in ("catcher", "fx", "f")  # an F-engine writes what triggers ask for
        return [ryle, "engine", self.engine, file, *index, *(["--output", data] if writes else [])]

    @property
    def environment(self) -> dict[str, str]:
        """Give the variables that it is to have."""
        return {} if self.gpu is None else {"CUDA_VISIBLE_DEVICES": str(self.gpu)}


@dataclass(frozen=True)
class Site:
    """All processes of an observation.

    Parameters
    ----------
    observation : Observation
        Whose.
    source : str
        File of the placement.
    hosts : dict of str to Server or None
        By name: what a host is, None if nothing says so.
    processes : tuple of Process
        In the order in which they are to start.
    """

    observation: Observation
    source: str
    hosts: dict[str, Server | None]
    processes: tuple[Process, ...]

    @cached_property
    def name(self) -> str:
        """The observation's name, as names of units and objects may be."""
        plain = "".join(c if c.isalnum() else "-" for c in self.observation.observation.name.lower())
        return "-".join(part for part in plain.split("-") if part) or "observation"

    def on(self, host: str) -> list[Process]:
        """Give the processes of a host."""
        return [p for p in self.processes if p.host == host]

    def raw_sockets(self, process: Process) -> bool:
        """Whether a process receives below the kernel's network stack, which takes rights."""
        return self.observation.receive(process.engine, process.index).by != "udp"


def read_site(path: Path, hardware: Hardware) -> Site:
    """Read a placement.

    Parameters
    ----------
    path : Path
        The file; its observation is found from its directory, unless that is an absolute path.
    hardware : Hardware
        What hosts may be.

    Raises
    ------
    ConfigError
        If the file, or the observation's, is none; if an engine has no place or two, a host is unknown, a core or GPU
        is not there or used twice, addresses are not the observation's, a unicast run is received on two hosts, or a
        host's cards carry more than they can. All that is wrong is told, and how to mend it.
    """
    source = str(path)
    raw = read_toml(
        read_text(path, source, lambda: "no such file; `ryle plan FILE -o placement.toml` makes one"), source
    )
    try:
        file = PlacementFile.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(source, explain(error, PlacementFile, raw)) from None
    observation = load(path.parent / file.plan.observation)
    if wrong := list(problems(file, observation, hardware)):
        raise ConfigError(source, wrong)
    servers = {host.name: hardware.servers.get(host.kind) for host in file.hosts}
    processes = [_process(e, observation) for e in file.engines]
    processes.sort(key=lambda p: (STARTING.index(p.engine), p.index))
    used = {p.host for p in processes}
    return Site(observation, source, {n: s for n, s in servers.items() if n in used}, tuple(processes))


def _process(engine: EngineTable, o: Observation) -> Process:
    """Take an engine's place; what its own table rules is left to it."""
    table = getattr(o, o.engine_table(engine.kind))
    gpus = getattr(table, "gpus", [])
    return Process(
        engine.kind,
        engine.index,
        engine.host,
        None if gpus else engine.gpu,
        () if o.engine_cores(engine.kind, engine.index) else engine.cores,
    )
