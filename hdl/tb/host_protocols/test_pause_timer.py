# SPDX-License-Identifier: BSD-3-Clause
"""Time that pause frames ask for, counted in clocks of lines of several speeds."""

from __future__ import annotations

import random
from typing import Any

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge

from simulation import parameter, simulate
from streams import start


async def held(dut: Any, quanta: int) -> int:
    """Ask for a pause; clocks for which it holds."""
    dut.pause_valid.value, dut.quanta.value = 1, quanta
    await RisingEdge(dut.clk)
    dut.pause_valid.value, dut.quanta.value = 0, random.getrandbits(16)
    await ClockCycles(dut.clk, 2)
    clocks = 0
    while int(dut.hold.value):
        clocks += 1
        await RisingEdge(dut.clk)
    return clocks


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def it_holds_as_long_as_asked_for(dut: Any) -> None:
    dut.honour.value, dut.pause_valid.value = 1, 0
    await start(dut)
    step = parameter("QUANTA_256")
    for quanta in (0, 1, 2, 3, 1000, random.getrandbits(12), 65535 if step > 300 else 9999):
        assert await held(dut, quanta) == -(-256 * quanta // step)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_later_frame_counts_and_zero_ends_it(dut: Any) -> None:
    dut.honour.value, dut.pause_valid.value = 1, 0
    await start(dut)
    for first, then in ((60000, 0), (60000, 50), (50, 500)):
        dut.pause_valid.value, dut.quanta.value = 1, first
        await RisingEdge(dut.clk)
        dut.pause_valid.value = 0
        await ClockCycles(dut.clk, 10)
        assert int(dut.hold.value)
        assert await held(dut, then) == -(-256 * then // parameter("QUANTA_256"))
    dut.honour.value = 0
    assert await held(dut, 1000) == 0, "refused"
    # Honoured from now on, a pause that was refused while it lasted ends when it would have.
    dut.pause_valid.value, dut.quanta.value = 1, 60000
    await RisingEdge(dut.clk)
    dut.pause_valid.value, dut.honour.value = 0, 1
    await ClockCycles(dut.clk, 10)
    assert int(dut.hold.value)
    dut.rst.value = 1
    await ClockCycles(dut.clk, 2)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 2)
    assert not int(dut.hold.value)


@pytest.mark.parametrize("step", [512, 155])  # 1024 bits of 400 Gb/s; 512 of 100 Gb/s at 322 MHz
def test_pause_timer(step):
    simulate("pause_timer", __file__, QUANTA_256=step)
