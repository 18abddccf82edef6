# SPDX-License-Identifier: BSD-3-Clause
"""The gate closes and opens between frames alone, whoever waits for whom."""

from __future__ import annotations

import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge

from simulation import parameter, simulate
from streams import start


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(busy=[0.9, 0.5, 0.2])
async def frames_pass_whole_or_not_at_all(dut, busy):
    throw_away = bool(parameter("THROW_AWAY"))
    for name in ("open", "s_axis_tvalid", "s_axis_tlast", "m_axis_tready"):
        getattr(dut, name).value = 0
    await start(dut)
    begun = False  # a frame: its first beat was offered, or taken where the rest is thrown away
    waits = False  # a beat that was offered must stay
    cut = through = 0
    opened, last = 0, 0
    for _ in range(4000):
        reset = random.random() < 0.01
        if random.random() < 0.05 and not (throw_away and begun and not opened):  # reset before it opens
            opened = 1 - opened
        if not waits or reset:
            waits = random.random() < busy
            last = int(random.random() < 0.3)
        ready = int(random.random() < busy)
        dut.rst.value, dut.open.value = int(reset), opened
        dut.s_axis_tvalid.value, dut.s_axis_tlast.value, dut.m_axis_tready.value = int(waits), last, ready
        await ReadOnly()
        valid, taken = int(dut.m_axis_tvalid.value), int(dut.s_axis_tready.value)
        if opened or (begun and not throw_away):
            assert (valid, taken) == (waits, ready), "as if there were no gate"
            through += begun and not opened
        elif begun:
            assert (valid, taken) == (0, 1), "the rest of the frame goes nowhere, whether or not anybody is ready"
            cut += 1
        else:
            assert (valid, taken) == (0, 0), "no frame begins"
        if waits and (taken or (valid and not throw_away)):
            begun = not (taken and last)
        if reset:
            begun = False
        waits = waits and not taken
        await RisingEdge(dut.clk)
        closed = not opened and not begun
        await ReadOnly()
        assert int(dut.closed.value) == closed
        await FallingEdge(dut.clk)
    assert cut if throw_away else through


@pytest.mark.parametrize("throw_away", [0, 1])
def test_frame_gate(throw_away):
    simulate("frame_gate", __file__, THROW_AWAY=throw_away)
