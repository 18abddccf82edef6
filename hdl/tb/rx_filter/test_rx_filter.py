# SPDX-License-Identifier: BSD-3-Clause
"""The filter alone: when its verdicts come, and that a frame that a reset met gets none. What they are, rx_half asks."""

from __future__ import annotations

import random

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from simulation import simulate
from streams import start

LATENCY = 11  # cycles from the last beat to the verdict, as the module's head says
INPUTS = """own_mac own_ip netmask group group_mask port port_mask promiscuous accept_vlan cpu_ports answer_ping igmp valid bad
bytes header ip_good l4_good""".split()


async def frame(dut):
    """Let the last beat of a frame in; the next edge is one cycle after it."""
    dut.valid.value = 1
    await RisingEdge(dut.clk)
    dut.valid.value = 0


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def verdicts_come_as_far_apart_as_frames_do(dut):
    for name in INPUTS:
        getattr(dut, name).value = 0
    await start(dut)
    frames = [random.random() < 0.3 for _ in range(400)]
    got = []
    for here in frames + [False] * LATENCY:
        dut.valid.value = int(here)
        await RisingEdge(dut.clk)
        got.append(bool(int(dut.verdict_valid.value)))
    assert got[LATENCY:] == frames and not any(got[:LATENCY])


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_frame_that_a_reset_met_gets_no_verdict(dut):
    """Nor when the reset is shorter than what the frame still had to wait."""
    for name in INPUTS:
        getattr(dut, name).value = 0
    await start(dut)
    for length in (1, 2, LATENCY + 3):
        for wait in range(LATENCY):
            await frame(dut)
            for _ in range(wait):
                await RisingEdge(dut.clk)
                assert not int(dut.verdict_valid.value)
            dut.rst.value = 1
            await ClockCycles(dut.clk, length)
            dut.rst.value = 0
            for _ in range(2 * LATENCY):
                await RisingEdge(dut.clk)
                assert not int(dut.verdict_valid.value), f"{wait} cycles before a reset of {length}"
        await frame(dut)  # and the next one has its own
        await ClockCycles(dut.clk, LATENCY)
        assert int(dut.verdict_valid.value)
        await ClockCycles(dut.clk, LATENCY)


def test_rx_filter():
    simulate("rx_filter", __file__)
