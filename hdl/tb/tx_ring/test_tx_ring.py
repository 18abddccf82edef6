# SPDX-License-Identifier: BSD-3-Clause
"""An application's ring: whole packets with length, addresses and sum in the core's clock, whatever the application does."""

from __future__ import annotations

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge
from scapy.utils import checksum

from simulation import parameter, simulate
from slices import Ports
from streams import Sink, Source, never, pauses, start

SIDEBAND = ("dst_ip", "dst_port", "src_port")
LIMIT = 900  # MAX_PAYLOAD here


class Count:
    """Cycles in which a signal is high."""

    def __init__(self, clock, signal):
        self.count = 0
        cocotb.start_soon(self._run(clock, signal))

    async def _run(self, clock, signal):
        while True:
            await RisingEdge(clock)
            self.count += int(signal.value)


async def begin(dut, pause=never, sink_pause=never, app_ns=3.3):
    """Reset both sides; source and sink."""
    out = (*SIDEBAND, "length", "sum")
    names = {f"s_axis_{n}": f"s_{n}" for n in SIDEBAND} | {f"m_axis_{n}": f"m_{n}" for n in out}
    source = Source(Ports(dut, **names), "s_axis", dut.app_clk, pause=pause, sideband=SIDEBAND)
    sink = Sink(Ports(dut, **names), "m_axis", dut.clk, pause=sink_pause, sideband=out)
    dut.app_rst.value = dut.rst.value = 1
    await start(dut, app_ns, clock="app_clk", reset=None)
    await start(dut, 2.56, reset=None)
    await ClockCycles(dut.app_clk, 6)
    await ClockCycles(dut.clk, 6)
    dut.rst.value = dut.app_rst.value = 0
    await RisingEdge(dut.clk)
    return source, sink


def packet(rng, length):
    """Give a payload and its sideband."""
    return rng.randbytes(length), {
        "dst_ip": rng.getrandbits(32),
        "dst_port": rng.getrandbits(16),
        "src_port": rng.getrandbits(16),
    }


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(before=["never", "half", "bursts"], after=["never", "mostly"], app_ns=[1.1, 2.56, 9.0])
async def packets_come_whole_with_length_addresses_and_sum(dut, before, after, app_ns):
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    source, sink = await begin(dut, pauses(seed)[before], pauses(seed + 1)[after], app_ns)
    sent = [packet(rng, rng.choice([1, LIMIT, rng.randint(1, LIMIT)])) for _ in range(25)]
    for data, sideband in sent:
        source.send(data, **sideband)
    beat = parameter("WIDTH") // 8
    for data, sideband in sent:
        got = await sink.receive()
        total = got.sideband.pop("sum")
        assert got.data == data
        assert got.sideband == sideband | {"length": len(data)}
        assert total % 0xFFFF == (~checksum(data) & 0xFFFF) % 0xFFFF
        if after == "never":
            assert got.last - got.first + 1 == -(-len(data) // beat), "an idle beat inside a packet"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def only_the_first_beat_s_addresses_count(dut):
    source, sink = await begin(dut, app_ns=2.0)
    rng = random.Random(3)

    async def disturb():
        # After each accepted first beat the sideband is something else until the packet ends.
        first = True
        while True:
            await RisingEdge(dut.app_clk)
            if int(dut.s_axis_tvalid.value) and int(dut.s_axis_tready.value):
                first = bool(int(dut.s_axis_tlast.value))
                if not first:
                    dut.s_dst_ip.value, dut.s_dst_port.value, dut.s_src_port.value = 0xDEADBEEF, 0x5555, 0xAAAA

    cocotb.start_soon(disturb())
    for _ in range(10):
        data, sideband = packet(rng, rng.randint(1, LIMIT))
        source.send(data, **sideband)
        got = await sink.receive()
        assert {n: got.sideband[n] for n in SIDEBAND} == sideband


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def defect_6_a_full_ring_holds_the_application_and_loses_nothing(dut):
    source, sink = await begin(dut, sink_pause=lambda: True, app_ns=2.0)
    stalled, full = Count(dut.clk, dut.stalled), Count(dut.clk, dut.almost_full)
    rng = random.Random(4)
    sent = [packet(rng, LIMIT) for _ in range(12)]
    for data, sideband in sent:
        source.send(data, **sideband)
    await ClockCycles(dut.clk, 6 * LIMIT * 8 // parameter("WIDTH") + 200)
    assert source.waited > 0 and not int(dut.s_axis_tready.value)
    assert (stalled.count, full.count) == (1, 1), "once, however long it lasts"
    sink.pause = never
    for data, _ in sent:
        assert (await sink.receive()).data == data


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def what_is_too_long_or_bad_goes_whole_and_is_counted_once(dut):
    source, sink = await begin(dut)
    dropped = Count(dut.clk, dut.dropped)
    rng = random.Random(5)
    good = []
    for n in range(40):
        length, bad = rng.choice([LIMIT + 1, 5 * LIMIT, 10, LIMIT]), rng.random() < 0.3
        data, sideband = packet(rng, length)
        source.send(data, bad=bad, **sideband)
        if length <= LIMIT and not bad:
            good.append((n, data))
    for n, data in good:
        assert (await sink.receive()).data == data, n
    await source.idle()
    await ClockCycles(dut.clk, 100)
    assert not sink.frames and dropped.count == 40 - len(good)


@pytest.mark.parametrize("width", [64, 1024])
def test_tx_ring(width):
    simulate("tx_ring", __file__, WIDTH=width, DEPTH=4096 * 8 // width, FRAMES=16, MAX_PAYLOAD=LIMIT)
