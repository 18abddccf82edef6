"""Runs of addresses that an observation's links take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ryle.config.endpoints import Run, own_runs, run_of
from ryle.config.engine_tables import FengineTable, NetworkTable
from ryle.config.tables import AntennaTable, InputTable


class Addressed(Protocol):
    """What an observation says of its links."""

    @property
    def network(self) -> NetworkTable:
        """Addresses."""

    @property
    def fengine(self) -> FengineTable:
        """Whether others' F-engines send."""

    @property
    def inputs(self) -> Sequence[InputTable]:
        """Inputs with addresses of their own."""

    @property
    def streams(self) -> Sequence[InputTable]:
        """All inputs."""

    @property
    def antennas(self) -> Sequence[AntennaTable]:
        """All antennas."""

    @property
    def pols(self) -> int:
        """Polarizations of each."""

    @property
    def substreams(self) -> int:
        """X-engines' shares of the band."""

    @property
    def catchers(self) -> int:
        """Catchers that share them."""


def digitizer_runs(o: Addressed) -> list[Run]:
    """Give what digitizers send to, by the keys that say so."""
    if o.fengine.packets is not None:  # no digitizer sends then
        return []
    runs = [run for i, a in enumerate(o.antennas) for run in own_runs(f"array.antennas[{i}].digitizers", a.digitizers)]
    runs += [run for i, entry in enumerate(o.inputs) for run in own_runs(f"inputs[{i}].digitizers", entry.digitizers)]
    told = all(s.digitizers or o.antennas[i // o.pols].digitizers for i, s in enumerate(o.streams))
    return runs if told else [run_of("digitizers", o.network.digitizers, len(o.antennas)), *runs]


def spectra_runs(o: Addressed) -> list[Run]:
    """Give what F-engines send to, unless each X-engine has an address of its own."""
    return [] if o.network.x_engines else [run_of("spectra", o.network.spectra, max(1, o.substreams))]


def visibilities_run(o: Addressed) -> Run:
    """Give what X-engines send to."""
    return run_of("visibilities", o.network.visibilities, o.catchers)


def free_port(o: Addressed) -> int:
    """Give the next port above that of visibilities which no other key has; the next below if there is none."""
    taken = {e.port for e in o.network.x_engines}
    for run in (*digitizer_runs(o), *spectra_runs(o), visibilities_run(o)):
        taken |= set(run.numbers) if run.by_port else {run.first.port}
    port = o.network.visibilities.port
    found: int = next(p for p in (*range(port + 1, 65536), *range(port - 1, 0, -1)) if p not in taken)
    return found
