# SPDX-License-Identifier: BSD-3-Clause
"""The receive half behind its registers: every frame that scapy makes is accepted or dropped as rx_model says, and counted."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge
from scapy.contrib.igmp import IGMP
from scapy.layers.inet import IP, UDP

from rx_bench import SIDEBAND, Bench, expected, totals
from rx_frames import Case, Frames
from rx_model import MAX_FRAME, Settings, echo_reply, ip_text
from simulation import WIDTHS, parameter, simulate
from streams import Sink, Source, bursts, never, randomly

FOLDER = Path(__file__).parent


def a_size(r: random.Random, large: float = 0.03) -> int:
    """Mostly around the widths' edges, where bugs are; some large."""
    if r.random() < large:
        return r.randrange(9001)
    return r.choice([r.randrange(0, 20), r.randrange(0, 300), r.choice([22, 86, 214, 342]) + r.randrange(-3, 4)])


def some_settings(r: random.Random) -> Settings:
    """Registers that a user might have set."""
    none = [(0, 0), (0xEF000000, 0), (0x0A010203, 0xFFFFFFFF)]
    some = [(0xEF010240, 0xFFFFFFC0), (0xE8000001, 0xFFFFFFFF), (0xE0000000, 0xF0000000), (0xEF010000, 0xFFFF0000)]
    group, mask = r.choice(none + 2 * some)
    return Settings(
        netmask=r.choice([0xFFFFFF00, 0xFFFF0000, 0xFFFFFFF0, 0xFFFFFFFF]),
        group=group,
        group_mask=mask,
        port=r.getrandbits(16),
        port_mask=r.choice([0xFFFF, 0xFFFF, 0xFFF8, 0]),
        promiscuous=r.random() < 0.25,
        accept_vlan=r.random() < 0.6,
        cpu_ports=r.random() < 0.3,
        answer_ping=r.random() < 0.6,
        igmp=r.random() < 0.6,
    )


def spoiled(r: random.Random, case: Case) -> Case:
    """Put a second fault into a frame: the order of decisions matters."""
    frame, bad = case.frame, case.bad
    match r.randrange(4):
        case 0:
            bad = True
        case 1:
            frame = frame[: r.choice([r.randint(1, 80), r.randint(12, 19), r.randint(1, len(frame))])]
        case 2:
            frame = bytes.fromhex("020000007777") + frame[6:]
        case _:
            frame += bytes(max(0, r.choice([9216, 9217]) - len(frame)))
    return replace(case, frame=frame, bad=bad, expect=None)


async def run(dut: Any, count: int, source_pause: Any, sink_pause: Any) -> None:
    """Send frames of all kinds; payloads, sidebands and counters must be the model's."""
    seed = random.getrandbits(32)
    r = random.Random(seed)
    settings = some_settings(r)
    bench = await Bench(dut).start()
    await bench.set(settings)
    make = Frames(settings, seed)
    source = Source(dut, "s_axis", dut.clk, pause=source_pause)
    sink = Sink(dut, "m_axis", dut.app_clk, pause=sink_pause, sideband=SIDEBAND)
    echoes = Sink(dut, "echo_axis", dut.clk)
    kinds = sorted(make.kinds)
    cases = [make.kinds[k](a_size(r)) for k in kinds]  # each kind at least once
    cases += [make.any(a_size(r)) for _ in range(count - len(cases))]
    cases += [spoiled(r, make.any(a_size(r, 0))) for _ in range(count // 3)]
    r.shuffle(cases)
    outcomes = expected(cases, settings)
    for c in cases:
        source.send(c.frame, bad=c.bad)
    wanted = [o for o in outcomes if o.verdict == "app"]
    await bench.settle(source, sink, len(wanted))
    counters = await bench.axi.counters()
    kind = [c.kind for c, o in zip(cases, outcomes, strict=True) if o.verdict == "app"]
    for k, o, got in zip(kind, wanted, sink.frames, strict=False):
        assert got.sideband == o.sideband, k
        assert got.data == o.payload, k
    assert len(sink.frames) == len(wanted)
    pings = [c.frame for c, o in zip(cases, outcomes, strict=True) if o.verdict == "echo"]
    assert [f.data for f in echoes.frames] == [echo_reply(p, settings, 64) for p in pings]
    want = totals(cases, outcomes)
    assert {n: counters[n] for n in want} == want
    for_cpu = [c.frame for c, o in zip(cases, outcomes, strict=True) if o.verdict == "cpu"]
    stored = min(sum(len(f) <= 8192 for f in for_cpu), 7)  # nobody takes them out
    assert (counters["cpu_rx_frames"], counters["cpu_rx_full"]) == (stored, len(for_cpu) - stored)


@cocotb.test()
async def every_frame_is_decided_and_counted_back_to_back(dut: Any) -> None:
    await run(dut, parameter("COUNT"), never, never)


@cocotb.test()
async def every_frame_is_decided_and_counted_with_pauses(dut: Any) -> None:
    seed = random.getrandbits(32)
    await run(dut, parameter("COUNT"), bursts(0.5, seed), randomly(0.2, seed))


@cocotb.test()
async def defect_5_the_tail_is_not_lost_when_the_last_beat_carries_more_than_42_bytes(dut: Any) -> None:
    """Payload lengths around every place where the last beat's fill changes, at offset 42 and others."""
    bench = await Bench(dut).start()
    settings = Settings(accept_vlan=True)
    await bench.set(settings)
    source, sink = Source(dut, "s_axis", dut.clk), Sink(dut, "m_axis", dut.app_clk, sideband=SIDEBAND)
    make = Frames(settings, random.getrandbits(32))
    keep = len(dut.s_axis_tkeep)
    sizes = range(1, 3 * keep + 1)
    kinds = [make.kind_good, make.kind_options, make.kind_vlan]
    for size in sizes:
        case = make.random.choice(kinds)(size) if size % 2 else make.kind_good(size)
        source.send(case.frame)
        (outcome,) = expected([case], settings)
        got = await sink.receive()  # the tail must not need a next frame to come out
        assert got.data == outcome.payload, f"{case.kind} of {size} bytes"


EDGES = (1, 2, 17, 18, 19, 85, 86, 87, 100, 127, 128, 129, 1472)  # up to 18 bytes are padded on the wire


@cocotb.test()
async def defect_5_tkeep_is_exact(dut: Any) -> None:
    """The public core has no tkeep. (The sink checks that it is contiguous, and full but on the last beat.)"""
    bench = await Bench(dut).start()
    await bench.set(Settings())
    source, sink = Source(dut, "s_axis", dut.clk), Sink(dut, "m_axis", dut.app_clk)
    make = Frames(bench.settings, random.getrandbits(32))
    for size in EDGES:
        source.send(make.kind_good(size).frame)
        assert len((await sink.receive()).data) == size


@cocotb.test()
async def defect_5_the_length_comes_with_the_first_beat(dut: Any) -> None:
    bench = await Bench(dut).start()
    await bench.set(Settings())
    source, sink = Source(dut, "s_axis", dut.clk), Sink(dut, "m_axis", dut.app_clk, sideband=SIDEBAND)
    make = Frames(bench.settings, random.getrandbits(32))
    for size in EDGES:
        source.send(make.kind_padded(size).frame)
        assert (await sink.receive()).sideband["length"] == size


async def counted(dut: Any, counter: str, *kinds: str) -> None:
    """Send a few of each kind between good frames; all must be counted by `counter`, by no other, and not come out."""
    bench = await Bench(dut).start()
    await bench.set(Settings())
    source, sink = Source(dut, "s_axis", dut.clk), Sink(dut, "m_axis", dut.app_clk, sideband=SIDEBAND)
    make = Frames(bench.settings, random.getrandbits(32))
    wrong = [make.kinds[kind](100) for kind in kinds for _ in range(5)]
    cases = [c for w in wrong for c in (make.kind_good(90), w)]
    for c in cases:
        source.send(c.frame, bad=c.bad)
    await bench.settle(source, sink, len(wrong) + 1)
    assert len(sink.frames) == len(wrong)
    counters = await bench.axi.counters()
    assert counters[counter] == len(wrong)
    want = totals(cases, expected(cases, bench.settings))
    assert {n: counters[n] for n in want} == want


@cocotb.test()
async def defect_5_the_ip_checksum_is_checked(dut: Any) -> None:
    await counted(dut, "drop_ip_checksum", "bad_ip_checksum")


@cocotb.test()
async def defect_5_the_udp_checksum_is_checked(dut: Any) -> None:
    await counted(dut, "drop_udp_checksum", "bad_udp_checksum")


@cocotb.test()
async def defect_5_a_truncated_frame_is_dropped(dut: Any) -> None:
    await counted(dut, "drop_length", "truncated", "cut_header", "runt")


@cocotb.test()
async def defect_5_the_ip_length_is_checked(dut: Any) -> None:
    await counted(dut, "drop_length", "ip_longer", "ip_tiny")


@cocotb.test()
async def defect_5_the_udp_length_is_checked(dut: Any) -> None:
    await counted(dut, "drop_length", "udp_long", "udp_tiny")


@cocotb.test()
async def defect_5_a_frame_that_the_mac_marks_bad_is_dropped(dut: Any) -> None:
    await counted(dut, "rx_bad_mac", "bad_fcs")


@cocotb.test()
async def defect_3_multicast_is_received(dut: Any) -> None:
    """The public core's test for multicast can never be true. Groups of ours come in, others do not."""
    settings = Settings(group=0xEF010200, group_mask=0xFFFFFFC0)  # 239.1.2.0/26
    bench = await Bench(dut).start()
    await bench.set(settings)
    source, sink = Source(dut, "s_axis", dut.clk), Sink(dut, "m_axis", dut.app_clk, sideband=SIDEBAND)
    make = Frames(settings, random.getrandbits(32))
    case = make.kind_multicast(100)
    wrong = [make.kind_multicast_alias(100)] + [make.kind_multicast_crossed(100) for _ in range(10)]
    outcomes = expected(wrong, settings)
    for c in (*wrong, case):
        source.send(c.frame)
    want = [o.payload for o in outcomes if o.verdict == "app"]  # a crossed pair may be one group twice
    for payload in want:
        assert (await sink.receive()).data == payload
    got = await sink.receive()
    assert got.data == expected([case], settings)[0].payload
    assert got.sideband["dst_ip"] & 0xFFFFFFC0 == 0xEF010200
    assert await bench.axi.read("drop_ip") == len(wrong) - len(want) >= 1


@cocotb.test()
async def without_a_mask_or_a_group_no_group_is_ours(dut: Any) -> None:
    """A mask of 0 would match every group."""
    bench = await Bench(dut).start()
    source, sink = Source(dut, "s_axis", dut.clk), Sink(dut, "m_axis", dut.app_clk)
    none = (Settings(group=0xEF010203, group_mask=0), Settings(group=0x0A010277, group_mask=0xFFFFFFFF))
    for settings in none:
        await bench.set(settings)
        make = Frames(settings, random.getrandbits(32))
        p = make.udp(100, ip=settings.group, mac=make.group_mac(settings.group))
        case = make.finish("no_group", p, "drop_mac")
        expected([case], settings)
        source.send(case.frame)
        await bench.settle(source, sink, 0)
    counters = await bench.axi.counters()
    assert (counters["rx_frames"], counters["drop_mac"], counters["rx_packets"]) == (2, 2, 0)


@cocotb.test()
async def queries_by_our_group_s_mac_to_another_address_are_not_ours(dut: Any) -> None:
    """The MAC address has 23 bits of a group's: here those agree, and one of the others does not."""
    settings = Settings(group=0xEF010203, group_mask=0xFFFFFFFF, igmp=True)
    bench = await Bench(dut).start()
    await bench.set(settings)
    source, sink = Source(dut, "s_axis", dut.clk), Sink(dut, "m_axis", dut.app_clk)
    make = Frames(settings, random.getrandbits(32))
    message = IGMP(type=0x11, mrcode=10, gaddr=ip_text(settings.group))
    cases = [make.finish("query", make.query(settings.group ^ 1 << n, message), "drop_ip") for n in range(23, 32)]
    cases.append(make.finish("query", make.query(settings.group, message), "igmp_queries"))
    for c in cases:
        source.send(c.frame)
    await bench.settle(source, sink, 0)
    counters = await bench.axi.counters()
    want = totals(cases, expected(cases, settings))
    assert {n: counters[n] for n in want} == want


@cocotb.test()
async def a_subnet_of_one_host_has_no_broadcast_address(dut: Any) -> None:
    bench = await Bench(dut).start()
    await bench.set(Settings(netmask=0xFFFFFFFF))
    source, sink = Source(dut, "s_axis", dut.clk), Sink(dut, "m_axis", dut.app_clk, sideband=SIDEBAND)
    make = Frames(bench.settings, random.getrandbits(32))
    source.send(make.kind_subnet_broadcast(50).frame)
    source.send((case := make.kind_broadcast(50)).frame)
    assert (await sink.receive()).data == expected([case], bench.settings)[0].payload
    assert await bench.axi.read("drop_ip") == 1


@cocotb.test()
async def lengths_are_checked_to_the_byte(dut: Any) -> None:
    """Without a UDP checksum that would find out: one byte too few is too few, and one UDP byte too many too many."""
    bench = await Bench(dut).start()
    await bench.set(Settings())
    source, sink = Source(dut, "s_axis", dut.clk), Sink(dut, "m_axis", dut.app_clk, sideband=SIDEBAND)
    make = Frames(bench.settings, random.getrandbits(32))
    whole = make.kind_no_checksum(random.randrange(80, 220)).frame
    cases = [Case("cut", whole[:n], expect="drop_length") for n in range(1, len(whole))]
    for extra in (0, 1):
        p = make.udp(60)
        p[UDP].len, p[UDP].chksum = 68 + extra, 0
        cases.append(Case("udp", bytes(p), expect="drop_length" if extra else "app"))
        p = make.udp(60)
        p[IP].len, p[UDP].chksum = 88 + extra, 0
        cases.append(Case("ip", bytes(p), expect="drop_length" if extra else "app"))
    for size in (MAX_FRAME - 42, MAX_FRAME - 41):
        cases.append(
            Case("long", make.kind_good(size).frame, expect="app" if size + 42 <= MAX_FRAME else "drop_length")
        )
    other = make.kind_other_mac(60).frame  # dropped for its address only if the header is whole
    cases += [Case("runt", other[:13], expect="drop_length"), Case("header", other[:14], expect="drop_mac")]
    cases.append(make.kind_other_port(0))  # 8 bytes of UDP: the port decides, then that none is payload
    outcomes = expected(cases, bench.settings)
    for c in cases:
        source.send(c.frame)
    await bench.settle(source, sink, 3)
    assert [f.data for f in sink.frames] == [o.payload for o in outcomes if o.verdict == "app"]
    counters = await bench.axi.counters()
    want = totals(cases, outcomes)
    assert {n: counters[n] for n in want} == want


@cocotb.test()
async def a_frame_of_more_than_64_kib_is_too_long_however_it_ends(dut: Any) -> None:
    """Its bytes are not counted anew: that its end looks like a frame does not matter."""
    bench = await Bench(dut).start()
    await bench.set(Settings())
    source, sink = Source(dut, "s_axis", dut.clk), Sink(dut, "m_axis", dut.app_clk, sideband=SIDEBAND)
    make = Frames(bench.settings, random.getrandbits(32))
    good = make.kind_good(100)
    for size in (65536, 65536 - len(dut.s_axis_tkeep)):
        source.send(random.randbytes(size) + good.frame)
    source.send(good.frame)
    await bench.settle(source, sink, 1)
    assert [f.data for f in sink.frames] == [expected([good], bench.settings)[0].payload]
    counters = await bench.axi.counters()
    assert (counters["rx_frames"], counters["rx_packets"], counters["drop_length"] + counters["drop_mac"]) == (3, 1, 2)


async def overrun(dut: Any) -> tuple[Bench, Source, Sink, list[bytes], dict[str, int]]:
    """Send more than fits while the application stops, then let it run; return what was sent to it and the counters."""
    bench = await Bench(dut).start()
    await bench.set(Settings())
    make = Frames(bench.settings, random.getrandbits(32))
    stopped = True
    source = Source(dut, "s_axis", dut.clk)
    sink = Sink(dut, "m_axis", dut.app_clk, pause=lambda: stopped, sideband=SIDEBAND)
    cases = [make.kind_good(random.randrange(1, 300)) for _ in range(400)] + [
        make.kind_other_port(200) for _ in range(20)
    ]
    for c in cases:
        source.send(c.frame)
    await bench.settle(source, sink, 1)
    assert not sink.frames
    counters = await bench.axi.counters()
    stopped = False
    await bench.settle(source, sink, counters["rx_packets"])
    return bench, source, sink, [o.payload for o in expected(cases[:400], bench.settings)], counters


@cocotb.test()
async def defect_5_what_an_application_cannot_take_is_counted_packet_by_packet(dut: Any) -> None:
    """The public core has an overrun flag only."""
    _, _, sink, _, counters = await overrun(dut)
    assert counters["rx_overflow"] > 50
    assert counters["rx_packets"] + counters["rx_overflow"] == 400
    assert counters["drop_port"] == 20, "a frame for somebody else is no overflow, even if the FIFO is full"
    assert counters["rx_almost_full"] >= 1
    assert counters["rx_frames"] == 420
    assert len(sink.frames) == counters["rx_packets"]


@cocotb.test()
async def defect_6_a_full_fifo_keeps_what_it_holds(dut: Any) -> None:
    """The public core's FIFO holds 16 words and nobody looks at its full flag."""
    bench, source, sink, sent, _ = await overrun(dut)
    stored = [f.data for f in sink.frames]
    assert len(stored) >= 200
    assert stored[:200] == sent[:200], "what came before the FIFO was full"
    rest = iter(sent)
    assert all(p in rest for p in stored), "and later only whole packets, in order"
    case = Frames(bench.settings, random.getrandbits(32)).kind_good(333)
    source.send(case.frame)
    sink.frames.clear()
    assert (await sink.receive()).data == expected([case], bench.settings)[0].payload, "nothing stays broken"


@cocotb.test()
async def a_disabled_core_ignores_frames_whole(dut: Any) -> None:
    bench = await Bench(dut).start()
    await bench.set(Settings())
    source, sink = Source(dut, "s_axis", dut.clk), Sink(dut, "m_axis", dut.app_clk, sideband=SIDEBAND)
    make = Frames(bench.settings, random.getrandbits(32))
    await bench.axi.write("control", 0)
    source.send(make.kind_good(9000).frame)
    await ClockCycles(dut.clk, 3)
    await bench.axi.write("control", 1)  # in the middle of the frame, where that has more than a few beats
    await source.idle()
    case = make.kind_good(50)
    source.send(case.frame)
    assert (await sink.receive()).data == expected([case], bench.settings)[0].payload
    counters = await bench.axi.counters()
    assert (counters["rx_frames"], counters["rx_packets"]) == (1, 1)


@cocotb.test()
async def a_soft_reset_in_the_middle_of_a_frame_leaves_nothing_behind(dut: Any) -> None:
    """What of the frame comes after the reset is not taken for a frame."""
    bench = await Bench(dut).start()
    await bench.set(Settings(promiscuous=True))
    source, sink = Source(dut, "s_axis", dut.clk), Sink(dut, "m_axis", dut.app_clk, sideband=SIDEBAND)
    make = Frames(bench.settings, random.getrandbits(32))
    control = await bench.axi.read("control")
    for share in (0.9, 0.95, 0.97, 0.97):  # of pauses: so that a frame takes longer than two register accesses
        source.pause = randomly(share, random.getrandbits(32))
        source.send(make.kind_good(9000).frame)
        while not int(dut.s_axis_tvalid.value):
            await RisingEdge(dut.clk)
        await bench.axi.write("control", control | 1 << 16)
        await bench.axi.write("control", control)
        source.pause = never
        await source.idle()
        await ClockCycles(dut.clk, 60)
    assert not {n: c for n, c in (await bench.axi.counters()).items() if c}
    case = make.kind_good(50)
    source.send(case.frame)
    assert (await sink.receive()).data == expected([case], bench.settings)[0].payload
    counters = await bench.axi.counters()
    assert (counters["rx_frames"], counters["rx_packets"]) == (1, 1)


@cocotb.test()
async def frames_for_the_cpu_are_whole_and_counted(dut: Any) -> None:
    bench = await Bench(dut).start()
    await bench.set(Settings(cpu_ports=True))
    source, sink = Source(dut, "s_axis", dut.clk), Sink(dut, "m_axis", dut.app_clk, sideband=SIDEBAND)
    make = Frames(bench.settings, random.getrandbits(32))
    sizes = [46, 300, 86]
    cases = [make.kind_other_port(n) for n in sizes] + [make.kind_ping(40), make.kind_arp_for_us(0)]
    huge = make.kind_other_port(8200)  # its frame is longer than the buffer's slots
    source.send(huge.frame)
    for c in cases:
        source.send(c.frame)
        source.send(make.kind_good(20).frame)
    await bench.settle(source, sink, 5)
    assert len(sink.frames) == 5
    for c in cases:
        assert await bench.read_cpu_frame() == c.frame, c.kind
    assert await bench.axi.read("bytes_ready") == 0
    assert await bench.axi.read("cpu_rx_full") == 1
    for _ in range(9):  # the buffer has room for seven
        source.send(make.kind_ping(30).frame)
    await bench.settle(source, sink, 6)
    assert (await bench.axi.read("cpu_rx_full"), await bench.axi.read("cpu_rx_frames")) == (3, 12)


@cocotb.test()
async def no_rate_that_the_mac_can_give_is_too_much(dut: Any) -> None:
    """Back to back: 8192-byte packets, then frames of minimum size, one a cycle at 1024 bit. Nothing is lost."""
    keep = len(dut.s_axis_tkeep)
    bench = await Bench(dut).start(app_ns=2.56)  # the application no faster than the MAC
    await bench.set(Settings())
    source, sink = Source(dut, "s_axis", dut.clk), Sink(dut, "m_axis", dut.app_clk, sideband=SIDEBAND)
    make = Frames(bench.settings, random.getrandbits(32))
    big = [make.kind_good(8192) for _ in range(4 if keep < 64 else 20)]
    small = [make.kind_good(random.randrange(1, 19)) for _ in range(300)]
    for c in big + small:
        source.send(c.frame)
    await bench.settle(source, sink, len(big + small))
    want = [o.payload for o in expected(big + small, bench.settings)]
    got = [f.data for f in sink.frames]
    wrong = [n for n, (g, w) in enumerate(zip(got, want, strict=False)) if g != w]
    assert (len(got), wrong) == (len(want), [])
    counters = await bench.axi.counters()
    assert (counters["rx_packets"], counters["rx_overflow"]) == (len(want), 0)
    if keep == 128:
        first, last = sink.frames[0].first, sink.frames[len(big) - 1].last
        cycles = (last - first + 1) / len(big)
        dut._log.info(f"{cycles:.2f} cycles of the application's clock a packet of 8192 bytes")
        assert cycles <= 65.1, "65 beats a packet: the rate at which they came in"


@pytest.mark.parametrize("width", WIDTHS)
def test_rx_half(width):
    simulate("rx_half", __file__, also=[FOLDER], WIDTH=width, env={"HDL_COUNT": "250"})


@pytest.mark.soak
@pytest.mark.parametrize("width", WIDTHS)
def test_rx_half_many_frames(width):
    for _ in range(10):
        simulate("rx_half", __file__, also=[FOLDER], WIDTH=width, env={"HDL_COUNT": "2000"}, only="every_frame_is")
