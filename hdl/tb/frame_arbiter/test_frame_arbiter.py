# SPDX-License-Identifier: BSD-3-Clause
"""The arbiter: frames whole, order kept for each input, shares as stated."""

from __future__ import annotations

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles

from simulation import parameter, simulate
from slices import Ports, Slice
from streams import Sink, Source, never, pauses, start


async def begin(dut, before=never, after=never):
    """Reset; one source an input, and the sink."""
    Slice._driven.clear()
    n = parameter("N")
    names = {"s_axis_meta": "s_meta"}
    sources = [Source(Ports(dut, i, n, **names), "s_axis", dut.clk, pause=before, sideband=("meta",)) for i in range(n)]
    sink = Sink(Ports(dut, m_axis_meta="m_meta"), "m_axis", dut.clk, pause=after, sideband=("meta",))
    await start(dut)
    return sources, sink


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(before=["never", "half", "bursts"], after=["never", "mostly"])
async def frames_stay_whole_and_in_order(dut, before, after):
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    sources, sink = await begin(dut, pauses(seed)[before], pauses(seed + 1)[after])
    keep, total = parameter("WIDTH") // 8, 0
    sent = [[rng.randbytes(rng.randint(1, 6 * keep)) for _ in range(25)] for _ in sources]
    for i, frames in enumerate(sent):
        for frame in frames:
            sources[i].send(frame, meta=i)
            total += 1
    got = [[] for _ in sources]
    for _ in range(total):
        frame = await sink.receive()
        got[frame.sideband["meta"]].append(frame.data)
    assert got == sent
    await ClockCycles(dut.clk, 20)
    assert not sink.frames


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def always_valid_inputs_get_equal_shares_without_idle_beats(dut):
    sources, sink = await begin(dut)
    keep, n = parameter("WIDTH") // 8, parameter("N")
    for i, source in enumerate(sources):
        for _ in range(20):
            source.send(bytes((i + 1) * keep), meta=i)  # of different lengths
    got = [await sink.receive() for _ in range(20 * n)]
    order = [g.sideband["meta"] for g in got]
    # A source begins a cycle late or early at the start; from then on it is one in N, in turn.
    for at in range(n, 19 * n, n):
        assert sorted(order[at : at + n]) == list(range(n)), order
    for a, b in zip(got[n:-n], got[n + 1 : -n], strict=False):
        assert b.first == a.last + 1, "idle beat"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def one_input_alone_gets_every_beat(dut):
    sources, sink = await begin(dut)
    keep = parameter("WIDTH") // 8
    for _ in range(30):
        sources[-1].send(bytes(3 * keep), meta=1)
    got = [await sink.receive() for _ in range(30)]
    assert got[-1].last - got[0].first + 1 == 90


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_late_input_waits_for_one_frame_of_each_other_at_most(dut):
    sources, sink = await begin(dut)
    keep, n = parameter("WIDTH") // 8, parameter("N")
    for i in range(n - 1):
        for _ in range(30):
            sources[i].send(bytes(4 * keep), meta=i)
    for _ in range(5):
        await sink.receive()
    before = len(sink.frames)
    sources[-1].send(b"late", meta=n - 1)
    place = 0
    while (await sink.receive()).sideband["meta"] != n - 1:
        place += 1
    # One frame under way when it came, and one whose beat was already behind the arbiter's register.
    assert place - before <= n + 1


@pytest.mark.parametrize("n, width", [(1, 64), (3, 64), (2, 1024)])
def test_frame_arbiter(n, width):
    only = "frames_stay|one_input" if n == 1 else ""  # the others are about shares
    simulate("frame_arbiter", __file__, only=only, N=n, WIDTH=width, META=4)
