"""Where an engine's process runs: on which cores, and which part of the memory it takes its own from.

A computer with several processors, or with processors of several parts, has as many nodes, each with memory of its own.
Samples that a card has written to one node and that a GPU reads from another cross the link between them, which
is narrower than either's.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from ryle.config import ConfigError, Observation, Problem
from ryle.config.observation import Engine
from ryle.gpu.available import pci_address
from ryle.problems import listed

_SYSTEM = Path("/sys")
#: Number of the system call set_mempolicy, by processor; glibc has no name for it.
_SET_POLICY = {"x86_64": 238, "aarch64": 237}
_PREFERRED = 1  # that node first, others if it is full


def settle(o: Observation, engine: Engine, index: int = 0) -> None:
    """Move this process to its cores and its node; threads and memory to come follow.

    Receiving threads have cores of their own, the first of the engine's, and the rest is for all others; if there is
    no rest, they share.

    Parameters
    ----------
    o : Observation
        What is observed.
    engine : "f", "x", "catcher" or "fx"
        Which kind this is.
    index : int
        Which of these.

    Raises
    ------
    ConfigError
        If there is no such core or node, or this process must not use it.
    """
    key = o.engine_table(engine)
    node = node_of(o, engine, index)
    if node is not None and not (found := cores_of_node(node)):
        raise ConfigError(o.source, [Problem(f"{key}.numa", node, f"this computer has {_nodes()}")])
    cores = o.engine_cores(engine, index) or (() if node is None else tuple(found))
    if cores:
        allowed = os.sched_getaffinity(0)
        if beyond := sorted(set(cores) - allowed):
            remedy = f"this process may use the cores {ranges(allowed)}: name some of these"
            raise ConfigError(o.source, [Problem(f"{key}.cores", listed(map(str, beyond)), remedy)])
        receiving = o.receive(engine, index).cores
        rest = [core for core in cores if core not in receiving] or cores
        for task in os.listdir("/proc/self/task"):  # numpy's threads are here already
            os.sched_setaffinity(int(task), rest)
    if node is not None and (why := _prefer(node)):
        print(f"{key}.numa = {node}: the system does not let a process choose its memory ({why})", file=sys.stderr)


def node_of(o: Observation, engine: Engine, index: int = 0) -> int | None:
    """Say which node an engine's memory is to be on; None: wherever.

    "auto" is the node of its GPU; without one, of the device that it receives from; else of its cores.
    """
    wanted = o.engine_node(engine)
    if wanted != "auto":
        return wanted
    half: Literal["f", "x"] = "x" if engine == "x" else "f"
    uses = engine != "catcher" and (o.xengine if half == "x" else o.fengine).backend == "cuda"
    receive, cores = o.receive(engine, index), o.engine_cores(engine, index)
    places = []
    if uses and (address := pci_address(*o.gpu_of(half, index))):
        places.append(_SYSTEM / "bus/pci/devices" / address / "numa_node")
    if receive.by == "packet_ring":
        places.append(_SYSTEM / "class/net" / receive.device / "device/numa_node")
    if receive.by == "dpdk":
        places.append(_SYSTEM / "bus/pci/devices" / receive.device.split(",")[0] / "numa_node")
    for place in places:
        try:
            if (node := int(place.read_text())) >= 0:  # -1: the system does not know
                return node
        except (OSError, ValueError):
            continue
    return next((node for node in nodes() if cores and cores[0] in cores_of_node(node)), None)


def nodes() -> list[int]:
    """List the nodes of this computer."""
    found = (_SYSTEM / "devices/system/node").glob("node[0-9]*")
    return sorted(int(node.name.removeprefix("node")) for node in found)


def cores_of_node(node: int) -> list[int]:
    """List the cores of a node; none if there is no such node."""
    try:
        text = (_SYSTEM / f"devices/system/node/node{node}/cpulist").read_text().strip()
    except OSError:
        return []
    return listed_cores(text)


def listed_cores(text: str) -> list[int]:
    """Read cores as the kernel writes them: ``0-3,8``."""
    runs = [part.strip().split("-") for part in text.split(",") if part.strip()]
    return [core for run in runs for core in range(int(run[0]), int(run[-1]) + 1)]


def ranges(cores: Iterable[int]) -> str:
    """Write cores as people do: ``0-3, 8``."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][-1] + 1:
            runs[-1][-1] = core
        else:
            runs.append([core, core])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _nodes() -> str:
    found = nodes()
    return f"the nodes {ranges(found)}" if found else "no nodes: remove the key"


def _prefer(node: int) -> str | None:
    """Take memory from a node first; give why not, if the system refuses."""
    number = _SET_POLICY.get(platform.machine())
    if number is None:
        return f"not known on {platform.machine()}"
    bits = 1024
    mask = (ctypes.c_ulong * (bits // (8 * ctypes.sizeof(ctypes.c_ulong))))()
    word, bit = divmod(node, 8 * ctypes.sizeof(ctypes.c_ulong))
    mask[word] = 1 << bit
    library = ctypes.CDLL(None, use_errno=True)
    if library.syscall(ctypes.c_long(number), ctypes.c_long(_PREFERRED), mask, ctypes.c_ulong(bits)):
        return os.strerror(ctypes.get_errno())
    return None
