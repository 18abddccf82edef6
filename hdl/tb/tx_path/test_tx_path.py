# SPDX-License-Identifier: BSD-3-Clause
"""Payloads in, frames out: every byte against scapy, at every width."""

from __future__ import annotations

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether

from simulation import WIDTHS, parameter, simulate
from slices import Ports
from streams import Sink, Source, never, randomly, start

OWN_MAC, OWN_IP = "02:00:00:00:00:01", "10.1.2.3"
MISSING = "10.1.2.99"  # the table has no entry for it


def number(address: str) -> int:
    """Read a MAC or IP address as a number."""
    if ":" in address:
        return int(address.replace(":", ""), 16)
    return int.from_bytes(bytes(int(p) for p in address.split(".")), "big")


def mac_of(ip: int) -> str:
    """Give the MAC that the table of this bench has for an address: any one-to-one map will do here."""
    return f"06:00:{ip >> 24:02x}:{ip >> 16 & 255:02x}:{ip >> 8 & 255:02x}:{ip & 255:02x}"


async def table(dut):
    """Answer lookups after four cycles, as arp_table does; its decisions about next hops are tested with it."""
    answers = [None] * 3
    edge = RisingEdge(dut.clk)
    while True:
        await edge
        asked = int(dut.lookup_ip.value) if int(dut.lookup_valid.value) else None
        answers.append(asked)
        answer = answers.pop(0)
        # Without a question the port may say anything.
        dut.lookup_hit.value = random.randint(0, 1) if answer is None else int(answer != number(MISSING))
        dut.lookup_mac.value = random.getrandbits(48) if answer is None else number(mac_of(answer))


class Counter:
    """Counts the cycles in which an event port is high."""

    def __init__(self, clock, port):
        self.count = 0
        cocotb.start_soon(self._run(clock, port))

    async def _run(self, clock, port):
        while True:
            await RisingEdge(clock)
            self.count += int(port.value)


async def begin(dut, *, pause=never, sink_pause=never, checksum=0, app_period=3.3):
    """Reset, set registers, and give application's source and the MAC's sink."""
    dut.enable.value, dut.udp_checksum.value = 1, checksum
    dut.own_mac.value, dut.own_ip.value = number(OWN_MAC), number(OWN_IP)
    dut.ttl.value, dut.tos.value = 64, 0
    dut.cpu_send.value = dut.cpu_write.value = dut.host_axis_tvalid.value = 0
    dut.cpu_address.value = 0
    dut.app_rst.value = dut.rst.value = 1
    sideband = ("dst_ip", "dst_port", "src_port")
    names = {f"s_axis_{n}": f"s_{n}" for n in sideband}
    source = Source(Ports(dut, **names), "s_axis", dut.app_clk, pause=pause, sideband=sideband)
    sink = Sink(dut, "m_axis", dut.clk, pause=sink_pause)
    cocotb.start_soon(start(dut, app_period, clock="app_clk", reset=None))
    cocotb.start_soon(table(dut))
    await start(dut, 2.56)
    dut.app_rst.value = 0
    return source, sink


def expected(payload: bytes, dst: str, sport: int, dport: int, checksum: bool) -> bytes:
    """What scapy makes of it."""
    udp = UDP(sport=sport, dport=dport) if checksum else UDP(sport=sport, dport=dport, chksum=0)
    ip = IP(src=OWN_IP, dst=dst, id=0, flags="DF", ttl=64)
    return bytes(Ether(dst=mac_of(number(dst)), src=OWN_MAC) / ip / udp / payload)


def send(source, payload, dst, sport=4000, dport=7148, bad=False):
    """Queue a packet."""
    source.send(payload, bad=bad, dst_ip=number(dst), src_port=sport, dst_port=dport)


def address(rng) -> str:
    """Any unicast or multicast address, in the subnet or not."""
    return ".".join(str(rng.randint(1, 239 if i == 0 else 254)) for i in range(4))


async def traffic(dut, lengths, seed, **settings):
    """Send packets of these lengths and compare what leaves."""
    rng = random.Random(seed)
    source, sink = await begin(dut, **settings)
    checksum = bool(settings.get("checksum"))
    sent = []
    for length in lengths:
        payload, dst = rng.randbytes(length), address(rng)
        sport, dport = rng.randrange(65536), rng.randrange(65536)
        send(source, payload, dst, sport, dport)
        sent.append(expected(payload, dst, sport, dport, checksum))
    for n, frame in enumerate(sent):
        got = await sink.receive()
        assert got.data == frame, f"packet {n} of {lengths[n]} bytes:\n{got.data[:64].hex()}\n{frame[:64].hex()}"
        if settings.get("sink_pause", never) is never:
            beats = -(-len(frame) // (parameter("WIDTH") // 8))
            assert got.last - got.first == beats - 1, f"idle beats inside packet {n}"
    await ClockCycles(dut.clk, 100)
    assert not sink.frames, "more frames than packets"


def lengths_for(width: int, seed: int) -> list[int]:
    """Around each number of beats, with and without header, then random ones."""
    rng, keep = random.Random(seed), width // 8
    edges = {n * keep + d for n in (0, 1, 2, 3) for d in (-1, 0, 1)} | {
        n * keep - 42 + d for n in (1, 2, 6) for d in (-1, 0, 1)
    }
    return sorted(n for n in edges if n > 0) + [rng.randint(1, 600) for _ in range(40)] + [8192, 9000, 1, 8972]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def frames_are_scapys_without_udp_checksum(dut):
    await traffic(dut, lengths_for(parameter("WIDTH"), 1), 1)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def frames_are_scapys_with_udp_checksum(dut):
    await traffic(dut, lengths_for(parameter("WIDTH"), 2), 2, checksum=1)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def pauses_of_user_and_mac_change_nothing(dut):
    lengths = lengths_for(parameter("WIDTH"), 3)[:-3]
    await traffic(dut, lengths, 3, checksum=1, pause=randomly(0.6, 5), sink_pause=randomly(0.7, 6), app_period=2.0)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_udp_checksum_that_computes_to_zero_is_sent_as_ones(dut):
    source, sink = await begin(dut, checksum=1)
    # Two bytes that bring the sum to ffff, whose complement is 0: RFC 768 has ffff sent.
    plain = expected(b"\0\0", "10.1.2.4", 1, 2, True)
    payload = plain[40:42]
    send(source, payload, "10.1.2.4", 1, 2)
    got = await sink.receive()
    assert got.data[40:42] == b"\xff\xff"
    assert got.data == expected(payload, "10.1.2.4", 1, 2, True)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def an_empty_datagram_is_one_beat_without_bytes(dut):
    source, sink = await begin(dut, checksum=1)
    await source.idle()
    dut.s_axis_tkeep.value, dut.s_axis_tlast.value, dut.s_axis_tuser.value = 0, 1, 0
    dut.s_dst_ip.value, dut.s_dst_port.value, dut.s_src_port.value = number("10.1.2.4"), 9, 8
    dut.s_axis_tvalid.value = 1
    await RisingEdge(dut.app_clk)
    dut.s_axis_tvalid.value = 0
    assert (await sink.receive()).data == expected(b"", "10.1.2.4", 8, 9, True)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_missing_mac_drops_that_packet_alone(dut):
    source, sink = await begin(dut)
    counter = Counter(dut.clk, dut.no_mac)
    for n in range(12):
        send(source, bytes([n]) * (n * 150 + 1), MISSING if n % 3 == 1 else "10.1.2.4")
    for n in range(12):
        if n % 3 != 1:
            assert (await sink.receive()).data[42:] == bytes([n]) * (n * 150 + 1)
    await ClockCycles(dut.clk, 200)
    assert not sink.frames and counter.count == 4


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def oversize_and_bad_packets_are_dropped_whole_and_counted(dut):
    source, sink = await begin(dut, sink_pause=randomly(0.3, 1))
    counter = Counter(dut.clk, dut.dropped)
    for n, (length, bad) in enumerate(
        [(9000, 0), (9001, 0), (70, 1), (71, 0), (20000, 0), (5, 1), (1, 1), (5, 0), (9100, 1), (300, 0)]
    ):
        send(source, bytes([n]) * length, "10.1.2.4", bad=bool(bad))
    for n, length in ((0, 9000), (3, 71), (7, 5), (9, 300)):
        assert (await sink.receive()).data[42:] == bytes([n]) * length
    await ClockCycles(dut.clk, 200)
    assert not sink.frames and counter.count == 6


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def while_disabled_packets_vanish(dut):
    source, sink = await begin(dut)
    dut.enable.value = 0
    counter = Counter(dut.clk, dut.no_mac)
    send(source, b"old" * 100, "10.1.2.4")
    send(source, b"nobody" * 10, MISSING)
    await source.idle()
    await ClockCycles(dut.clk, 400)
    dut.enable.value = 1
    send(source, b"new", "10.1.2.4")
    assert (await sink.receive()).data[42:] == b"new"
    assert counter.count == 0, "what is thrown away is no packet without a MAC address"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def cpu_frames_share_the_line(dut):
    source, sink = await begin(dut)
    frame = bytes(Ether(dst="ff:ff:ff:ff:ff:ff", src=OWN_MAC) / ARP(op=1, psrc=OWN_IP, pdst="10.1.2.4")) + bytes(
        range(101)
    )
    for at in range(0, len(frame), 4):
        dut.cpu_write.value, dut.cpu_address.value = 1, at // 4
        dut.cpu_write_data.value = int.from_bytes(frame[at : at + 4], "little")
        await RisingEdge(dut.clk)
    dut.cpu_write.value = 0
    for n in range(20):
        send(source, bytes([n]) * 1000, "10.1.2.4")
    got = [(await sink.receive()).data]
    for size in (len(frame), 60, 1):
        dut.cpu_send.value, dut.cpu_send_bytes.value = 1, size
        await RisingEdge(dut.clk)
        dut.cpu_send.value = 0
        await ReadOnly()
        await RisingEdge(dut.clk)
        while int(dut.cpu_busy.value):
            await RisingEdge(dut.clk)
        got += [(await sink.receive()).data for _ in range(len(sink.frames))]
    while len(got) < 23:
        got.append((await sink.receive()).data)
    cpu = [g for g in got if g in (frame, frame[:60], frame[:1])]
    assert cpu == [frame, frame[:60], frame[:1]]
    assert [g[42:] for g in got if g not in cpu] == [bytes([n]) * 1000 for n in range(20)]


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def defect_2_an_off_subnet_destination_ip_is_not_replaced(dut):
    source, sink = await begin(dut)
    send(source, b"far", "192.0.2.77")
    frame = Ether((await sink.receive()).data)
    assert frame[IP].dst == "192.0.2.77"
    # And the table is asked for the packet's own destination: what the next hop is, it knows (see test_arp_table).
    assert frame.dst == mac_of(number("192.0.2.77"))


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def defect_4_single_beat_packets_keep_their_boundaries(dut):
    keep = parameter("WIDTH") // 8
    await traffic(dut, [n % keep + 1 for n in range(150)], 4, app_period=2.56)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def defect_6_a_full_ring_loses_nothing(dut):
    source, sink = await begin(dut, sink_pause=never, app_period=2.0)
    stalls = Counter(dut.clk, dut.stalled)
    sink.pause = lambda: True
    for n in range(12):
        send(source, bytes([n]) * 6000, "10.1.2.4")
    while stalls.count == 0:
        await ClockCycles(dut.clk, 50)
    await ClockCycles(dut.clk, 500)
    sink.pause = never
    for n in range(12):
        assert (await sink.receive()).data[42:] == bytes([n]) * 6000
    assert stalls.count >= 1


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def defect_7_no_idle_beat_between_packets(dut):
    keep = parameter("WIDTH") // 8
    source, sink = await begin(dut, app_period=2.0)  # the user is faster than the line
    sink.pause = lambda: True
    lengths = [8192] * 4 + [keep - 42 % keep] * 40 + [1] * 20
    for n, length in enumerate(lengths):
        send(source, bytes([n]) * length, "10.1.2.4")
    await ClockCycles(dut.clk, 200 + 24000 // keep)  # the ring fills
    sink.pause = never
    before = None
    for n, length in enumerate(lengths):
        got = await sink.receive()
        assert len(got.data) == 42 + length
        if n > 0 and n < 24:
            assert got.first == before + 1, f"{got.first - before - 1} idle beats before packet {n}"
        if length == 8192:
            assert got.last - got.first + 1 == -(-8234 // keep)
        before = got.last


@pytest.mark.parametrize("width", WIDTHS)
def test_tx_path(width):
    simulate("tx_path", __file__, WIDTH=width)
