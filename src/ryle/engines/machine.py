"""What a receiving thread can take, and what this computer lacks for an observation."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass

from ryle.config import Observation, Problem, rates, show
from ryle.config.observation import Engine
from ryle.engines.budget import NAMES
from ryle.engines.places import nodes, ranges
from ryle.problems import listed
from ryle.receive.sockets import granted_buffer

_TABLES: dict[Engine, str] = {"f": "fengine", "x": "xengine", "catcher": "catcher", "fx": "fengine"}


@dataclass(frozen=True)
class Limit:
    """What one receiving thread was measured to take when packets are also placed.

    Parameters
    ----------
    packets : float
        A second, of 8192 bytes or less.
    bits : float
        A second.
    """

    packets: float
    bits: float

    @classmethod
    def of(cls, nanoseconds: float) -> Limit:
        """Make that of a thread which spends so long on a packet of 8192 bytes."""
        return cls(1e9 / nanoseconds, 8 * 8192e9 / nanoseconds)


#: By way of receiving: the column "Assembling" of docs/explanation/assembly.md, "Which source"; for DPDK, whose driver
#: hands packets over in memory, that of memory.
LIMITS = {"udp": Limit.of(1425), "packet_ring": Limit.of(526), "dpdk": Limit.of(205)}
_WAYS = {"udp": "sockets", "packet_ring": "a packet ring", "dpdk": "DPDK"}


def machine_cautions(o: Observation) -> Iterator[Problem]:
    """Warn of what a receiving thread, or this computer's kernel and processor, cannot do."""
    if not o.at_full_speed:
        for engine in o.engines:
            yield from _thread(o, engine)
        yield from _buffers(o)
    yield from _cores(o)


def _key(o: Observation, engine: Engine, name: str) -> str:
    """Name the key that says how an engine receives."""
    table = _TABLES[engine]
    own = getattr(o, table).receive
    return f"{'network' if own is None or name not in own.model_fields_set else table}.receive.{name}"


def _thread(o: Observation, engine: Engine) -> Iterator[Problem]:
    link = next(link for link in rates.links(o) if link.name == f"{NAMES[engine]} in")
    receive = o.receive(engine)
    limit = LIMITS[receive.by]
    needed = {by: math.ceil(max(link.packets / each.packets, link.payload / each.bits)) for by, each in LIMITS.items()}
    if needed[receive.by] <= receive.threads:
        return
    load = f"{show(link.packets / receive.threads, 'packets/s')}, {show(link.payload / receive.threads, 'b/s')}"
    most = f"{show(limit.packets, 'packets/s')} or {show(limit.bits, 'b/s')}"
    ways = [f"{n} thread{'s' if n > 1 else ''} with {_WAYS[by]}" for by, n in needed.items()][
        list(LIMITS).index(receive.by) :
    ]
    text = (
        f"{NAMES[engine]} in brings {load} to a thread, which takes at most {most} by {_WAYS[receive.by]} (measured; "
        f"docs/explanation/assembly.md). It needs {' or '.join(ways)}; or give an engine less"
    )
    yield Problem(_key(o, engine, "threads"), receive.threads, text)


def _buffers(o: Observation) -> Iterator[Problem]:
    asked = [o.receive(engine).buffer or 0 for engine in o.engines if o.receive(engine).by == "udp"]
    if asked and (granted := granted_buffer(max(asked))) < max(asked):
        text = (
            f"is more than this computer's kernel grants, {show(granted, 'B')}: packets are lost when a thread has to "
            f"wait. Allow it with: sysctl net.core.rmem_max={max(asked)}"
        )
        yield Problem("network.receive_buffer", show(max(asked), "B"), text)


def _cores(o: Observation) -> Iterator[Problem]:
    here = os.cpu_count() or 1
    for engine, count in o.engines.items():
        key = o.engine_table(engine)
        cores = sorted({core for i in range(count) for core in o.engine_cores(engine, i)})
        if beyond := [core for core in cores if core >= here]:
            yield Problem(f"{key}.cores", listed(map(str, beyond)), f"this computer has cores 0 to {here - 1}")
        node, found = o.engine_node(engine), nodes()
        if isinstance(node, int) and node not in found:
            yield Problem(f"{key}.numa", node, f"this computer has {f'nodes {ranges(found)}' if found else 'none'}")
    for name, table, runs in (
        ("fengine", o.fengine, o.channelizes),
        ("xengine", o.xengine, o.catcher.packets is None),
    ):
        if runs and table.backend == "cpu" and table.threads > here:
            yield Problem(f"{name}.threads", table.threads, f"this computer has {here} cores: more threads only wait")
