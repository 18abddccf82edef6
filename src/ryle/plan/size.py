"""How many engines, GPUs, servers and switch ports an array needs, and what they draw and cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ryle.plan.hardware import Gpu, Hardware, Server
from ryle.plan.loads import Load, f_load, fx_load, x_load
from ryle.plan.work import Work

Kind = Literal["f", "x", "fx"]
_HOURS = 8766.0  # of a year


class TooMuchError(Exception):
    """An array that this hardware cannot take, however much of it there is."""


@dataclass(frozen=True)
class Part:
    """Engines of a kind, each on a GPU of its own.

    Parameters
    ----------
    kind : "f", "x" or "fx"
        What they do.
    engines : int
        How many there are.
    each : int
        Antennas of an F-engine, channels of an X-engine; of FX the GPUs that share the work.
    load : Load
        Of the one with most to do.
    servers : int
        That they fill.
    """

    kind: Kind
    engines: int
    each: int
    load: Load
    servers: int


@dataclass(frozen=True)
class Plan:
    """What an array needs.

    Parameters
    ----------
    work : Work
        The array.
    server, gpu : Server, Gpu
        The hardware.
    parts : tuple of Part
        F- and X-engines, or FX.
    catchers : int
        That write files.
    ports, switches : int
        Of switches, digitizers' ports included.
    groups : int
        Of multicast, or addresses.
    memory : float
        Bytes of receive rings on a server, at most.
    watts : float
        Of all servers, GPUs and switches, without the building.
    price : float
        Of all of these; 0 if no prices are given.
    energy_price : float
        Of the years that are asked for.
    """

    work: Work
    server: Server
    gpu: Gpu
    parts: tuple[Part, ...]
    catchers: int
    ports: int
    switches: int
    groups: int
    memory: float
    watts: float
    price: float
    energy_price: float

    @property
    def servers(self) -> int:
        """All servers."""
        return sum(part.servers for part in self.parts)

    @property
    def gpus(self) -> int:
        """GPUs that are used."""
        return sum(part.engines for part in self.parts)

    @property
    def file_bytes_a_day(self) -> float:
        """Bytes of visibilities a day."""
        return 86400 * self.work.output_bytes


def plan(
    work: Work,
    hardware: Hardware,
    server: str = "h200",
    *,
    margin: float = 0.8,
    skew: float = 0.1,
    form: Literal["auto", "f+x", "fx"] = "auto",
) -> Plan:
    """Size a correlator.

    Parameters
    ----------
    work : Work
        What there is to do.
    hardware : Hardware
        What can do it.
    server : str
        Which kind of server.
    margin : float
        Share of each resource that may be used.
    skew : float
        Seconds that antennas may be apart, which rings hold twice.
    form : "auto", "f+x" or "fx"
        F- and X-engines, or both in one process where one server takes the whole array; auto: FX where it fits.

    Raises
    ------
    TooMuchError
        If one antenna or one channel is more than a GPU takes; says which resource and by how much.
    """
    machine = hardware.servers[server]
    gpu = hardware.gpus[machine.gpu]
    parts: tuple[Part, ...] = ()
    if form != "f+x":
        parts = _whole(work, gpu, machine, margin)
        if not parts and form == "fx":
            least = fx_load(work, 1 / machine.gpus, gpu, machine)
            raise TooMuchError(
                f"F and X of {work.name} in one process use {least.most:.3g} times the {least.bottleneck} of all "
                f"{machine.gpus} GPUs of a server; plan F- and X-engines apart"
            )
    if not parts:
        parts = (_f_engines(work, gpu, machine, margin), _x_engines(work, gpu, machine, margin))
    return _counted(work, hardware, machine, gpu, parts, margin, skew)


def _whole(work: Work, gpu: Gpu, machine: Server, margin: float) -> tuple[Part, ...]:
    """FX on as few GPUs of one server as take the array."""
    for count in range(1, machine.gpus + 1):
        load = fx_load(work, 1 / count, gpu, machine)
        if load.most <= margin and work.antennas >= count:
            return (Part("fx", count, count, load, 1),)
    return ()


def _f_engines(work: Work, gpu: Gpu, machine: Server, margin: float) -> Part:
    def load(antennas: int) -> Load:
        return f_load(work, antennas * work.pols, gpu, machine)

    each = _most(load, work.antennas, margin, f"an antenna of {work.name}", "cut the band into more of them (bands)")
    engines = -(-work.antennas // each) * work.bands
    each = -(-work.antennas // (engines // work.bands))
    return Part("f", engines, each, load(each), -(-engines // machine.gpus))


def _x_engines(work: Work, gpu: Gpu, machine: Server, margin: float) -> Part:
    def load(channels: int) -> Load:
        return x_load(work, channels * work.bandwidth / work.channels, gpu, machine)

    each = _most(load, work.channels, margin, f"a channel of {work.name}", "more channels, each narrower")
    engines = -(-work.channels // each) * work.bands
    return Part("x", engines, each, load(each), -(-engines // machine.gpus))


def _most(load: Callable[[int], Load], limit: int, margin: float, what: str, instead: str) -> int:
    """Find the largest count of which an engine uses no more than a margin of anything."""
    if (one := load(1)).most > margin:
        raise TooMuchError(
            f"{what} uses {one.most:.3g} of a GPU's {one.bottleneck}, where {margin:g} may be used: {instead}, "
            "or take other hardware"
        )
    low, high = 1, limit
    while low < high:
        middle = -(-(low + high) // 2)
        if load(middle).most <= margin:
            low = middle
        else:
            high = middle - 1
    return low


def _counted(
    work: Work,
    hardware: Hardware,
    machine: Server,
    gpu: Gpu,
    parts: tuple[Part, ...],
    margin: float,
    skew: float,
) -> Plan:
    switch, money = hardware.switch, hardware.money
    servers = sum(part.servers for part in parts)
    digitizers = math.ceil(work.inputs * work.bands * work.input_wire / (margin * switch.port))
    ports = servers * math.ceil(machine.cards * machine.card / switch.port) + digitizers
    busiest = max(
        (part.load.shares["card in"] * machine.card * machine.cards / machine.gpus for part in parts), default=0.0
    )
    watts = sum(part.load.watts * part.engines for part in parts) + servers * machine.watts
    switches = _switches(ports, switch.ports)
    watts += switches * switch.watts
    price = servers * (machine.price + machine.gpus * gpu.price) + switches * switch.price
    return Plan(
        work,
        machine,
        gpu,
        parts,
        catchers=max(1, math.ceil(work.output_bytes / (margin * machine.disk))),
        ports=ports,
        switches=switches,
        groups=work.inputs * work.bands + sum(part.engines for part in parts if part.kind == "x"),
        memory=2 * skew * busiest / 8 * machine.gpus,
        watts=watts,
        price=price,
        energy_price=watts * 1e-3 * money.overhead * money.years * _HOURS * money.kilowatt_hour,
    )


def _switches(ports: int, each: int) -> int:
    """One switch, or leaves with as many ports up as down, and spines."""
    if ports <= each:
        return 1
    leaves = -(-ports // (each // 2))
    return leaves + -(-leaves * (each // 2) // each)
