# SPDX-License-Identifier: BSD-3-Clause
"""Thin drivers of the register buses for cocotb, by names of the register map."""

from __future__ import annotations

from typing import Any

from cocotb.triggers import RisingEdge

from ryle.fpga import registers

MAP = registers.load()


class ExtensionBus:
    """Master of a plain register bus: ext_wr, ext_rd, ext_addr, ext_wdata, ext_rdata, ext_ack."""

    def __init__(self, dut: Any, clock: Any, *, hold: bool = False) -> None:
        self._dut, self._clock = dut, clock
        #: Keep requests up until they are acknowledged; else for one clock.
        self.hold = hold
        dut.ext_wr.value = 0
        dut.ext_rd.value = 0

    async def _access(self, strobe: Any, address: int, value: int = 0) -> int:
        d = self._dut
        d.ext_addr.value, d.ext_wdata.value = address, value
        strobe.value = 1
        await RisingEdge(self._clock)
        if not self.hold:
            strobe.value = 0
        for _ in range(100):
            await RisingEdge(self._clock)
            if int(d.ext_ack.value):
                strobe.value = 0
                got = int(d.ext_rdata.value)
                await RisingEdge(self._clock)
                assert not int(d.ext_ack.value), "ext_ack lasts longer than a clock"
                return got
        raise AssertionError(f"address {address:#x} was not acknowledged in 100 clocks")

    async def read_at(self, address: int) -> int:
        return await self._access(self._dut.ext_rd, address)

    async def write_at(self, address: int, value: int) -> None:
        await self._access(self._dut.ext_wr, address, value)

    async def read(self, name: str) -> int:
        """Read a register, or the 64-bit number that begins there."""
        r = MAP.find(name)
        low = await self.read_at(r.address)
        return low if r.high is None else low | await self.read_at(r.high) << 32

    async def write(self, name: str, value: int) -> None:
        """Write a register, or a 64-bit number."""
        r = MAP.find(name)
        await self.write_at(r.address, value & 0xFFFFFFFF)
        if r.high is not None:
            await self.write_at(r.high, value >> 32)

    async def write_fields(self, name: str, **fields: int) -> None:
        """Write a register put together from fields; the others become 0."""
        r = MAP.find(name)
        value = 0
        for key, v in fields.items():
            f = r.field(key)
            assert v >> f.bits == 0, f"{key} = {v} has more than {f.bits} bits"
            value |= v << f.low
        await self.write(name, value)
