# SPDX-License-Identifier: BSD-3-Clause
"""The watch over a clock: the rates that count as running, and the time-out."""

from __future__ import annotations

import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, Timer

from simulation import parameter, simulate

CLK_NS = 12.8


def clock(signal, ns):
    (made := Clock(signal, round(ns * 500) * 2, unit="ps")).start()
    return made


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(ratio=[1 / 120, 1 / 100, 1 / 64, 1, 3.3, 3.9])
async def a_clock_that_runs_is_not_stopped(dut, ratio):
    """`ratio` is of the periods; 64 periods of the slowest are just less than the time-out."""
    assert 64 * ratio < parameter("CYCLES")
    clock(dut.clk, CLK_NS)
    clock(dut.watched, CLK_NS * ratio)
    await ClockCycles(dut.clk, 3 * parameter("CYCLES"))
    for _ in range(5 * parameter("CYCLES")):
        await RisingEdge(dut.clk)
        assert not int(dut.stopped.value)


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(ratio=[0.3, 1, 2])
async def one_that_stands_is_told_in_time_and_so_is_its_return(dut, ratio):
    clock(dut.clk, CLK_NS)
    watched = clock(dut.watched, CLK_NS * ratio)
    limit = parameter("CYCLES")
    for _ in range(20):
        await ClockCycles(dut.clk, random.randint(limit, 2 * limit))
        assert not int(dut.stopped.value)
        watched.stop()
        cycles = 0
        while not int(dut.stopped.value):
            await RisingEdge(dut.clk)
            cycles += 1
            assert cycles < limit + 5
        assert cycles > limit - 64 * ratio - 5, "64 cycles of it may have passed since its last sign, no more"
        await ClockCycles(dut.clk, random.randint(1, 3 * limit))
        assert int(dut.stopped.value)
        watched.start()
        await Timer(round(64 * CLK_NS * ratio * 1000 + 5 * CLK_NS * 1000), unit="ps")
        await RisingEdge(dut.clk)
        assert not int(dut.stopped.value)


def test_clock_watch():
    simulate("clock_watch", __file__, CYCLES=256)
