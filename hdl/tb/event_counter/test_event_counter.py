# SPDX-License-Identifier: BSD-3-Clause
"""The 64-bit counter: both halves of one moment in every cycle, the carries included."""

from __future__ import annotations

import random
from typing import Any

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from simulation import simulate
from streams import start

MOST = 0xFFFF


async def follow(dut: Any, total: int, adds: list[int]) -> int:
    """Add one number a cycle, from a counter at rest; `total` must follow two cycles behind. Return the sum."""
    coming = [total, total]
    for add in adds:
        dut.add.value = add
        await RisingEdge(dut.clk)
        # Sampled here: what the edges before have made of the numbers before.
        total += add
        coming.append(total)
        assert int(dut.total.value) == coming.pop(0)
    dut.add.value = 0
    await ClockCycles(dut.clk, 4)
    assert int(dut.total.value) == total
    return total


@cocotb.test()
async def halves_agree_in_every_cycle(dut: Any) -> None:
    dut.add.value = dut.clear.value = 0
    await start(dut)
    total = await follow(dut, 0, [random.choice([0, 1, MOST, random.getrandbits(16)]) for _ in range(500)])
    for _ in range(2):  # past 2^32 and 2^33, slowly where it happens
        dut.add.value = MOST
        cycles = ((1 << 32) - total % (1 << 32)) // MOST - 50
        await ClockCycles(dut.clk, cycles)
        dut.add.value = 0
        await ClockCycles(dut.clk, 4)
        total += cycles * MOST
        total = await follow(dut, total, [random.choice([0, MOST, MOST]) for _ in range(120)])
    assert total > 2 << 32
    dut.clear.value = 1
    await RisingEdge(dut.clk)
    dut.clear.value = 0
    await ClockCycles(dut.clk, 2)
    await follow(dut, 0, [random.getrandbits(16) for _ in range(100)])


@cocotb.test()
async def clear_leaves_nothing_at_any_moment(dut: Any) -> None:
    """With numbers so large that every second one carries; what comes after counts from 0, in both halves."""
    dut.add.value = dut.clear.value = 0
    await start(dut)
    total, coming = 0, [0, 0]
    for _ in range(3000):
        add, clear = random.choice([0, random.getrandbits(len(dut.add))]), random.random() < 0.1
        dut.add.value, dut.clear.value = add, int(clear)
        await RisingEdge(dut.clk)
        assert int(dut.total.value) == coming.pop(0)
        total = 0 if clear else (total + add) % (1 << 64)
        coming = [0, 0] if clear else [*coming, total]


def test_event_counter():
    simulate("event_counter", __file__, only="halves_agree", BITS=16)


def test_wide_event_counter():
    simulate("event_counter", __file__, only="clear_leaves", BITS=64)
