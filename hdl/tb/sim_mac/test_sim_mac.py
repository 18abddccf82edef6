# SPDX-License-Identifier: BSD-3-Clause
"""The boards' MAC adapters with the models of their MACs, a line, and an ordinary MAC at its other end."""

from __future__ import annotations

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge

from simulation import ROOT, changed, parameter, simulate
from streams import Sink, Source, bursts, start

COMMON, SIM = ROOT / "hdl" / "vendor" / "common", ROOT / "hdl" / "sim"
CMAC, DCMAC = 1, 2
WIDTHS = {CMAC: 512, DCMAC: 1024}
LEAST = 60
UP, LOCAL, REMOTE, ALIGNED, DRY = 1, 2, 4, 8, 16


class Link:
    """Both ends of the line."""

    def __init__(self, dut):
        self.dut = dut
        self.source, self.sink = Source(dut, "s_axis", dut.clk), Sink(dut, "m_axis", dut.clk)
        self.far_source, self.far_sink = Source(dut, "far_tx", dut.clk), Sink(dut, "far_rx", dut.clk)

    @property
    def status(self) -> int:
        return int(self.dut.phy_status.value)

    async def until(self, what, clocks: int = 1000) -> None:
        for _ in range(clocks):
            if what():
                return
            await RisingEdge(self.dut.clk)
        raise AssertionError(f"phy_status stays {self.status:#x}")

    async def up(self) -> None:
        await self.until(lambda: self.status & UP)


async def begin(dut) -> Link:
    dut.cut.value = dut.cut_far.value = dut.flip.value = 0
    link = Link(dut)
    await start(dut)
    return link


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def frames_pass_both_ways(dut):
    link = await begin(dut)
    rng = random.Random(1)
    lengths = [*range(1, 280), *(rng.randint(1, 1600) for _ in range(60)), 9042, 9042]
    ours, theirs = ([rng.randbytes(n) for n in rng.sample(lengths, len(lengths))] for _ in range(2))
    for a, b in zip(ours, theirs, strict=True):
        link.source.send(a)
        link.far_source.send(b)
    for sent, sink in ((ours, link.far_sink), (theirs, link.sink)):
        for frame in sent:
            got = await sink.receive()
            assert got.data == frame.ljust(LEAST, b"\0") and not got.bad, f"{len(frame)} bytes"
    assert not int(dut.wrong.value) and link.status & UP and not link.status & DRY
    assert not link.status >> 32


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def nothing_is_sent_before_the_link_is_there(dut):
    link = await begin(dut)
    dut.cut.value = 1
    link.source.send(bytes(100))
    await ClockCycles(dut.clk, 300)
    assert not link.status & UP and link.status & LOCAL
    assert int(dut.far_remote_fault.value), "the far end is told"
    if parameter("MAC") == CMAC:
        assert not link.far_sink.frames
    dut.cut.value = 0
    await link.up()
    await ClockCycles(dut.clk, 300)
    assert not int(dut.far_remote_fault.value)
    assert (await link.far_sink.receive()).data == bytes(100)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def faults_come_and_go(dut):
    link = await begin(dut)
    await link.up()
    aligned = ALIGNED if parameter("MAC") == CMAC else 0
    await link.until(lambda: link.status == UP | aligned)
    dut.cut.value = 1
    await link.until(lambda: link.status == LOCAL)
    await link.until(lambda: int(dut.far_remote_fault.value))
    dut.cut.value = 0
    await link.until(lambda: link.status == UP | aligned)
    dut.cut_far.value = 1
    await link.until(lambda: link.status == REMOTE | aligned)
    dut.cut_far.value = 0
    await link.until(lambda: link.status == UP | aligned)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_wrong_bit_marks_its_frame(dut):
    link = await begin(dut)
    await link.up()
    for n in range(3):
        link.far_source.send(bytes([n]) * 3000)
    # The first word of the second frame that is in its middle.
    for _ in range(4000 * 8 // parameter("WIDTH")):
        await RisingEdge(dut.clk)
    words = 0
    while not (await flipped_at(dut, 1)):
        words += 1
        assert words < 500
    got = [await link.sink.receive() for _ in range(3)]
    assert [g.bad for g in got] == [False, True, False]
    assert got[0].data == bytes(3000) and got[2].data == b"\x02" * 3000


async def flipped_at(dut, byte: int) -> bool:
    """Turn a bit of the present word if it holds nothing but this byte."""
    size = parameter("WIDTH") // 8
    await RisingEdge(dut.clk)
    if not int(dut.back_valid.value) or int(dut.back_data.value) != int.from_bytes(bytes([byte]) * size, "little"):
        return False
    # What was seen has passed; the word behind it is in the same frame.
    dut.flip.value = 1
    while True:
        await RisingEdge(dut.clk)
        if int(dut.back_valid.value):
            break
    dut.flip.value = 0
    return True


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_frame_that_runs_dry_is_told(dut):
    """What the core never does."""
    link = await begin(dut)
    await link.up()
    link.source.pause = bursts(0.9, 5, mean=100)
    link.source.send(bytes(9000))
    await link.source.idle()
    await ClockCycles(dut.clk, 50)
    assert link.status & DRY if parameter("MAC") == CMAC else int(dut.wrong.value)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def the_model_tells_frames_that_are_too_short(dut):
    link = await begin(dut)
    await link.up()
    link.source.send(bytes(42))
    await link.until(lambda: int(dut.wrong.value))


BROKEN = "the_model_tells"


@pytest.mark.parametrize("mac", [CMAC, pytest.param(DCMAC, marks=pytest.mark.soak)])
def test_sim_mac(mac):
    bench = ROOT / "hdl" / "tb" / "sim_mac" / "mac_link.sv"
    simulate(
        "mac_link", __file__, only=f"^(?!.*{BROKEN})", also=[bench, SIM, COMMON], public=2, MAC=mac, WIDTH=WIDTHS[mac]
    )


@pytest.mark.soak
@pytest.mark.parametrize("mac", [CMAC, DCMAC])
def test_without_padding_the_model_says_so(mac):
    bench = ROOT / "hdl" / "tb" / "sim_mac" / "mac_link.sv"
    pad = changed("frame_pad", "if (alone) m_axis_tkeep[i] = 1'b1;", "", folder=COMMON)
    simulate("mac_link", __file__, only=BROKEN, also=[bench, pad, SIM, COMMON], MAC=mac, WIDTH=WIDTHS[mac])
