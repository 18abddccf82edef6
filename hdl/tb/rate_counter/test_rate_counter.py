# SPDX-License-Identifier: BSD-3-Clause
"""The rate of a second is the sum of all that was added in it, the tick's cycle included."""

from __future__ import annotations

import random

import cocotb
from cocotb.triggers import RisingEdge

from simulation import simulate
from streams import start

MOST = 0xFFFF


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def rates_are_sums_of_whole_seconds(dut):
    dut.add.value = dut.tick.value = dut.clear.value = 0
    await start(dut)
    rate, whole, total = 0, False, 0
    coming = [0, 0]  # what the output will be
    second = 0
    for _ in range(20000):
        clear = random.random() < 0.0005
        tick = second == 0
        second = random.choice([1, 2, 3, 40, 200]) if tick else second - 1
        add = random.choice([0, MOST, MOST, random.getrandbits(16)])
        dut.add.value, dut.tick.value, dut.clear.value = add, int(tick), int(clear)
        await RisingEdge(dut.clk)
        assert int(dut.rate.value) == coming[0]
        if tick:
            rate, whole, total = total if whole else 0, True, 0
        total += add
        if clear:
            rate, whole, total = 0, False, 0
            coming = [0, 0]
        else:
            coming = [coming[1], rate]


def test_rate_counter():
    simulate("rate_counter", __file__)
