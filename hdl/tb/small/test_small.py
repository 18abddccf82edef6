# SPDX-License-Identifier: BSD-3-Clause
"""Small parts of streams: skid buffer, word FIFO, frame meter."""

from __future__ import annotations

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge

from simulation import parameter, simulate
from streams import pauses, start


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(before=["never", "half", "bursts"], after=["never", "half", "bursts", "mostly"])
async def words_keep_their_order_and_wait_unchanged(dut, before, after):
    seed = random.getrandbits(32)
    offer, take = pauses(seed)[before], pauses(seed + 1)[after]
    sent, got, waiting, clocks = [], [], None, 0
    dut.s_valid.value = dut.m_ready.value = 0
    await start(dut)
    while len(got) < 300:
        # s_valid stays, and its word too, until it is taken.
        if waiting is None and not offer():
            waiting = random.getrandbits(32)
        dut.s_valid.value = int(waiting is not None)
        dut.s_data.value = waiting if waiting is not None else random.getrandbits(32)
        ready = not take()
        dut.m_ready.value = int(ready)
        await RisingEdge(dut.clk)
        clocks += 1
        if waiting is not None and int(dut.s_ready.value):
            sent.append(waiting)
            waiting = None
        if int(dut.m_valid.value):
            assert int(dut.m_data.value) == sent_or(sent, len(got)), "the word at the output is the oldest, and stays"
            if ready:
                got.append(int(dut.m_data.value))
    assert got == sent[: len(got)]
    if before == after == "never":
        assert clocks < 305, "one word a cycle"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_reset_empties_it_and_it_holds_what_it_says(dut):
    dut.s_valid.value = dut.m_ready.value = 0
    await start(dut)
    for _ in range(40):
        held = []
        for _ in range(random.choice([1, 2, 3, 40])):
            dut.s_valid.value, dut.s_data.value = 1, (word := random.getrandbits(32))
            await RisingEdge(dut.clk)
            if int(dut.s_ready.value):
                held.append(word)
        dut.s_valid.value = 0
        await ClockCycles(dut.clk, 3)
        assert len(held) <= parameter("HOLDS")
        if not int(dut.s_ready.value):
            assert len(held) == parameter("HOLDS"), "full, and nobody takes a word"
        dut.rst.value = 1
        await ClockCycles(dut.clk, random.randint(1, 2))
        dut.rst.value = 0
        await ClockCycles(dut.clk, 2)
        assert not int(dut.m_valid.value), "nothing is left after a reset"
        dut.s_valid.value, dut.s_data.value = 1, (word := random.getrandbits(32))
        await RisingEdge(dut.clk)
        assert int(dut.s_ready.value)
        dut.s_valid.value, dut.m_ready.value = 0, 1
        while not int(dut.m_valid.value):
            await RisingEdge(dut.clk)
        assert int(dut.m_data.value) == word
        await ClockCycles(dut.clk, 2)
        assert not int(dut.m_valid.value)
        dut.m_ready.value = 0


def sent_or(sent, place):
    """Give the word that must be at the output."""
    return sent[place] if place < len(sent) else None


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def frames_are_measured(dut):
    keep = len(dut.tkeep)
    lengths = [1, keep, keep + 1, 3 * keep - 1] + [random.randint(1, 9000) for _ in range(40)]
    dut.tvalid.value = 0
    await start(dut)
    got = []

    async def watch():
        while True:
            await RisingEdge(dut.clk)
            if int(dut.frame.value):
                got.append(int(dut.bytes.value))

    cocotb.start_soon(watch())
    for length in lengths:
        left = length
        while left > 0:
            valid, ready = random.getrandbits(1), random.getrandbits(1)
            dut.tvalid.value, dut.tready.value = valid, ready
            dut.tkeep.value = (1 << min(left, keep)) - 1
            dut.tlast.value = int(left <= keep)
            await RisingEdge(dut.clk)
            if valid and ready:
                left -= keep
    dut.tvalid.value = 0
    await ClockCycles(dut.clk, 5)
    assert got == lengths


@pytest.mark.parametrize("module, holds", [("skid_buffer", 2), ("stream_fifo", 16)])
def test_words(module, holds):
    simulate(module, __file__, only="words_keep|a_reset", env={"HDL_HOLDS": str(holds)}, BITS=32)


def test_frame_meter():
    simulate("frame_meter", __file__, only="frames_are", WIDTH=1024)
