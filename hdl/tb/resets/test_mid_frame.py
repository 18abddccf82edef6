# SPDX-License-Identifier: BSD-3-Clause
"""A reset in the middle of a frame leaves nothing behind: the next frames pass as the first ones did."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import cocotb
import pytest
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from scapy.utils import checksum

sys.path.insert(0, str(Path(__file__).parents[1] / "udp_tx"))

import test_udp_tx as udp_tx

from simulation import changed, parameter, simulate
from slices import Ports, Slice
from streams import Sink, Source, randomly, start

PEER = 0x0A010209
RING = ("dst_ip", "dst_port", "src_port")


class Streams:
    """Source and sink, which begin anew after each reset."""

    def __init__(self, dut: Any, names: dict[str, str], sideband: tuple[str, ...]) -> None:
        self.dut, self._names, self._sideband = dut, names, sideband
        self._made: list[Any] = []
        self.fresh()

    def fresh(self) -> None:
        for old in self._made:
            old.task.cancel()
        self.source = Source(Ports(self.dut, **self._names), "s_axis", self.dut.clk, sideband=self._sideband)
        self.sink = Sink(self.dut, "m_axis", self.dut.clk, pause=randomly(0.4, random.getrandbits(32)))
        self._made = [self.source, self.sink]

    async def cut(self, most: int) -> None:
        """Reset at some time within so many clocks, for 1 to 3 clocks."""
        await ClockCycles(self.dut.clk, random.randrange(most))
        self.dut.rst.value = 1
        self.dut.s_axis_tvalid.value = 0
        for old in self._made:
            old.task.cancel()
        for _ in range(random.randint(1, 3)):
            await RisingEdge(self.dut.clk)
            await ReadOnly()
            assert not int(self.dut.s_axis_tready.value), "what is taken in a reset is lost"
            await FallingEdge(self.dut.clk)
        self.dut.rst.value = 0
        await RisingEdge(self.dut.clk)
        self.fresh()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def headers_begin_anew(dut: Any) -> None:
    d, keep = dut, parameter("WIDTH") // 8
    d.enable.value, d.udp_checksum.value, d.lookup_hit.value = 1, 1, 1
    d.ttl.value, d.tos.value = 64, 0
    d.own_mac.value, d.own_ip.value, d.lookup_mac.value = 0x020000000001, 0x0A010203, 0x060000000000 | PEER
    streams = Streams(dut, {f"s_axis_{n}": f"s_{n}" for n in udp_tx.SIDEBAND}, udp_tx.SIDEBAND)

    def send(payload: bytes) -> None:
        fields = {"length": len(payload), "dst_ip": PEER, "src_port": 1, "dst_port": 2}
        streams.source.send(payload, sum=~checksum(payload) & 0xFFFF, **fields)

    await start(dut)
    for _ in range(120):
        for _ in range(3):
            send(random.randbytes(random.choice([1, keep, random.randint(1, 6 * keep)])))
        await streams.cut(40)
        want = [random.randbytes(random.randint(1, 4 * keep)) for _ in range(2)]
        for payload in want:
            send(payload)
        for payload in want:
            assert (await streams.sink.receive()).data == udp_tx.Bench.frame(payload, PEER)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def fifos_begin_anew(dut: Any) -> None:
    """In the middle of frames that are kept, and of those that are being dropped."""
    most = parameter("MAX_BYTES")
    streams = Streams(dut, {"s_axis_meta": "s_meta"}, ("meta",))
    await start(dut)
    for _ in range(80):
        for _ in range(4):
            streams.source.send(bytes(random.choice([1, most, 3 * most])), bad=random.random() < 0.2, meta=1)
        await streams.cut(3 * most * 8 // parameter("WIDTH"))
        await ClockCycles(dut.clk, 3)
        want = [random.randbytes(random.randint(1, most)) for _ in range(2)]
        for _ in range(random.randrange(3)):  # the first to be taken back is taken back to where the FIFO begins anew
            streams.source.send(bytes(most), bad=True, meta=3)
        for data in want:
            streams.source.send(data, meta=2)
        for data in want:
            assert (await streams.sink.receive()).data == data


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def arbiters_begin_anew(dut: Any) -> None:
    """Whoever had a frame under way, the other input is served."""
    edge = RisingEdge(dut.clk)
    dut.s_axis_tvalid.value = 0
    await start(dut)
    for _ in range(100):
        busy, other = random.sample([0, 1], 2)
        sources = [Source(Ports(dut, i, 2), "s_axis", dut.clk) for i in (0, 1)]
        sink = Sink(dut, "m_axis", dut.clk, pause=randomly(0.3, random.getrandbits(32)))
        sources[busy].send(bytes(8 * random.randint(2, 9)))
        for _ in range(random.randrange(10)):
            await edge
        dut.rst.value = 1
        for made in (*sources, sink):
            made.task.cancel()
        dut.s_axis_tvalid.value = 0
        Slice._driven.clear()
        await ClockCycles(dut.clk, random.randint(1, 3))
        dut.rst.value = 0
        await edge
        source, sink = Source(Ports(dut, other, 2), "s_axis", dut.clk), Sink(dut, "m_axis", dut.clk)
        want = random.randbytes(random.randint(1, 40))
        source.send(want)
        assert (await sink.receive()).data == want
        source.task.cancel()
        sink.task.cancel()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def rings_begin_anew(dut: Any) -> None:
    """A packet's addresses are those of its first beat, also behind a packet that a reset cut, and its sum is its own."""
    names = {f"s_axis_{n}": f"s_{n}" for n in RING} | {f"m_axis_{n}": f"m_{n}" for n in (*RING, "length", "sum")}
    ports = Ports(dut, **names)
    dut.app_rst.value = dut.rst.value = 1
    await start(dut, 3.3, clock="app_clk", reset=None)
    await start(dut, 2.56, reset=None)
    for _ in range(60):
        await ClockCycles(dut.app_clk, 8)
        dut.app_rst.value = dut.rst.value = 0
        await RisingEdge(dut.app_clk)
        source = Source(ports, "s_axis", dut.app_clk, sideband=RING)
        sink = Sink(ports, "m_axis", dut.clk, sideband=(*RING, "sum"))
        for _ in range(2):
            payload = random.randbytes(random.randint(1, 80))
            address = {
                "dst_ip": random.getrandbits(32),
                "dst_port": random.getrandbits(16),
                "src_port": random.getrandbits(16),
            }
            source.send(payload, **address)
            got = await sink.receive()
            assert got.data == payload
            assert got.sideband == {**address, "sum": ~checksum(payload) & 0xFFFF}
        source.send(random.randbytes(160), dst_ip=1, dst_port=2, src_port=3)
        await ClockCycles(dut.app_clk, random.randint(1, 25))
        dut.app_rst.value = dut.rst.value = 1
        for made in (source, sink):
            made.task.cancel()
        dut.s_axis_tvalid.value = 0


def bench(top, only, also=(), **parameters):
    simulate(top, __file__, only=only, also=also, **parameters)


UDP = ("udp_tx", "headers")
FIFO = ("packet_fifo", "fifos")
SIZES = {"udp_tx": {"WIDTH": 64}, "packet_fifo": {"WIDTH": 64, "DEPTH": 64, "FRAMES": 8, "META": 8, "MAX_BYTES": 200}}


@pytest.mark.parametrize("width", [64, 1024])
def test_udp_tx(width):
    bench(*UDP, WIDTH=width)


@pytest.mark.parametrize("drop", [0, 1])
def test_packet_fifo(drop):
    bench(*FIFO, DROP_WHEN_FULL=drop, **SIZES["packet_fifo"])


def test_frame_arbiter():
    bench("frame_arbiter", "arbiters", N=2, WIDTH=64, META=4)


def test_tx_ring():
    bench("tx_ring", "rings", WIDTH=64, DEPTH=64, FRAMES=8, MAX_PAYLOAD=200)


FORGOTTEN = {
    "beat": (UDP, "udp_tx", "      beat  <= 4'd0;\n"),
    "flush": (UDP, "udp_tx", "      flush <= 1'b0;\n"),
    "dropping": (FIFO, "async_packet_fifo", "      dropping         <= 1'b0;\n"),
}


@pytest.mark.parametrize("register", FORGOTTEN)
def test_a_register_that_reset_forgets_is_found(register):
    which, module, line = FORGOTTEN[register]
    with pytest.raises(AssertionError, match="failed: "):
        bench(*which, also=[changed(module, line, "")], **SIZES[which[0]])
