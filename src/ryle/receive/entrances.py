"""Entrances: what an observation's engines receive, from wherever it comes, as blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from ryle.config import Endpoint, Observation
from ryle.config.observation import Engine
from ryle.receive.assembly import Assembler, Plan
from ryle.receive.entrance import Entrance
from ryle.receive.receiving import make_source
from ryle.receive.sources import Source
from ryle.stream.block import Block

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

#: Chunks that an engine has besides those that may be open: for its steps, and time for them to be late.
SPARE = 5


class Map(Protocol[T_co]):
    """Which packets an engine gets, and what a block of them is to it."""

    @property
    def plan(self) -> Plan:
        """What the assembler's chunks look like."""

    @property
    def unit(self) -> int:
        """What a unit of the packets' timestamps is in units of the blocks' time."""

    def given(self, block: Block) -> T_co:
        """View a block as the engine takes it; it must not be released before that was used."""


def arrival_rate(o: Observation) -> float:
    """Say how many samples of an input come in a second; 0 if they are simulated without a clock."""
    if o.simulate is None:
        return float(o.sample_rate)
    return 0.0 if o.simulate.speed == "max" else float(o.sample_rate) * o.simulate.speed


def open_chunks(skew: float, span: float) -> int:
    """Chunks of `span` seconds by which streams that are `skew` seconds apart may be, at least one."""
    return max(1, math.ceil(skew / span))


class MappedEntrance(Entrance, Generic[T]):
    """Packets of a map, from a source, as blocks.

    Parameters
    ----------
    observation : Observation
        Says how engines receive.
    engine : "f", "x" or "catcher"
        What kind of engine it is.
    map : Map
        Which packets, and where they go.
    endpoints : sequence of Endpoint
        Where they are sent to.
    index : int
        Which engine of its kind.
    source : callable, optional
        Makes what feeds the assembler; what the observation says if absent.
    name : str
        For accounts.

    Raises
    ------
    OSError, ValueError
        If it cannot receive; says what to do.
    """

    def __init__(
        self,
        observation: Observation,
        engine: Engine,
        map: Map[T],
        endpoints: Sequence[Endpoint],
        *,
        index: int = 0,
        source: Callable[[Assembler], Source] | None = None,
        name: str,
    ) -> None:
        self.map = map
        senders = [(s.network, s.port) for s in observation.receive(engine, index).senders]
        assembler = Assembler(replace(map.plan, senders=senders) if senders else map.plan)
        if source is not None:
            made = source(assembler)
        else:
            largest = max(9216, map.plan.packet_bytes + 512)  # headers with items that nobody asked for, too
            made = make_source(observation, engine, assembler, endpoints, index=index, largest=largest)
        super().__init__(name, assembler, made, unit=map.unit)

    def chunk(self, block: Block) -> T:
        """View a block as the engine takes it."""
        return self.map.given(block)
