# SPDX-License-Identifier: BSD-3-Clause
"""The drivers themselves: what they send arrives, and a module that breaks the stream's rules is found out."""

import random
from pathlib import Path

import cocotb
import pytest

from simulation import simulate
from streams import Sink, Source, pauses, start

HERE = Path(__file__).parent


@cocotb.test()
@cocotb.parametrize(before=["never", "half", "bursts"], after=["never", "alternate", "mostly"])
async def frames_arrive_whole(dut, before, after):
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    source = Source(dut, "s_axis", dut.clk, pause=pauses(seed)[before], sideband=("ip",))
    sink = Sink(dut, "m_axis", dut.clk, pause=pauses(seed + 1)[after], sideband=("ip",))
    await start(dut)
    frames = [(rng.randbytes(rng.randint(1, 300)), rng.random() < 0.5, rng.getrandbits(32)) for _ in range(40)]
    for data, bad, ip in frames:
        source.send(data, bad=bad, ip=ip)
    for data, bad, ip in frames:
        got = await sink.receive()
        assert (got.data, got.bad, got.sideband) == (data, bad, {"ip": ip})
    await source.idle()
    assert not sink.frames


@cocotb.test()
async def no_beat_is_idle_without_pauses(dut):
    source, sink = Source(dut, "s_axis", dut.clk), Sink(dut, "m_axis", dut.clk)
    await start(dut)
    for _ in range(5):
        source.send(bytes(1000))
    got = [await sink.receive() for _ in range(5)]
    beats = -(-1000 // (len(dut.s_axis_tdata) // 8))
    assert got[-1].last - got[0].first == 5 * beats - 1


@pytest.mark.parametrize("width", [64, 1024])
def test_frames_arrive(width):
    simulate("stream_register", __file__, also=[HERE], WIDTH=width)


@pytest.mark.parametrize(
    "fault, says", [(1, "tvalid fell before tready"), (2, "waiting beat changed"), (3, "AssertionError: m_axis_tkeep")]
)
def test_broken_rule_is_found(fault, says):
    with pytest.raises(AssertionError, match=says):
        simulate("stream_register", __file__, also=[HERE], only="frames_arrive_whole", FAULT=fault, WIDTH=64)
