# SPDX-License-Identifier: BSD-3-Clause
"""A master of the core's AXI4-Lite port for cocotb, by names of the register map."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from cocotb.triggers import RisingEdge

_TABLE = tomllib.loads((Path(__file__).parents[2] / "src" / "ryle" / "fpga" / "registers.toml").read_text())
REGISTERS = {r["name"]: r for r in _TABLE["register"]}
MEMORIES = {m["name"]: m for m in _TABLE["memory"]}
HIGH: int = _TABLE["counter_high"]
COUNTERS = [name for name, r in REGISTERS.items() if r.get("counter") and r.get("where") != "ext"]


class SlaveError(Exception):
    """The access ended in SLVERR."""


class AxiLite:
    """Reads and writes by address or by name; ports PREFIX_awaddr etc."""

    def __init__(self, dut: Any, clock: Any, prefix: str = "s_axi") -> None:
        self._edge = RisingEdge(clock)
        names = "awaddr awvalid awready wdata wstrb wvalid wready bresp bvalid bready "
        names += "araddr arvalid arready rdata rresp rvalid rready"
        for name in names.split():
            setattr(self, f"_{name}", getattr(dut, f"{prefix}_{name}"))
        for name in ("awvalid", "wvalid", "bready", "arvalid", "rready"):
            getattr(self, f"_{name}").value = 0

    async def _until(self, handle: Any) -> None:
        for _ in range(5000):
            await self._edge
            if int(handle.value):
                return
        raise AssertionError(f"{handle._name} did not come in 5000 clocks")

    async def read_at(self, address: int) -> int:
        """Read a word."""
        self._araddr.value, self._arvalid.value, self._rready.value = address, 1, 1
        await self._until(self._arready)
        self._arvalid.value = 0
        await self._until(self._rvalid)
        self._rready.value = 0
        value, response = int(self._rdata.value), int(self._rresp.value)
        if response:
            raise SlaveError(f"read of {address:#x}: response {response}")
        return value

    async def write_at(self, address: int, value: int, strobes: int = 15) -> None:
        """Write a word."""
        self._awaddr.value, self._awvalid.value = address, 1
        self._wdata.value, self._wstrb.value, self._wvalid.value, self._bready.value = value, strobes, 1, 1
        await self._until(self._awready)
        self._awvalid.value = self._wvalid.value = 0
        await self._until(self._bvalid)
        self._bready.value = 0
        if int(self._bresp.value):
            raise SlaveError(f"write of {address:#x}: response {int(self._bresp.value)}")

    async def read(self, name: str) -> int:
        """Read a register, or a counter's 64 bits."""
        r = REGISTERS[name]
        low = await self.read_at(r["address"])
        return low | await self.read_at(r["address"] + HIGH) << 32 if r.get("counter") else low

    async def write(self, name: str, value: int) -> None:
        """Write a register."""
        await self.write_at(REGISTERS[name]["address"], value)

    async def counters(self) -> dict[str, int]:
        """Read all counters of the core but rates."""
        return {name: await self.read(name) for name in COUNTERS if "rate" not in name}
