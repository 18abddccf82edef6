"""What an observation's engines take: memory, as they really allocate it, and time. Asked before they start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ryle.chunk import BLOCK
from ryle.config import ConfigError, Observation, Problem, show
from ryle.config.observation import Engine
from ryle.config.rates import visibility_heap_bytes
from ryle.correlate.packets import unpacked_blocks
from ryle.engines.x import SUMS
from ryle.products.cuts import chunk_shape, slabs_bytes
from ryle.products.publisher import BUFFERS
from ryle.receive.assembly import Assembler, Plan
from ryle.receive.dpdk.pools import pool_bytes
from ryle.receive.dumps import DumpMap
from ryle.receive.entrance import largest_packet
from ryle.receive.heaps import HeapMap
from ryle.receive.packets import packet_map
from ryle.receive.receiving import frame_bytes
from ryle.receive.samples import SampleMap
from ryle.receive.statistics import StatisticsMap
from ryle.receive.sums import SumMap
from ryle.receive.windows import window_shape

#: Batches of spectra that an F-engine has memory for: one that is sent, one that waits, one that is being made.
BATCHES = 3
#: What engines are called.
NAMES: Mapping[Engine, str] = {"f": "F-engine", "x": "X-engine", "catcher": "catcher", "fx": "FX"}
_LIMITS = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))
_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Memory:
    """One buffer that an engine holds.

    Attributes
    ----------
    engine : "f", "x", "catcher" or "fx"
        Who holds it.
    name : str
        What is in it.
    bytes : int
        Size of one.
    count : int
        How many engines hold one.
    """

    engine: Engine
    name: str
    bytes: int
    count: int


def sample_map(o: Observation, engine: Literal["f", "fx"], antennas: Sequence[int], index: int = 0) -> SampleMap:
    """Say what samples a live engine gets, and how many of them it keeps."""
    receive, live = o.receive(engine, index), not o.at_full_speed
    # Of what comes to a GPU's memory none are kept.
    return SampleMap(o, antennas, waits=not live, timed=live, in_place=receive.in_place, keeps=receive.copies != 0)


def plans(o: Observation) -> dict[Engine, Plan]:
    """Plan the rings that an observation's engines receive into, by kind of engine."""
    waits, timed = o.at_full_speed, not o.at_full_speed
    if o.catcher.packets is not None:
        return {"catcher": DumpMap(o).plan}
    if o.fx is not None:
        return {"fx": sample_map(o, "fx", range(len(o.antennas))).plan}
    found: dict[Engine, Plan] = {}
    if o.f_engines:
        found["f"] = sample_map(o, "f", o.f_engine_antennas(0)).plan
    if o.packets is not None or o.sends_rows:
        found["x"] = packet_map(o, [0], waits=waits, timed=timed).plan
    else:
        found["x"] = HeapMap(o, 0, o.f_batches, waits=waits, timed=timed).plan
    found["catcher"] = SumMap(o, o.catcher_substreams(o.catchers - 1), waits=waits, timed=timed).plan
    return found


def memory(o: Observation) -> list[Memory]:
    """List the buffers of each engine on a CPU, as they are allocated; what is smaller than a MB or so is left out."""
    found = [
        Memory(e, f"{NAMES[e]} receive ring, {p.chunks} blocks", Assembler.memory_bytes(p), o.engines[e])
        for e, p in plans(o).items()
    ]
    if o.fx is not None:
        return found + _channelizing(o, "fx", range(len(o.antennas))) + _integrating(o)
    if o.f_engines:
        found += _channelizing(o, "f", o.f_engine_antennas(0))
    sums = visibility_heap_bytes(o)
    if o.catcher.packets is None:
        if o.xengine.backend == "cpu" and (o.packets is not None or not o.sends_rows):
            blocks = unpacked_blocks(o.substream_channels, o.n_inputs)
            size = blocks * o.substream_channels * o.n_inputs * 2 * BLOCK
            found.append(Memory("x", "X-engine spectra that are made of packets", size, o.substreams))
        found.append(Memory("x", f"X-engine sums, {SUMS + 1} integrations", (SUMS + 1) * sums, o.substreams))
    mine = len(o.catcher_substreams(o.catchers - 1))
    whole = (1 if o.catcher.integration is None else 2) * mine
    found.append(Memory("catcher", "catcher, one integration", whole * sums, o.catchers))
    found += [_written(o, "catcher", mine * o.substream_channels), *_served(o, "catcher", sums * mine)]
    if o.statistics is not None:
        found.append(Memory("catcher", "catcher statistics ring", Assembler.memory_bytes(StatisticsMap(o).plan), 1))
    return found


def packet_buffers(o: Observation, engine: Engine) -> int:
    """Bytes of the packet buffers that a GPU reads in place, of one F-engine or of FX; 0 if payloads are copied."""
    receive = o.receive(engine)
    if engine not in ("f", "fx") or not receive.in_place:
        return 0
    plan, antennas = plans(o)[engine], range(len(o.antennas)) if engine == "fx" else o.f_engine_antennas(0)
    ports = len({end.port for end in o.digitizer_endpoints(antennas)})
    return pool_bytes(receive, plan, ports, frame_bytes(largest_packet(plan)))


def _channelizing(o: Observation, engine: Engine, antennas: range) -> list[Memory]:
    """List what some antennas' spectra take behind the receive ring; FX leaves them on its GPU."""
    name, count = NAMES[engine], o.engines[engine]
    decoded = SampleMap(o, antennas, waits=o.at_full_speed).decoded_bytes
    batch = len(antennas) * o.pols * o.fengine.channels * window_shape(o).batch * 2
    found = [Memory(engine, f"{name} decoded samples", decoded, count)] if decoded else []
    if o.receive(engine).copies == "host-table":
        found.append(Memory(engine, f"{name} ring of packet buffers", packet_buffers(o, engine), count))
    if engine == "fx" and o.fengine.backend == "cuda":
        return found
    return [*found, Memory(engine, f"{name} spectra, {BATCHES} batches", BATCHES * batch, count)]


def _written(o: Observation, engine: Engine, channels: int) -> Memory:
    """Say what arranging integrations for the file takes."""
    baselines, polarizations = o.baselines, o.pols**2
    size = slabs_bytes(baselines, channels, chunk_shape(baselines, polarizations, channels))
    return Memory(engine, f"{NAMES[engine]} slabs of the file", size, o.engines[engine])


def _served(o: Observation, engine: Engine, integration: int) -> list[Memory]:
    """List what integrations that are served by TCP take."""
    if o.output.stream is None:
        return []
    return [Memory(engine, f"{NAMES[engine]} stream, {BUFFERS} integrations", BUFFERS * integration, o.engines[engine])]


def _integrating(o: Observation) -> list[Memory]:
    """List what sums take where spectra are in one channel group, and go to the file without a network."""
    sums = o.products * (o.fengine.channels * 16 + 4)
    longer = (
        [Memory("fx", "FX, one integration of the file", sums, 1)] if o.file_spectra > o.integration_spectra else []
    )
    kept = Memory("fx", f"FX sums, {SUMS + 1} integrations", (SUMS + 1) * sums, 1)
    return [kept, *longer, _written(o, "fx", o.fengine.channels), *_served(o, "fx", sums)]


def latency(o: Observation) -> dict[Engine, float]:
    """Say how long packets may lie in each live engine's receive ring at worst, s: if one of its streams lacks them.

    That is a block, and what ``network.skew`` keeps open behind it (of visibilities, two integrations). Nobody waits
    longer for a stream that is silent.
    """
    if o.catcher.packets is not None:
        return {}
    unit = float(o.sample_rate)
    return {
        e: (p.span + p.window + (p.skew or 0)) * (o.step if p.format.timestamp.unit == "spectra" else 1) / unit
        for e, p in plans(o.live).items()
    }


def available() -> int:
    """Bytes of memory that this process may have: what the system calls available, or less if its cgroup is limited."""
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(lines["MemAvailable"].split()[0]) * 1024
    for limit, used in _LIMITS:
        try:
            most = (_CGROUP / limit).read_text().strip()
            if most.isdecimal():
                free = min(free, max(0, int(most) - int((_CGROUP / used).read_text())))
        except OSError:
            continue
    return free


def afford(o: Observation, engines: Mapping[Engine, int]) -> None:
    """Refuse to start what does not fit into this computer's memory.

    Parameters
    ----------
    o : Observation
        What is observed.
    engines : mapping of str to int
        How many engines of each kind are to start here.

    Raises
    ------
    ConfigError
        If they take more than is available; names the largest buffer and what makes it smaller.
    """
    if (problem := _too_much(o, engines)) is not None:
        raise ConfigError(o.source, [problem])


def cautions(o: Observation) -> Iterator[Problem]:
    """Warn of an observation whose engines do not all fit into this computer's memory: `ryle run` would refuse it."""
    if (problem := _too_much(o, o.engines)) is not None:
        yield problem


def _too_much(o: Observation, engines: Mapping[Engine, int]) -> Problem | None:
    buffers = [(m, m.bytes * engines.get(m.engine, 0)) for m in memory(o)]
    total, free = sum(size for _, size in buffers), available()
    if total <= free:
        return None
    largest, size = max(buffers, key=lambda pair: pair[1])
    what = f"{show(total, 'B')} of memory for {_counted(engines)} here, and {show(free, 'B')} are available"
    most = f"the largest part is {largest.name}: {show(size, 'B')}"
    spread = f"{'remove [fx] and ' if o.fx is not None else ''}spread the engines over more hosts"
    if "ring" in largest.name and largest.engine in ("f", "fx") and o.fengine.history > o.network.skew:
        return Problem(
            "fengine.history", show(o.fengine.history, "s"), f"asks for {what}; {most}. Lower it, or {spread}"
        )
    if "ring" in largest.name and largest.engine != "catcher":
        return Problem("network.skew", o.network.skew, f"asks for {what}; {most}. Lower it, or {spread}")
    remedy = f"asks for {what}; {most}. {spread[0].upper()}{spread[1:]}"
    return Problem("fengine.channels", o.fengine.channels, remedy)


def _counted(engines: Mapping[Engine, int]) -> str:
    return ", ".join(f"{n} {NAMES[e]}{'s' if n > 1 else ''}" for e, n in engines.items() if n)
