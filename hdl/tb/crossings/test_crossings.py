# SPDX-License-Identifier: BSD-3-Clause
"""Clock-domain crossings between clocks of all ratios."""

from __future__ import annotations

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge

from simulation import simulate
from streams import start

PERIODS = [(2.56, 2.56), (1.3, 7.7), (7.7, 1.3), (2.56, 2.561), (3.0, 2.0)]


async def begin(dut, source_ns, destination_ns):
    """Start both clocks at any phase and reset both sides together."""
    dut.src_rst.value = dut.dst_rst.value = 1
    for name in ("src_event", "src_pulse", "src_valid"):
        if hasattr(dut, name):
            getattr(dut, name).value = 0
    await start(dut, source_ns, clock="src_clk", reset=None)
    await start(dut, destination_ns, clock="dst_clk", reset=None)
    await ClockCycles(dut.src_clk, 8)
    await ClockCycles(dut.dst_clk, 8)
    dut.dst_rst.value = 0
    await RisingEdge(dut.src_clk)
    dut.src_rst.value = 0
    await ClockCycles(dut.src_clk, 2)


class Count:
    """Cycles in which a signal is high."""

    def __init__(self, clock, signal):
        self.count = 0
        cocotb.start_soon(self._run(clock, signal))

    async def _run(self, clock, signal):
        while True:
            await RisingEdge(clock)
            self.count += int(signal.value)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(periods=PERIODS)
async def every_event_arrives_once(dut, periods):
    if not hasattr(dut, "src_event"):
        return
    await begin(dut, *periods)
    arrived = Count(dut.dst_clk, dut.dst_event)
    sent = 0
    for burst in (1, 2, 30, 7, 190):  # fewer than 256 wait
        for _ in range(burst):
            dut.src_event.value = 1
            await RisingEdge(dut.src_clk)
        sent += burst
        dut.src_event.value = 0
        await ClockCycles(dut.src_clk, 5)
    await ClockCycles(dut.dst_clk, 300)
    assert arrived.count == sent


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(periods=PERIODS)
async def every_spaced_pulse_arrives_once(dut, periods):
    if not hasattr(dut, "src_pulse"):
        return
    await begin(dut, *periods)
    arrived = Count(dut.dst_clk, dut.dst_pulse)
    spacing = int(3 * max(periods) / periods[0]) + 1
    for n in range(40):
        dut.src_pulse.value = 1
        await RisingEdge(dut.src_clk)
        dut.src_pulse.value = 0
        await ClockCycles(dut.src_clk, spacing + n % 3)
    await ClockCycles(dut.dst_clk, 20)
    assert arrived.count == 40


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(periods=PERIODS)
async def words_arrive_whole_in_order_and_once(dut, periods):
    if not hasattr(dut, "src_valid"):
        return
    await begin(dut, *periods)
    sent, got = [], []

    async def watch():
        while True:
            await RisingEdge(dut.dst_clk)
            if int(dut.dst_valid.value):
                got.append(int(dut.dst_data.value))

    cocotb.start_soon(watch())
    while len(sent) < 50:
        # The word changes in every cycle, also while it is not taken.
        word, valid = random.getrandbits(32), random.random() < 0.7
        dut.src_data.value, dut.src_valid.value = word, int(valid)
        await ReadOnly()
        taken = valid and int(dut.src_ready.value)
        await RisingEdge(dut.src_clk)
        if taken:
            sent.append(word)
    dut.src_valid.value = 0
    await ClockCycles(dut.src_clk, 30)
    await ClockCycles(dut.dst_clk, 30)
    assert got == sent


@pytest.mark.parametrize("module", ["cdc_events", "cdc_pulse", "cdc_bus"])
def test_crossing(module):
    only = {"cdc_events": "every_event", "cdc_pulse": "every_spaced", "cdc_bus": "words_arrive"}[module]
    simulate(module, __file__, only=only)
