# SPDX-License-Identifier: BSD-3-Clause
"""Clock-domain crossings between clocks of all ratios, with bits that arrive at random apart; broken ones are found."""

from __future__ import annotations

import random
from pathlib import Path

import cocotb
import pytest
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge, Timer, ValueChange
from cocotb.utils import get_sim_time

from simulation import changed, simulate, skewed
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
            assert not got or int(dut.dst_data.value) == got[-1], "a word stays until the next"

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


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_level_takes_two_or_three_edges(dut):
    """And the output changes at edges alone, however undecided the first flip-flop is."""
    if not hasattr(dut, "q"):
        return
    dut.d.value = 0
    await start(dut, 2.56, reset=None)
    edges, edge_at = 0, 0

    async def count():
        nonlocal edges, edge_at
        while True:
            await RisingEdge(dut.clk)
            edges, edge_at = edges + 1, get_sim_time("fs")

    cocotb.start_soon(count())
    await ClockCycles(dut.clk, 4)
    taken = []
    for n in range(200):
        await Timer(10_000 + random.randrange(2560), unit="ps")
        begun = edges
        dut.d.value = (n + 1) % 2
        await ValueChange(dut.q)
        assert int(dut.q.value) == (n + 1) % 2, "a change that was not there"
        assert get_sim_time("fs") == edge_at, "the output changed between edges"
        taken.append(edges - begun)
    assert set(taken) == {2, 3}, set(taken)


ONLY = {"cdc_events": "every_event", "cdc_pulse": "every_spaced", "cdc_bus": "words_arrive", "cdc_bit": "a_level"}
#: Less than the shortest period of the benches, as hdl/constraints promises.
SKEW = skewed(1000)


def cross(module, also=()):
    """Run the bench of a crossing with skew between its bits."""
    if module == "async_packet_fifo":
        bench = Path(__file__).parents[1] / "packet_fifo" / "test_packet_fifo.py"
        fifo = {"WIDTH": 128, "DEPTH": 128, "FRAMES": 16, "META": 8, "MAX_BYTES": 700, "DROP_WHEN_FULL": 0}
        simulate(module, bench, only="frames_come_out", options=SKEW, also=also, **fifo)
    else:
        simulate(module, __file__, only=ONLY[module], options=SKEW, also=also)


@pytest.mark.parametrize("module", [*ONLY, "async_packet_fifo"])
def test_crossing(module):
    cross(module)


BROKEN = {
    "one flip-flop": ("cdc_bit", "assign q = stage[STAGES-1];", "assign q = stage[0];"),
    "events counted in binary": (
        "cdc_events",
        "count_next ^ (count_next >> 1);", "count_next;", "arrived[b] = ^(gray_dst >> b);", "arrived[b] = gray_dst[b];",
    ),
    "frames counted in binary": (
        "async_packet_fifo",
        "frame_gray = x ^ (x >> 1);", "frame_gray = x;", "(FB + 1)'(3) << (FB - 1)", "(FB + 1)'(1) << FB",
    ),
    "beats counted in binary": (
        "async_packet_fifo",
        "beat_gray = x ^ (x >> 1);", "beat_gray = x;", "(AB + 1)'(3) << (AB - 1)", "(AB + 1)'(1) << AB",
        "beat_binary[i] = ^(g >> i);", "beat_binary[i] = g[i];",
    ),
    "a word that changes under way": ("cdc_bus", "if (src_valid && src_ready) held", "if (src_valid) held"),
}  # fmt: skip


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_crossing_is_found(fault):
    module, *texts = BROKEN[fault]
    with pytest.raises(AssertionError, match=r"failed: |more than one bit changes"):
        cross(module, [changed(module, *texts)])
