# SPDX-License-Identifier: BSD-3-Clause
"""How many LUTs lie between two flip-flops: yosys and abc map a design to LUTs of six inputs, and its paths are followed.

Every instance is mapped for itself, then paths are followed across all boundaries: a module's figure is that of all below it, so
the core's is that of its longest path, whatever modules it runs through. Adders are logic like any other, without carry
chains, so a path through one is counted longer than an FPGA makes it. Memories are not mapped: one that is read by a clock ends
and begins paths; one that is not is taken for distributed memory, one LUT deep up to 64 words, one more for each factor of
four.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from prove import read, relative, yosys
from simulation import BUILD, RTL

#: Modules of which there are many instances: part of the module they are in, or it would take long, and measured alone.
SMALL = ("cdc_bit", "event_counter")

#: The designs that between them have every module of hdl/rtl.
TOPS = ("ethernet_core", "traffic", "packet_fifo", "cdc_bus", "cdc_pulse", *SMALL)

TO_LUTS = (
    "setattr -mod -set keep_hierarchy 1; "
    + "".join(f"setattr -mod -unset keep_hierarchy {m}$*; " for m in SMALL)
    + "flatten; setattr -mod -unset keep_hierarchy; synth -run coarse:fine; opt -fast -full; techmap; opt -fast; "
    "abc9 -lut 6; opt_clean; flatten; opt_clean"
)

#: The most levels that any module may have, by the stream's bits.
LIMITS = {1024: 7, 512: 6}


def mapped(top: str, width: int, also: Sequence[Path] = ()) -> dict[str, Any]:
    """A design in LUTs, flip-flops and memories, flat, as yosys writes it as JSON. It is kept until a source changes."""
    (folder := BUILD / "levels").mkdir(parents=True, exist_ok=True)
    sources = {p.stem: p.read_text() for p in sorted([*RTL.glob("*.sv"), *also])}
    wide = [f"-G WIDTH={width}"] if "parameter int WIDTH" in sources[top] else []
    command = f"{read(top, '--keep-hierarchy', *wide, also=also)}; {TO_LUTS}"
    stamp = hashlib.sha256((command + "".join(sources.values())).encode()).hexdigest()
    out, stamped = folder / f"{top}-{width}.json", folder / f"{top}-{width}.stamp"
    with open(folder / f"{top}-{width}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamped.exists() or stamped.read_text() != stamp:
            yosys(f"{command}; write_json {relative([out])}", f"{top} of {width} bits to LUTs")
            stamped.write_text(stamp)
    design: dict[str, Any] = json.loads(out.read_text())["modules"][top]
    return design


@dataclass
class Cell:
    """A LUT, a flip-flop or a port of a memory. Nets are numbers."""

    instance: str
    levels: int | None  # from `reads` to `drives`; None: a register, where paths begin and end
    reads: list[int]
    drives: list[int]


@dataclass(frozen=True)
class Levels:
    """The most LUTs in a row, by where a path begins and ends."""

    register: int = 0  # flip-flop to flip-flop
    inputs: int = 0  # input to flip-flop
    outputs: int = 0  # flip-flop to output
    through: int = 0  # input to output

    @property
    def most(self) -> int:
        return max(getattr(self, f.name) for f in fields(self))

    def worse(self, other: Levels) -> Levels:
        return Levels(*(max(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)))


def cells(design: dict[str, Any]) -> tuple[list[Cell], dict[str, str]]:
    """All cells of a flat design, and the module of each instance by its path; the top's is the empty path."""
    found: list[Cell] = []
    modules = {}
    for name, cell in design["cells"].items():
        kind = cell["type"]
        path = name.replace("$flatten", "").replace("\\", "").partition("$")[0].rstrip(".")
        if kind == "$scopeinfo":
            if cell["parameters"]["TYPE"] == "module":
                modules[name.replace("\\", "")] = cell["attributes"]["module"].lstrip("\\").partition("$")[0]
            continue
        pins = {p: [b for b in bits if isinstance(b, int)] for p, bits in cell["connections"].items()}
        if kind == "$lut":
            found.append(Cell(path, 1, pins["A"], pins["Y"]))
        elif kind == "$buf":
            found += [Cell(path, 0, [a], [y]) for a, y in zip(*(cell["connections"][p] for p in "AY"), strict=True)]
        elif kind.startswith("$mem"):
            found += memory_ports(path, cell)
        else:
            assert kind.startswith(("$_DFF", "$_SDFF")), f"{kind} in {path}: neither LUT nor flip-flop"
            found.append(Cell(path, None, [n for p, bits in pins.items() if p not in "CQ" for n in bits], pins["Q"]))
    return found, modules


def memory_ports(path: str, cell: dict[str, Any]) -> Iterable[Cell]:
    """A memory's writing, and each of its ports that read."""

    def number(name: str) -> int:
        return int(str(cell["parameters"][name]), 2)

    def nets(*bits: Any) -> list[int]:
        return [b for b in bits if isinstance(b, int)]

    pins = cell["connections"]
    width, address_bits, words = number("WIDTH"), number("ABITS"), number("SIZE")
    yield Cell(path, None, nets(*pins["WR_DATA"], *pins["WR_ADDR"], *pins["WR_EN"]), [])
    for n in range(number("RD_PORTS")):
        address = nets(*pins["RD_ADDR"][n * address_bits : (n + 1) * address_bits])
        data = nets(*pins["RD_DATA"][n * width : (n + 1) * width])
        if number("RD_CLK_ENABLE") >> n & 1:
            yield Cell(path, None, address + nets(pins["RD_EN"][n], pins["RD_SRST"][n]), data)
        elif address:
            yield Cell(path, 1 + max(0, math.ceil(math.log(words / 64, 4))), address, data)
        # What was written: one word of an array of registers, if the address is a constant.
        yield Cell(path, None, [], data)


def follow(inside: list[Cell], outside_reads: set[int]) -> Levels:
    """The longest paths among some cells, whose outputs are the nets that others read."""
    drivers: dict[int, list[Cell]] = defaultdict(list)
    for c in inside:
        for net in c.drives:
            drivers[net].append(c)

    # Levels up to a net from a flip-flop and from an input; -1: there is no such path.
    known: dict[int, tuple[int, int]] = {}

    def arrive(net: int) -> tuple[int, int]:
        waiting = [net]
        while waiting:
            n = waiting[-1]
            if n in known:
                waiting.pop()
                continue
            logic = [c for c in drivers[n] if c.levels is not None]
            later = [r for c in logic for r in c.reads if r not in known]
            if later:
                waiting += later
                continue
            waiting.pop()
            register = 0 if any(c.levels is None for c in drivers[n]) else -1
            given = 0 if not drivers[n] else -1
            for c in logic:
                register = max([register, *(known[r][0] + (c.levels or 0) for r in c.reads if known[r][0] >= 0)])
                given = max([given, *(known[r][1] + (c.levels or 0) for r in c.reads if known[r][1] >= 0)])
            known[n] = register, given
        return known[net]

    ends = [arrive(n) for c in inside if c.levels is None for n in c.reads]
    leaves = [arrive(n) for c in inside for n in c.drives if n in outside_reads]
    return Levels(
        *(max((a[i] for a in paths), default=0) for paths, i in ((ends, 0), (ends, 1), (leaves, 0), (leaves, 1)))
    )


@cache
def levels(top: str, width: int, also: Sequence[Path] = ()) -> dict[str, Levels]:
    """The levels of each module in a design, with all that is below it: those of its worst instance."""
    design = mapped(top, width, also)
    found, modules = cells(design)
    readers: dict[int, set[str]] = defaultdict(set)
    for c in found:
        for n in c.reads:
            readers[n].add(c.instance)
    ports = {b for p in design["ports"].values() if p["direction"] == "output" for b in p["bits"]}
    worst: dict[str, Levels] = {}
    for path, module in {"": top, **modules}.items():
        if path and module in SMALL:
            continue

        def within(instance: str, path: str = path) -> bool:
            return not path or instance == path or instance.startswith(path + ".")

        inside = [c for c in found if within(c.instance)]
        outside_reads = {n for n, where in readers.items() if not all(map(within, where))} | ports
        worst[module] = worst.get(module, Levels()).worse(follow(inside, outside_reads))
    return worst


def measured(top: str, width: int) -> set[str]:
    """The modules of a design that `levels` has."""
    inside = cells(mapped(top, width))[1].values()
    return {top, *(m for m in inside if m not in SMALL)}


def latency(module: str) -> str:
    """What a module's header says behind "Latency:", up to the next stop."""
    header = (RTL / f"{module}.sv").read_text().partition("`default_nettype")[0].replace("\n// ", " ")
    stated = re.search(r"Latency: ([^.;]*)", header)
    return stated[1] if stated else ""


def table() -> list[str]:
    """Every module's levels at each width, with the latency that its header states, as lines of Markdown."""
    at = {w: {m: n for top in TOPS for m, n in levels(top, w).items()} for w in LIMITS}
    heads = [f"{w} bits: register to register | from inputs | to outputs | through" for w in LIMITS]
    lines = [f"| module | latency | {' | '.join(heads)} |", "|---|---|" + "--:|" * 4 * len(LIMITS)]
    for module in sorted(at[1024]):
        figures = [str(getattr(at[w][module], f.name)) for w in LIMITS for f in fields(Levels)]
        lines.append(f"| {module} | {latency(module)} | {' | '.join(figures)} |")
    return lines
