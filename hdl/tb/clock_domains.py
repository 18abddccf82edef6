# SPDX-License-Identifier: BSD-3-Clause
"""Finds registers of one clock that are fed by another's, in what yosys makes of a module.

yosys elaborates and writes the netlist; this file follows it. A register is named as Vivado names it: instances joined by
``/``, then ``NAME_reg``. A memory that is written in one clock and read in another is a register of the first.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from prove import read, relative, yosys
from simulation import BUILD

#: Modules inside which data may cross, between registers of the module itself; cdc_bit is the only way out of them and in.
CARRIERS = ("async_packet_fifo", "cdc_bus", "cdc_call")

Net = tuple[str, Any]  # module and yosys's number of a bit, or a constant
#: Which clock a port's bit belongs to: (port, bit, bits) to the clock's name.
Ports = Callable[[str, int, int], str]


@dataclass(frozen=True)
class Register:
    """One bit of a register, or a port's.

    Attributes
    ----------
    module : str
        The module's type; empty for a port.
    instance : str
        Path of its instance, ``a/b``; empty at the top.
    name : str
        Name in Vivado, without the bit.
    bit : int
    bits : int
        Of the whole register; 0 for a memory.
    """

    module: str
    instance: str
    name: str
    bit: int
    bits: int

    def __str__(self) -> str:
        at = f"{self.instance}/{self.name}" if self.instance else self.name
        return at if self.bits <= 1 else f"{at}[{self.bit}]"


@dataclass(frozen=True)
class Crossing:
    """A register of one clock that depends on a register of another; `direct` if there is nothing between."""

    source: Register
    source_clock: str
    register: Register
    clock: str
    direct: bool

    def __str__(self) -> str:
        way = "" if self.direct else " through logic"
        return f"{self.register} of {self.clock} is fed by {self.source} of {self.source_clock}{way}"


class Netlist:
    """A module and all below it, elaborated; `changed` files stand in for those of hdl/rtl with their names."""

    def __init__(self, top: str, changed: list[Path] | None = None, **parameters: int) -> None:
        (folder := BUILD / "synthesis").mkdir(parents=True, exist_ok=True)
        named = "-".join(
            [f"clocks-{top}", *(f"{k}{v}" for k, v in parameters.items()), *(c.parent.name for c in changed or ())]
        )
        out = folder / f"{named}-{os.getpid()}.json"  # two benches may ask for the same at a time
        command = read(top, "--keep-hierarchy", *(f"-G {k}={v}" for k, v in parameters.items()))
        for file in changed or ():
            command = command.replace(f"hdl/rtl/{file.name}", relative([file]))
        yosys(f"{command}; proc; opt_clean; write_json {relative([out])}", f"clocks of {top}")
        self.top = top
        self._modules: dict[str, Any] = json.loads(out.read_text())["modules"]
        out.unlink()
        self._parent: dict[Net, Net] = {}
        self.ports: dict[str, Any] = self._modules[top]["ports"]
        self._instances = dict(self._walk(top, ""))
        #: Registers by the net they drive, and what they are clocked and fed by.
        self.driven: dict[Net, Register] = {}
        self.clock: dict[Register, Net] = {}
        self.fed: dict[Register, list[Net]] = defaultdict(list)
        self._logic: dict[Net, list[Net]] = {}  # what an output of logic depends on
        self._memories: dict[Net, tuple[str, str]] = {}  # nets read from a memory
        self._read()

    def _walk(self, module: str, path: str) -> Iterator[tuple[str, tuple[str, str]]]:
        """Join ports with what they are connected to, and give each module's type and path."""
        yield module, (module.partition("$")[0], path)
        for name, cell in self._modules[module]["cells"].items():
            below = self._modules.get(cell["type"])
            if below is None or cell["type"].startswith("$"):
                continue
            for port, bits in cell["connections"].items():
                for outer, inner in zip(bits, below["ports"][port]["bits"], strict=True):
                    self._parent[self.root((cell["type"], inner))] = self.root((module, outer))
            yield from self._walk(cell["type"], f"{path}/{name}" if path else name)

    def root(self, net: Net) -> Net:
        """Give the one name of a net that ports join."""
        if isinstance(net[1], str):
            return ("", net[1])  # a constant
        while (up := self._parent.get(net, net)) != net:
            net = up
        return net

    def _read(self) -> None:
        for module, (kind, path) in self._instances.items():
            for name, cell in self._modules[module]["cells"].items():
                if cell["type"].startswith("$"):
                    nets = {p: [self.root((module, b)) for b in bits] for p, bits in cell["connections"].items()}
                    self._cell(module, kind, path, name, cell, nets)

    def _cell(self, module: str, kind: str, path: str, name: str, cell: Any, nets: dict[str, list[Net]]) -> None:
        what = cell["type"]
        if re.fullmatch(r"\$\w*dff\w*", what):
            called = name.removeprefix("$driver$") + "_reg"
            control = [n for p, bits in nets.items() if p not in ("D", "Q", "CLK") for n in bits]
            for bit, (d, q) in enumerate(zip(nets["D"], nets["Q"], strict=True)):
                register = Register(kind, path, called, bit, len(nets["Q"]))
                self.driven[q], self.clock[register] = register, nets["CLK"][0]
                self.fed[register] += [d, *control]
        elif what == "$memwr_v2":
            register = Register(kind, path, cell["parameters"]["MEMID"].lstrip("\\") + "_reg", 0, 0)
            self.clock[register] = nets["CLK"][0]
            self.fed[register] += [n for p in ("ADDR", "DATA", "EN") for n in nets[p]]
            self.driven[(module, "memory " + cell["parameters"]["MEMID"])] = register
        elif what == "$memrd_v2":
            assert "1" not in cell["parameters"]["CLK_ENABLE"], (
                f"{path} {name}: a memory read with a register of its own"
            )
            for net in nets["DATA"]:
                self._logic[net] = [*nets["ADDR"], (module, "memory " + cell["parameters"]["MEMID"])]
        elif what in ("$mux", "$and", "$or", "$xor", "$not") and len(nets["Y"]) == len(nets["A"]):
            both = nets.get("B", nets["A"])
            for bit, net in enumerate(nets["Y"]):
                self._logic[net] = [nets["A"][bit], both[bit if len(both) > bit else 0], *nets.get("S", [])]
        else:
            directions = cell["port_directions"]
            inputs = [n for p, bits in nets.items() if directions[p] == "input" for n in bits]
            for p, bits in nets.items():
                if directions[p] == "output":
                    for net in bits:
                        self._logic[net] = inputs

    @cached_property
    def clock_names(self) -> dict[Net, str]:
        """Top-level inputs by net."""
        found = {}
        for name, port in self.ports.items():
            if port["direction"] == "input":
                for bit, number in enumerate(port["bits"]):
                    found[self.root((self.top, number))] = name if len(port["bits"]) == 1 else f"{name}[{bit}]"
        return found

    def sources(self, nets: list[Net]) -> set[Net]:
        """Nets of registers, memories and ports that these depend on."""
        found, seen, todo = set(), set(), list(nets)
        while todo:
            net = todo.pop()
            if net in seen or net[0] == "":
                continue
            seen.add(net)
            if net in self._logic:
                todo += self._logic[net]
            else:
                found.add(net)
        return found

    def readers(self, net: Net) -> int:
        """Count the bits of registers and of logic that read a net."""
        return self._readers[net]

    @cached_property
    def _readers(self) -> Counter[Net]:
        count = Counter(n for nets in self.fed.values() for n in set(nets))
        done: set[int] = set()
        for nets in self._logic.values():
            if id(nets) not in done:
                done.add(id(nets))
                count.update(set(nets))
        return count


def crossings(netlist: Netlist, ports: Ports) -> tuple[list[Crossing], list[str]]:
    """Give all registers (and output ports) fed by registers (and input ports) of other clocks, and what is wrong with clocks."""
    inputs: dict[Net, tuple[Register, str]] = {}
    outputs: list[tuple[Register, str, Net]] = []
    for name, port in netlist.ports.items():
        for bit, number in enumerate(port["bits"]):
            register, net = Register("", "", name, bit, len(port["bits"])), netlist.root((netlist.top, number))
            clock = ports(name, bit, len(port["bits"]))
            if port["direction"] == "input":
                inputs[net] = register, clock
            else:
                outputs.append((register, clock, net))
    clocks, wrong = {}, []
    for register, net in netlist.clock.items():
        if net not in netlist.clock_names:
            wrong.append(f"the clock of {register} is no port, but made of something")
        clocks[register] = netlist.clock_names.get(net, "?")
    found = []
    told = [(r, clocks[r], netlist.fed[r]) for r in netlist.clock] + [(r, clock, [net]) for r, clock, net in outputs]
    for register, clock, fed in told:
        for net in netlist.sources(fed):
            source, of = (netlist.driven[net], "") if net in netlist.driven else inputs.get(net, (None, ""))
            if source is None:
                continue  # driven by nothing
            of = of or clocks[source]
            if of != clock:
                found.append(Crossing(source, of, register, clock, net in fed))
    return found, wrong


def faults(netlist: Netlist, ports: Ports) -> list[str]:
    """Say what crosses clocks otherwise than through a named module, and which named modules are not what they say.

    A crossing must end in the first flip-flop of a cdc_bit, with nothing between, or lie inside one of CARRIERS. A
    cdc_bit must have two flip-flops, with nothing between them, and the first must feed the second alone.
    """
    found, wrong = crossings(netlist, ports)
    for c in found:
        inside = c.register.module == c.source.module in CARRIERS and c.register.instance == c.source.instance
        first = c.register.module == "cdc_bit" and c.register.name == "stage_reg" and c.register.bit == 0 and c.direct
        if not inside and not first:
            wrong.append(str(c))
    for net, register in netlist.driven.items():
        if register.module == "cdc_bit" and register.bit == 0:
            follows = Register(register.module, register.instance, register.name, 1, register.bits)
            if register.bits < 2 or netlist.fed[follows] != [net] or netlist.readers(net) != 1:
                wrong.append(f"{register} does not feed a second flip-flop, and it alone")
    return sorted(set(wrong))


def of_core(name: str, bit: int, bits: int) -> str:
    """Give the clock of a port of ethernet_core with two applications."""
    if name in ("s_axi_aclk", "app_rx_clk", "clk"):
        return name
    if name.startswith("s_axi_"):
        return "s_axi_aclk"
    if name.startswith(("s_axis_", "app_tx_")):
        return f"app_tx_clk[{bit * 2 // bits}]"
    return "app_rx_clk" if name.startswith(("m_axis_", "app_rx_")) else "clk"
