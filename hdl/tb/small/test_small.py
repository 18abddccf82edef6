# SPDX-License-Identifier: BSD-3-Clause
"""Small parts of streams: skid buffer, word FIFO, frame meter, resets."""

from __future__ import annotations

import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge

from simulation import simulate
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


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(app_ns=[0.8, 2.56, 31.0])
@cocotb.parametrize(pulse=[1, 3, 60])
async def one_reset_takes_all_clocks_with_it(dut, app_ns, pulse):
    dut.request.value = 1
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


@pytest.mark.parametrize("module", ["skid_buffer", "stream_fifo"])
def test_words(module):
    simulate(module, __file__, only="words_keep", BITS=32)


def test_frame_meter():
    simulate("frame_meter", __file__, only="frames_are", WIDTH=1024)


def test_reset_domains():
    simulate("reset_domains", __file__, only="one_reset", N=1)
