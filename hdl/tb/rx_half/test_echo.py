# SPDX-License-Identifier: BSD-3-Clause
"""Echo requests through the receive half: replies against the model's, which adds up every checksum anew."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import cocotb
import pytest
from cocotb.triggers import ClockCycles
from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import Ether

from rx_bench import Bench
from rx_frames import Frames
from rx_model import MAX_FRAME, Settings, decide, echo_reply
from simulation import simulate
from streams import Sink, Source, never, pauses

FOLDER = Path(__file__).parent
SETTINGS = Settings(accept_vlan=True, answer_ping=True)


async def begin(dut: Any, after: Any = never) -> tuple[Bench, Source, Sink, Frames]:
    bench = await Bench(dut).start()
    await bench.set(SETTINGS)
    return (
        bench,
        Source(dut, "s_axis", dut.clk),
        Sink(dut, "echo_axis", dut.clk, pause=after),
        Frames(SETTINGS, random.getrandbits(32)),
    )


@cocotb.test()
async def a_reply_is_what_scapy_makes_of_it(dut: Any) -> None:
    _, source, sink, make = await begin(dut)
    # Where both 0 and ffff are right for a reply's checksum, scapy decides for 0 and the request for ffff.
    while (request := make.kind_ping(56).frame)[36:38] == b"\xf7\xff":
        pass
    source.send(request)
    asked, got = Ether(request), Ether((await sink.receive()).data)
    assert (got.src, got.dst, got[IP].src, got[IP].dst) == (asked.dst, asked.src, asked[IP].dst, asked[IP].src)
    want = Ether(src=got.src, dst=got.dst) / IP(src=got[IP].src, dst=got[IP].dst, flags="DF", id=0, ttl=64)
    want /= ICMP(type="echo-reply", id=asked[ICMP].id, seq=asked[ICMP].seq) / asked[ICMP].payload
    assert bytes(got) == bytes(want)


@cocotb.test()
@cocotb.parametrize(after=["never", "half", "bursts"])
async def every_size_is_answered_with_and_without_a_tag(dut: Any, after: str) -> None:
    bench, source, sink, make = await begin(dut, pauses(random.getrandbits(32))[after])
    keep = len(dut.s_axis_tkeep)
    sizes = [*range(0, 2 * keep + 2), 1472, 8972, MAX_FRAME - 46, *(random.randrange(3000) for _ in range(10))]
    for ttl in (64, 1 + random.randrange(255)):
        await bench.axi.write("tx_header", ttl | 0x5A00)  # replies have the request's type of service
        for n, size in enumerate(sizes):
            frame = bytes(make.ping(size, tos=n % 256))
            if n % 3 == 0:
                frame = frame[:12] + b"\x81\0" + make.random.randbytes(2) + frame[12:]
            source.send(frame.ljust(60, b"\0"))
            assert (await sink.receive()).data == echo_reply(frame.ljust(60, b"\0"), SETTINGS, ttl), size
    assert await bench.axi.read("echo_replies") == 2 * len(sizes)


@cocotb.test()
async def a_flood_is_answered_as_far_as_there_is_room_and_counted(dut: Any) -> None:
    """Back to back between frames of other kinds, with replies that leave slowly."""
    bench, source, sink, make = await begin(dut, pauses(random.getrandbits(32))["mostly"])
    app = Sink(dut, "m_axis", dut.app_clk)
    cases = []
    for _ in range(120):
        cases.append(make.kind_ping(random.choice([18, 56, 300])))
        if random.random() < 0.3:
            cases.append(make.any(random.randrange(300)))
    for c in cases:
        source.send(c.frame, bad=c.bad)
    await bench.settle(source, app, 1 << 30)
    await ClockCycles(dut.clk, 2000)
    pings = [c.frame for c in cases if decide(c.frame, c.bad, SETTINGS).verdict == "echo"]
    answered, refused = await bench.axi.read("echo_replies"), await bench.axi.read("echo_full")
    assert answered + refused == len(pings) and answered == len(sink.frames) >= 16 and refused
    want = iter(echo_reply(p, SETTINGS, 64) for p in pings)
    for got in sink.frames:
        assert got.data in want, "replies are whole, in order"


@cocotb.test()
async def what_is_damaged_or_not_from_one_host_is_not_answered(dut: Any) -> None:
    bench, source, sink, make = await begin(dut)
    kinds = [make.kind_ping_bad_checksum, make.kind_ping_options, make.kind_ping_from_nobody, make.kind_ping_everybody]
    for kind in (*kinds, make.kind_ping_reply):
        for size in (0, 1, 56, 600):
            source.send(kind(size).frame)
    source.send(last := make.kind_ping(56).frame)
    assert (await sink.receive()).data == echo_reply(last, SETTINGS, 64)
    await ClockCycles(dut.clk, 200)
    assert not sink.frames and await bench.axi.read("drop_udp_checksum") == 4


@pytest.mark.parametrize("width", [64, 1024])
def test_echo(width):
    simulate("rx_half", __file__, also=[FOLDER], WIDTH=width)
