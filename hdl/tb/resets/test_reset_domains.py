# SPDX-License-Identifier: BSD-3-Clause
"""One reset for all clocks: at once, or when all gates have closed."""

from __future__ import annotations

import random
from pathlib import Path

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge

from simulation import simulate, skewed
from streams import start


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(app_ns=[0.8, 2.56, 31.0])
@cocotb.parametrize(pulse=[1, 3, 60])
async def one_reset_takes_all_clocks_with_it(dut, app_ns, pulse):
    dut.request.value, dut.gentle.value = 1, 0
    cocotb.start_soon(start(dut, 2.56, reset=None))
    Clock(dut.app_clk, round(app_ns * 500) * 2, unit="ps").start()
    together = most = 0  # cycles of the application's clock in which both sides have been in reset

    async def watch():
        nonlocal together, most
        while True:
            await RisingEdge(dut.app_clk)
            together = together + 1 if int(dut.app_rst.value) and int(dut.rst.value) else 0
            most = max(most, together)

    await RisingEdge(dut.clk)
    await ClockCycles(dut.clk, 4)
    cocotb.start_soon(watch())
    for _ in range(5):
        most = 0
        dut.request.value = 1
        await ClockCycles(dut.clk, pulse)
        dut.request.value = 0
        await ClockCycles(dut.clk, 2)
        while int(dut.rst.value):
            await RisingEdge(dut.clk)
        assert most >= 4, "both sides were in reset together for four cycles of the application's clock"
        await ClockCycles(dut.clk, random.randint(0, 5))  # the next one may come before the sides have left this one
        together = 0
    await ClockCycles(dut.app_clk, 8)
    await ClockCycles(dut.clk, 8)
    assert not int(dut.rst.value) and not int(dut.app_rst.value)


class Gate:
    """A gate in a clock: it closes some time after it is told to, and opens at once."""

    def __init__(self, clock, opened, closed, most):
        self.shut, self._most = False, most
        self._clock, self._opened, self._closed = clock, opened, closed
        closed.value = 0
        cocotb.start_soon(self._run())

    async def _run(self):
        left = 0
        while True:
            await RisingEdge(self._clock)
            if int(self._opened.value):
                self.shut, left = False, random.choice([0, random.randrange(self._most)])
            elif left:
                left -= 1
            else:
                self.shut = True
            self._closed.value = int(self.shut)


@cocotb.test(timeout_time=900, timeout_unit="us")
@cocotb.parametrize(app_ns=[0.8, 2.56, 31.0])
async def a_gentle_request_waits_for_all_gates(dut, app_ns):
    dut.request.value, dut.gentle.value = 1, 0
    await start(dut, 2.56, reset=None)
    Clock(dut.app_clk, round(app_ns * 500) * 2, unit="ps").start()
    gates = [Gate(dut.clk, dut.open, dut.closed, 30), Gate(dut.app_clk, dut.app_open, dut.app_closed, 30)]
    resets = 0
    for clock in (dut.clk, dut.app_clk):
        await ClockCycles(clock, 30)
    dut.request.value = 0
    while not int(dut.open.value):
        await RisingEdge(dut.clk)

    async def watch(clock, reset):
        nonlocal resets
        was = 0
        while True:
            await RisingEdge(clock)
            if int(reset.value):
                assert all(g.shut for g in gates), "a reset through an open gate"
                resets += (not was) and reset is dut.rst
            was = int(reset.value)

    cocotb.start_soon(watch(dut.clk, dut.rst))
    cocotb.start_soon(watch(dut.app_clk, dut.app_rst))
    for _ in range(300):
        await ClockCycles(dut.clk, random.choice([1, random.randrange(1, 9), random.randrange(1, 100)]))
        made = resets
        dut.gentle.value = 1
        await ClockCycles(dut.clk, random.choice([1, 1, 40]))
        dut.gentle.value = 0
        while not int(dut.rst.value) and resets == made:  # a reset that is there already will do
            await RisingEdge(dut.clk)
        if random.random() < 0.8:  # else the next request meets a reset that still ends
            while not int(dut.open.value):
                await RisingEdge(dut.clk)
    for clock in (dut.clk, dut.app_clk):
        await ClockCycles(clock, 100)
    assert resets >= 200
    assert int(dut.open.value) and int(dut.app_open.value) and not int(dut.rst.value) and not int(dut.app_rst.value)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def all_applications_are_waited_for(dut):
    """Two of them, one much slower: both sides are in reset for four of its cycles, and no gate is open then."""
    dut.request.value, dut.gentle.value = 1, 0
    await start(dut, 2.56, reset=None)
    clocks, periods = [dut.app0_clk, dut.app1_clk], [1.6, 41.0]
    random.shuffle(periods)
    for clock, ns in zip(clocks, periods, strict=True):
        await start(dut, ns, clock=clock._name, reset=None)
    resets, opens, closed = ([getattr(dut, f"app{n}_{what}") for n in (0, 1)] for what in ("rst", "open", "closed"))
    gates = [
        Gate(c, o, s, 30) for c, o, s in zip([dut.clk, *clocks], [dut.open, *opens], [dut.closed, *closed], strict=True)
    ]
    await ClockCycles(dut.clk, 200)
    together = [0, 0]
    gentle = False

    async def watch(n):
        while True:
            await RisingEdge(clocks[n])
            both = int(dut.rst.value) and int(resets[n].value)
            together[n] = together[n] + 1 if both else 0
            assert not (gentle and int(resets[n].value)) or all(g.shut for g in gates), "a reset through an open gate"

    for n in (0, 1):
        cocotb.start_soon(watch(n))
    dut.request.value = 0
    for _ in range(40):
        while not (int(dut.open.value) and all(int(o.value) for o in opens)):
            await RisingEdge(dut.clk)
        await ClockCycles(dut.clk, random.randrange(1, 200))
        gentle = random.random() < 0.7
        signal = dut.gentle if gentle else dut.request
        signal.value = 1
        await RisingEdge(dut.clk)
        signal.value = 0
        while not int(dut.rst.value):
            await RisingEdge(dut.clk)
        longest = [0, 0]
        while int(dut.rst.value):
            await RisingEdge(dut.clk)
            longest = [max(a, b) for a, b in zip(longest, together, strict=True)]
        assert min(longest) >= 4
        await ClockCycles(dut.clk, 2)


@pytest.mark.parametrize("skew", [0, 800])
def test_reset_domains(skew):
    simulate("reset_domains", __file__, options=skewed(skew), only="one_reset|a_gentle", N=1)


def test_two_applications():
    simulate("reset_domains_of_two", __file__, also=[Path(__file__).parent], only="all_applications")
