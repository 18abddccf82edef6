# SPDX-License-Identifier: BSD-3-Clause
"""Registers answer, whatever the core's clock and reset do, and each access gets its own answer."""

from __future__ import annotations

import random
from typing import Any

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge, Timer

from axil import REGISTERS, AxiLite, SlaveError
from simulation import parameter, simulate, skewed

STATUS = REGISTERS["clock_status"]["address"]
STOPPED, UNANSWERED = (1 << REGISTERS["clock_status"]["fields"][n][0] for n in ("stopped", "unanswered"))


class Bench:
    """A bridge, and a device behind it that answers each address with a word of its own."""

    def __init__(self, dut: Any, axi_ns: float, clk_ns: float, answers: int = 9) -> None:
        self.dut, self.answers = dut, answers
        self.clk = Clock(dut.clk, round(clk_ns * 500) * 2, unit="ps")
        self.axi_clock = Clock(dut.s_axi_aclk, round(axi_ns * 500) * 2, unit="ps")
        self.axi = AxiLite(dut, dut.s_axi_aclk)
        #: What the device was asked: (write, address).
        self.asked: list[tuple[bool, int]] = []
        self.cycles = 0

    async def begin(self) -> Bench:
        d = self.dut
        d.rst.value = d.s_axi_rst.value = 1
        d.bus_done.value = 0
        self.clk.start()
        self.axi_clock.start()
        cocotb.start_soon(self._device())
        cocotb.start_soon(self._count())
        for clock in (d.s_axi_aclk, d.clk):
            await ClockCycles(clock, 6)
        d.rst.value = d.s_axi_rst.value = 0
        await ClockCycles(d.s_axi_aclk, 6)
        return self

    async def _count(self) -> None:
        while True:
            await RisingEdge(self.dut.s_axi_aclk)
            self.cycles += 1

    async def _device(self) -> None:
        d = self.dut
        left = 0
        while True:
            await RisingEdge(d.clk)
            d.bus_done.value = 0
            if int(d.rst.value):
                left = 0
            elif int(d.bus_valid.value):
                self.asked.append((bool(d.bus_write.value), int(d.bus_addr.value)))
                left = random.randint(1, self.answers)
            elif left:
                left -= 1
                if not left:
                    d.bus_done.value, d.bus_error.value = 1, 0
                    d.bus_rdata.value = word(int(d.bus_addr.value))

    async def access(self) -> bool:
        """Make one access of a random kind; check its answer, and say whether it was no error."""
        address, before = random.randrange(0x1000, 0x10000, 4), self.cycles
        try:
            if random.random() < 0.5:
                await self.axi.write_at(address, random.getrandbits(32))
            else:
                assert await self.axi.read_at(address) == word(address), "another's answer"
            return True
        except SlaveError:
            return False
        finally:
            assert self.cycles - before < parameter("TIMEOUT") + 8

    async def recovered(self) -> None:
        """Wait for the status to say that all is well; then it must be."""
        for _ in range(parameter("TIMEOUT")):
            if not await self.axi.read_at(STATUS):
                break
        for _ in range(5):
            assert await self.access(), "clock_status is 0, and an access failed"


def word(address: int) -> int:
    """Give what the device answers."""
    return address * 0x9E3779B1 & 0xFFFFFFFF


PERIODS = [(10.0, 2.56), (4.0, 4.0), (2.0, 23.0)]


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(periods=PERIODS)
async def a_clock_that_stops_anywhere_costs_an_error_and_no_more(dut: Any, periods: Any) -> None:
    bench = await Bench(dut, *periods).begin()
    assert await bench.access()
    for _ in range(25):
        access = cocotb.start_soon(bench.access())
        await Timer(random.randint(1, round(16000 * max(periods))), unit="ps")
        bench.clk.stop()
        await access
        for _ in range(3):  # the second at the latest is refused at once
            await bench.access()
        before = bench.cycles
        assert not await bench.access()
        assert bench.cycles - before < 8
        await ClockCycles(dut.s_axi_aclk, parameter("TIMEOUT"))
        assert await bench.axi.read_at(STATUS) & STOPPED
        asked = len(bench.asked)
        bench.clk.start()
        await bench.recovered()
        bench.clk.stop()  # between accesses: the first one is refused too, and never carried out
        await ClockCycles(dut.s_axi_aclk, parameter("TIMEOUT") + 8)
        before, made = bench.cycles, len(bench.asked)
        assert await bench.axi.read_at(STATUS) == STOPPED
        assert not await bench.access()
        assert bench.cycles - before < 16
        bench.clk.start()
        await ClockCycles(dut.clk, 20)
        assert len(bench.asked) == made
        await bench.recovered()
        assert len(bench.asked) <= asked + 11, "what was refused was carried out"


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(periods=PERIODS)
async def a_reset_of_the_core_anywhere_costs_an_error_and_no_more(dut: Any, periods: Any) -> None:
    bench = await Bench(dut, *periods).begin()
    errors = 0
    for _ in range(300):  # one in eight meets an access where the core has the faster clock
        access = cocotb.start_soon(bench.access())
        await Timer(random.randint(1, round(16000 * max(periods))), unit="ps")
        await RisingEdge(dut.clk)
        dut.rst.value = 1
        await ClockCycles(dut.clk, random.randint(1, 6))
        dut.rst.value = 0
        errors += not await access
        made = len(bench.asked)
        assert await bench.access(), "an access after a reset"
        assert len(bench.asked) == made + 1, "a reset makes no access of itself"
    assert 5 < errors < 295
    assert await bench.axi.read_at(STATUS) == 0
    dut.rst.value = 1
    await ClockCycles(dut.clk, 4)
    before = bench.cycles
    assert not await bench.access(), "a core in reset cannot answer"
    assert bench.cycles - before < 60


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def a_slow_answer_is_nobody_elses(dut: Any) -> None:
    """The device answers long after the time-out: the status says that something is under way, and accesses fail until it ends."""
    bench = await Bench(dut, 4.0, 2.56, answers=1).begin()
    bench.answers = 3 * parameter("TIMEOUT")
    failed = 0
    for _ in range(30):
        if not await bench.access():
            failed += 1
            assert await bench.axi.read_at(STATUS) in (UNANSWERED, 0)
    assert failed > 5
    bench.answers = 1
    await ClockCycles(dut.clk, 4 * parameter("TIMEOUT"))
    await bench.recovered()


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def reads_and_writes_take_turns(dut: Any) -> None:
    bench = await Bench(dut, 4.0, 2.56).begin()
    d = dut
    d.s_axi_awaddr.value, d.s_axi_araddr.value, d.s_axi_wdata.value = 0x1000, 0x2000, 1
    for name in ("awvalid", "wvalid", "arvalid", "bready", "rready"):
        getattr(d, f"s_axi_{name}").value = 1
    taken = []
    while len(taken) < 60:
        await ReadOnly()
        if int(d.s_axi_awready.value):
            taken.append("write")
        if int(d.s_axi_arready.value):
            taken.append("read")
        await RisingEdge(d.s_axi_aclk)
    assert taken in (["write", "read"] * 30, ["read", "write"] * 30), taken
    await ClockCycles(d.s_axi_aclk, 100)
    assert [w for w, _ in bench.asked[:60]] == [t == "write" for t in taken]


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def a_response_that_waits_is_kept(dut: Any) -> None:
    """The next access of its kind is not taken before."""
    bench = await Bench(dut, 4.0, 2.56).begin()
    d = dut
    d.s_axi_araddr.value, d.s_axi_arvalid.value, d.s_axi_rready.value = 0x1000, 1, 0
    d.s_axi_awaddr.value, d.s_axi_wdata.value, d.s_axi_bready.value = 0x3000, 1, 0
    d.s_axi_awvalid.value = d.s_axi_wvalid.value = 1
    while not int(d.s_axi_arready.value):
        await RisingEdge(d.s_axi_aclk)
    d.s_axi_araddr.value = 0x2000
    await ClockCycles(d.s_axi_aclk, 100)
    assert bench.asked == [(True, 0x3000), (False, 0x1000)]
    assert int(d.s_axi_rvalid.value) and int(d.s_axi_rdata.value) == word(0x1000) and int(d.s_axi_bvalid.value)
    d.s_axi_rready.value = 1
    await ClockCycles(d.s_axi_aclk, 50)
    assert (False, 0x2000) in bench.asked


@pytest.mark.parametrize("skew", [0, 1000])
def test_axil_bridge(skew):
    simulate("axil_bridge", __file__, options=skewed(skew), ADDRESS=16, STATUS=STATUS, TIMEOUT=1024)
