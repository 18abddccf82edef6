# SPDX-License-Identifier: BSD-3-Clause
"""Tags on the way to the MAC: every length, any mix, no idle beat."""

from __future__ import annotations

import random
from typing import Any

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge

from simulation import parameter, simulate
from streams import Sink, Source, never, pauses, start


def tagged(frame: bytes, tci: int) -> bytes:
    """Tag a frame that has no tag."""
    return frame if frame[12:14] == b"\x81\x00" else frame[:12] + b"\x81\x00" + tci.to_bytes(2, "big") + frame[12:]


def some(r: random.Random, length: int) -> bytes:
    """Make a frame of any type, one in four with a tag."""
    kind = r.choice([b"\x08\x00", b"\x08\x06", b"\x81\x00", r.choice([b"\x81\x01", b"\x80\x00", b"\x00\x81"])])
    return (r.randbytes(12) + kind + r.randbytes(max(length, 14)))[: max(length, 14)]


async def begin(dut: Any, insert: int, tci: int, before: Any = never, after: Any = never) -> tuple[Source, Sink]:
    dut.insert.value, dut.tci.value = insert, tci
    source, sink = Source(dut, "s_axis", dut.clk, pause=before), Sink(dut, "m_axis", dut.clk, pause=after)
    await start(dut)
    return source, sink


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(before=["never", "half"], after=["never", "half", "bursts"], insert=[0, 1])
async def every_length_around_the_beats_edges(dut: Any, before: str, after: str, insert: int) -> None:
    seed = random.getrandbits(32)
    r = random.Random(seed)
    kinds, tci = pauses(seed), r.getrandbits(16)
    source, sink = await begin(dut, insert, tci, kinds[before], kinds[after])
    keep = parameter("WIDTH") // 8
    frames = [some(r, n) for n in range(14, 14 + 3 * keep)] + [some(r, r.randrange(14, 1600)) for _ in range(40)]
    r.shuffle(frames)
    for frame in frames:
        source.send(frame)
    for n, frame in enumerate(frames):
        assert (await sink.receive()).data == (tagged(frame, tci) if insert else frame), (n, len(frame))


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def frames_leave_back_to_back(dut: Any) -> None:
    keep = parameter("WIDTH") // 8
    source, sink = await begin(dut, 1, 0x2064)
    lengths = [8 * keep - n for n in range(8)] * 4 + [60] * 30 + [8234] * 3
    for n in lengths:
        source.send(bytes(n))
    got = [await sink.receive() for _ in lengths]
    assert got[-1].last - got[0].first + 1 == sum(-(-(n + 4) // keep) for n in lengths)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def settings_change_at_any_moment(dut: Any) -> None:
    source, sink = await begin(dut, 0, 0)
    r = random.Random(random.getrandbits(32))
    frames = [r.randbytes(12) + b"\x08\x00" + r.randbytes(r.randrange(300)) for _ in range(200)]
    for frame in frames:
        source.send(frame)
    tags: set[int] = set()

    async def change() -> None:
        while True:
            dut.insert.value, dut.tci.value = r.getrandbits(1), (tci := r.choice([0x0001, 0xE123]))
            tags.add(tci)
            await ClockCycles(dut.clk, r.randrange(1, 12))

    cocotb.start_soon(change())
    with_tag = 0
    for frame in frames:
        got = (await sink.receive()).data
        assert got in (frame, tagged(frame, 0x0001), tagged(frame, 0xE123))
        with_tag += len(got) > len(frame)
    assert 0 < with_tag < len(frames)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_reset_forgets_the_frame_under_way(dut: Any) -> None:
    """Wherever it is: before the tag, behind it, with its end still to come."""
    keep = parameter("WIDTH") // 8
    source, sink = await begin(dut, 1, 0x2064)
    frame = bytes(range(60))
    for beats in range(1, 5):
        for last in (0, 1):
            await ClockCycles(dut.clk, 2)
            sink.task.cancel()
            dut.m_axis_tready.value = 1
            dut.s_axis_tdata.value, dut.s_axis_tkeep.value, dut.s_axis_tvalid.value = 0, (1 << keep) - 1, 1
            for n in range(beats):
                dut.s_axis_tlast.value = int(last and n == beats - 1)
                await RisingEdge(dut.clk)
            # What is under way cannot leave in the one clock of the reset.
            dut.s_axis_tvalid.value, dut.rst.value, dut.m_axis_tready.value = 0, 1, 0
            await ClockCycles(dut.clk, 1)
            dut.rst.value = 0
            sink = Sink(dut, "m_axis", dut.clk)
            source.send(frame)
            assert (await sink.receive()).data == tagged(frame, 0x2064)


@pytest.mark.parametrize("width", [64, 128, 1024])
def test_vlan_tag(width):
    simulate("vlan_tag", __file__, WIDTH=width)
