# SPDX-License-Identifier: BSD-3-Clause
"""Next hops: the table against a model of it, and ARP's frames against scapy's."""

from __future__ import annotations

import itertools
import random
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge
from scapy.layers.l2 import ARP, Ether

from rx_bench import Bench
from rx_model import Settings, ip_text, mac_text
from simulation import simulate
from streams import Sink, Source, never, randomly

FOLDER = Path(__file__).parent
MILLISECOND = 20  # cycles, at rx_half's CLOCK_HZ
OWN = Settings(netmask=0xFFFFFF00)
GATEWAY = OWN.ip & 0xFFFFFF00 | 0xFE
ANSWER = 1 << 26


class Table:
    """The contract of arp_table's lookup."""

    def __init__(self, settings: Settings, gateway: int) -> None:
        self.s, self.gateway = settings, gateway
        self.entries: dict[int, tuple[int, int]] = {}

    def write(self, ip: int, mac: int) -> None:
        self.entries[ip & 255] = ip, mac

    def hop(self, ip: int) -> int:
        return ip if ip & self.s.netmask == self.s.ip & self.s.netmask else self.gateway

    def look_up(self, ip: int) -> int | None:
        hosts = ~self.s.netmask & 0xFFFFFFFF
        if ip >> 28 == 14:
            return 0x01005E << 24 | ip & 0x7FFFFF
        if ip == 0xFFFFFFFF or (self.hop(ip) == ip and ip & hosts == hosts and hosts & 3 == 3):
            return 0xFFFFFFFFFFFF
        entry = self.entries.get(self.hop(ip) & 255)
        return entry[1] if entry and entry[0] == self.hop(ip) else None


async def look_up(dut: Any, addresses: list[int]) -> list[int | None]:
    """One address a cycle; answers must come four cycles behind."""
    found: list[int | None] = []
    pending = deque(addresses)
    asked: deque[bool] = deque([False] * 4)
    edge = RisingEdge(dut.clk)
    await edge
    while pending or any(asked):
        valid = bool(pending) and random.random() < 0.9
        dut.lookup_valid.value = int(valid)
        dut.lookup_ip.value = pending.popleft() if valid else random.getrandbits(32)
        asked.append(valid)
        await edge
        # What is sampled at this edge was driven by the one before: registered four times by then.
        due = asked.popleft()
        assert bool(int(dut.result_valid.value)) == due
        if due:
            found.append(int(dut.result_mac.value) if int(dut.result_hit.value) else None)
    dut.lookup_valid.value = 0
    assert len(found) == len(addresses)
    return found


async def start(dut: Any, control: int = 1 | ANSWER, settings: Settings = OWN, gateway: int = GATEWAY) -> Bench:
    bench = await Bench(dut).start()
    await bench.set(settings)
    await bench.axi.write("gateway", gateway)
    await bench.axi.write("control", control)
    await ClockCycles(dut.clk, 260)  # the table clears itself
    return bench


async def write_entry(bench: Bench, ip: int, mac: int, window: bool) -> None:
    if window:
        await bench.axi.write_at(0x1000 + 8 * (ip & 255), mac >> 32)
        await bench.axi.write_at(0x1004 + 8 * (ip & 255), mac & 0xFFFFFFFF)
    else:
        await bench.axi.write("arp_ip", ip)
        await bench.axi.write("arp_mac_high", mac >> 32)
        await bench.axi.write("arp_mac_low", mac & 0xFFFFFFFF)
        await bench.axi.write("arp_command", 1)


def gratuitous(ip: int, mac: int) -> bytes:
    return bytes(
        Ether(src=mac_text(mac), dst="ff:ff:ff:ff:ff:ff")
        / ARP(op=1, hwsrc=mac_text(mac), psrc=ip_text(ip), pdst=ip_text(ip))
    )


def asking(settings: Settings, ip: int) -> bytes:
    own = mac_text(settings.mac)
    return bytes(
        Ether(src=own, dst="ff:ff:ff:ff:ff:ff")
        / ARP(op="who-has", hwsrc=own, psrc=ip_text(settings.ip), hwdst="00:00:00:00:00:00", pdst=ip_text(ip))
    )


def asking_us(settings: Settings, mac: int, ip: int, *, op: int = 1) -> bytes:
    """What a host sends that asks for us; or, with another `op`, tells us."""
    hw = mac_text(mac)
    arp = ARP(op=op, hwsrc=hw, psrc=ip_text(ip), hwdst=mac_text(settings.mac), pdst=ip_text(settings.ip))
    return bytes(Ether(src=hw, dst="ff:ff:ff:ff:ff:ff") / arp) + bytes(18)


def answering(settings: Settings, mac: int, ip: int) -> bytes:
    """What that host gets."""
    own, hw = mac_text(settings.mac), mac_text(mac)
    arp = ARP(op="is-at", hwsrc=own, psrc=ip_text(settings.ip), hwdst=hw, pdst=ip_text(ip))
    return bytes(Ether(src=own, dst=hw) / arp)


@cocotb.test()
async def lookups_follow_subnet_gateway_groups_and_broadcasts(dut: Any) -> None:
    for netmask in (0xFFFFFF00, 0xFFFF0000, 0xFFFFFFF0):
        settings = Settings(netmask=netmask)
        bench = await start(dut, 1, settings) if netmask == 0xFFFFFF00 else bench  # noqa: F821
        await bench.set(settings)
        await bench.axi.write("arp_command", 3)
        await ClockCycles(dut.clk, 270)
        assert await bench.axi.read("arp_status") & 1 == 0
        table = Table(settings, GATEWAY)
        near = [settings.ip & netmask | random.getrandbits(32) & ~netmask & 0xFFFFFFFF for _ in range(12)] + [GATEWAY]
        for ip in near:
            window = ip >> 8 == settings.ip >> 8 and random.random() < 0.5
            mac = random.getrandbits(48)
            await write_entry(bench, ip, mac, window)
            table.write(ip, mac)
        asked = [
            random.choice(
                [
                    random.choice(near),
                    random.choice(near) ^ 0x100 << random.randrange(8),  # the same entry, another address
                    random.getrandbits(32),
                    random.getrandbits(28) | 0xE0000000,
                    settings.ip | ~netmask & 0xFFFFFFFF,
                    0xFFFFFFFF,
                    settings.ip & netmask | random.getrandbits(8) & ~netmask,
                ]
            )
            for _ in range(300)
        ]
        assert await look_up(dut, asked) == [table.look_up(ip) for ip in asked]


@cocotb.test()
async def a_subnet_of_two_or_one_has_no_broadcast_address(dut: Any) -> None:
    """RFC 3021: the other one of two is a host, whatever its last bit."""
    two = Settings(ip=OWN.ip & ~1, netmask=0xFFFFFFFE)
    bench = await start(dut, 1, two)
    peer = two.ip | 1
    assert await look_up(dut, [peer]) == [None]
    await write_entry(bench, peer, 0x020000000031, False)
    assert await look_up(dut, [peer]) == [0x020000000031]
    await bench.set(replace(two, netmask=0xFFFFFFFF))
    assert await look_up(dut, [two.ip]) == [None]
    await bench.set(replace(two, netmask=0xFFFFFFFC))
    assert await look_up(dut, [peer]) == [0xFFFFFFFFFFFF], "the last of four is no host"


@cocotb.test()
async def defect_2_off_subnet_the_gateway_is_looked_up_and_asked_for(dut: Any) -> None:
    """The public core indexes its table by the destination. (That the destination stays in the packet: udp_tx's test.)"""
    bench = await start(dut)
    sink = Sink(dut, "arp_axis", dut.clk)
    far = 0x08080877
    assert await look_up(dut, [far]) == [None]
    assert (await sink.receive()).data == asking(OWN, GATEWAY)
    await write_entry(bench, OWN.ip & 0xFFFFFF00 | 0x77, 0x020000000077, False)  # a neighbour with the same last octet
    assert await look_up(dut, [far]) == [None]
    await write_entry(bench, GATEWAY, 0x0200000000FE, True)
    assert await look_up(dut, [far, 0x01020304]) == [0x0200000000FE] * 2


@cocotb.test()
async def defect_3_multicast_maps_to_its_mac(dut: Any) -> None:
    await start(dut)
    sink = Sink(dut, "arp_axis", dut.clk)
    groups = [0xE0000001, 0xEF010203, 0xEFFFFFFF, 0xE9812345]  # 239.1.2.3 is the one that was tried on the public core
    macs = [0x01005E000001, 0x01005E010203, 0x01005E7FFFFF, 0x01005E012345]
    assert await look_up(dut, groups) == macs
    await ClockCycles(dut.clk, 10 * MILLISECOND)
    assert not sink.frames, "no request for a group"


@cocotb.test()
async def a_miss_asks_not_more_often_than_once_a_millisecond(dut: Any) -> None:
    await start(dut)
    sink = Sink(dut, "arp_axis", dut.clk)
    missing = [OWN.ip & 0xFFFFFF00 | n for n in (0x11, 0x22, 0x33)]
    cycles = 100 * MILLISECOND
    for n in range(cycles):
        dut.lookup_valid.value, dut.lookup_ip.value = 1, missing[(n * 7 // 3) % 3]
        await RisingEdge(dut.clk)
    dut.lookup_valid.value = 0
    await ClockCycles(dut.clk, 60)
    assert {f.data for f in sink.frames} == {asking(OWN, ip) for ip in missing}
    for ip in missing:
        times = [f.first for f in sink.frames if f.data == asking(OWN, ip)]
        assert 40 <= len(times) <= 100, f"{len(times)} requests in 100 ms"
        # A frame may wait for the one before: 6 beats at 64 bit, and the cycle between.
        assert all(b - a >= MILLISECOND - 8 for a, b in itertools.pairwise(times))


@cocotb.test()
async def requests_and_replies_to_us_teach_others_do_not(dut: Any) -> None:
    bench = await start(dut)
    source = Source(dut, "s_axis", dut.clk, pause=randomly(0.3, random.getrandbits(32)))
    sink = Sink(dut, "arp_axis", dut.clk, pause=randomly(0.5, random.getrandbits(32)))
    own_mac, own = mac_text(OWN.mac), ip_text(OWN.ip)
    peers = {OWN.ip & 0xFFFFFF00 | n: 0x02AA00000000 | random.getrandbits(32) for n in (0x21, 0x22, 0x23, 0x24)}
    (a, b, c, d) = peers

    def send(peer: int, op: int, target: str, *, dst: str, mac: int | None = None) -> None:
        hw = mac_text(peers[peer] if mac is None else mac)
        source.send(
            bytes(Ether(src=hw, dst=dst) / ARP(op=op, hwsrc=hw, psrc=ip_text(peer), hwdst=own_mac, pdst=target))
            + bytes(18)
        )

    async def known() -> list[int | None]:
        await source.idle()
        await ClockCycles(dut.clk, 40)
        return await look_up(dut, list(peers))

    send(a, 1, own, dst="ff:ff:ff:ff:ff:ff")
    assert (await sink.receive()).data == answering(OWN, peers[a], a)
    assert await known() == [peers[a], None, None, None]
    send(b, 2, own, dst=own_mac)
    send(c, 1, ip_text(OWN.ip ^ 1), dst="ff:ff:ff:ff:ff:ff")
    send(c, 2, ip_text(OWN.ip ^ 1), dst=own_mac)
    send(d, 2, own, dst="02:12:34:56:78:9a")  # to another station
    assert await known() == [peers[a], peers[b], None, None]
    # An announcement changes an entry, and makes none.
    source.send(gratuitous(a, new := 0x02BB00000001))
    source.send(gratuitous(c, 0x02BB00000003))
    assert await known() == [new, peers[b], None, None]
    # Nobody is us, or a group, or nobody.
    send(OWN.ip, 1, own, dst="ff:ff:ff:ff:ff:ff", mac=0x02CC00000001)
    send(d, 2, own, dst=own_mac, mac=0x03CC00000001)
    assert await known() == [new, peers[b], None, None]
    assert await look_up(dut, [OWN.ip]) == [None]
    # By the registers: read an entry in both ways.
    await bench.axi.write("arp_ip", b)
    await bench.axi.write("arp_command", 2)
    assert await bench.axi.read("arp_status") == 2
    assert (await bench.axi.read("arp_mac_high") << 32 | await bench.axi.read("arp_mac_low")) == peers[b]
    assert await bench.axi.read("arp_entry_ip") == b
    at = 0x1000 + 8 * (b & 255)
    assert (await bench.axi.read_at(at) << 32 | await bench.axi.read_at(at + 4)) == peers[b]
    await bench.axi.write("arp_ip", b ^ 0x100)
    await bench.axi.write("arp_command", 2)
    assert await bench.axi.read("arp_status") == 0, "the entry is of another address"


@cocotb.test()
async def a_request_by_a_host_is_all_that_gets_a_reply(dut: Any) -> None:
    await start(dut)
    source, sink = Source(dut, "s_axis", dut.clk), Sink(dut, "arp_axis", dut.clk)
    net = OWN.ip & 0xFFFFFF00
    source.send(asking_us(OWN, 0x02AA00000041, net | 0x41, op=2))
    source.send(asking_us(OWN, 0x03AA00000042, net | 0x42))  # a group's MAC address
    source.send(asking_us(OWN, 0x02AA00000043, net | 0x43))
    await source.idle()
    await ClockCycles(dut.clk, 100)
    assert [f.data for f in sink.frames] == [answering(OWN, 0x02AA00000043, net | 0x43)]


@cocotb.test()
async def a_request_and_a_reply_that_wait_together_are_both_sent(dut: Any) -> None:
    await start(dut)
    source, sink = Source(dut, "s_axis", dut.clk), Sink(dut, "arp_axis", dut.clk, pause=lambda: True)
    one, other, peer = (OWN.ip & 0xFFFFFF00 | n for n in (0x51, 0x52, 0x53))
    assert await look_up(dut, [one]) == [None]
    await ClockCycles(dut.clk, 20)  # its request stands at the output: what comes now waits
    assert await look_up(dut, [other]) == [None]
    source.send(asking_us(OWN, 0x02AA00000053, peer))
    await source.idle()
    await ClockCycles(dut.clk, 40)
    sink.pause = never
    await ClockCycles(dut.clk, 60)
    assert [f.data for f in sink.frames] == [asking(OWN, one), answering(OWN, 0x02AA00000053, peer), asking(OWN, other)]


@cocotb.test()
async def a_probe_is_answered_and_teaches_nothing(dut: Any) -> None:
    bench = await start(dut)
    source, sink = Source(dut, "s_axis", dut.clk), Sink(dut, "arp_axis", dut.clk)
    probe = Ether(src="02:00:00:00:00:07", dst="ff:ff:ff:ff:ff:ff") / ARP(
        op=1, hwsrc="02:00:00:00:00:07", psrc="0.0.0.0", pdst=ip_text(OWN.ip)
    )
    source.send(bytes(probe))
    got = Ether((await sink.receive()).data)
    assert (got.dst, got[ARP].op, got[ARP].pdst, got[ARP].psrc) == ("02:00:00:00:00:07", 2, "0.0.0.0", ip_text(OWN.ip))
    await bench.axi.write("arp_ip", 0)
    await bench.axi.write("arp_command", 2)
    assert await bench.axi.read("arp_status") == 0


@cocotb.test()
async def with_answers_off_requests_go_to_the_cpu_alone(dut: Any) -> None:
    bench = await start(dut, 1)
    source, sink = Source(dut, "s_axis", dut.clk), Sink(dut, "arp_axis", dut.clk)
    request = bytes(
        Ether(dst="ff:ff:ff:ff:ff:ff") / ARP(op=1, hwsrc="02:00:00:00:00:07", psrc="10.1.2.7", pdst=ip_text(OWN.ip))
    )
    source.send(request)
    await source.idle()
    await ClockCycles(dut.clk, 10 * MILLISECOND)
    assert not sink.frames
    assert await bench.read_cpu_frame() == request, "the CPU may answer it"
    assert await look_up(dut, [0x0A010207]) == [0x020000000007], "learnt all the same"
    await bench.axi.write("control", 0)
    assert await look_up(dut, [OWN.ip ^ 0x10]) == [None]
    await ClockCycles(dut.clk, 10 * MILLISECOND)
    assert not sink.frames, "a disabled core asks for nobody"
    await bench.axi.write("control", 1)
    await ClockCycles(dut.clk, 10 * MILLISECOND)
    assert not sink.frames, "nor later"


@cocotb.test()
async def damaged_packets_teach_nothing_and_get_no_reply(dut: Any) -> None:
    await start(dut)
    source, sink = Source(dut, "s_axis", dut.clk), Sink(dut, "arp_axis", dut.clk)
    hw, ip = "02:00:00:00:00:31", OWN.ip & 0xFFFFFF00 | 0x31
    packet = bytes(Ether(src=hw, dst="ff:ff:ff:ff:ff:ff") / ARP(op=1, hwsrc=hw, psrc=ip_text(ip), pdst=ip_text(OWN.ip)))
    source.send(packet + bytes(18), bad=True)
    source.send(packet[:41])  # a byte is missing
    source.send(packet[:12] + b"\x81\0\0\x05" + packet[12:])  # tagged, which is not accepted
    source.send(packet + bytes(9300))
    await source.idle()
    await ClockCycles(dut.clk, 100)
    assert not sink.frames
    assert await look_up(dut, [ip]) == [None]


@cocotb.test()
async def without_a_gateway_nobody_is_asked_for(dut: Any) -> None:
    await start(dut, gateway=0)
    sink = Sink(dut, "arp_axis", dut.clk)
    assert await look_up(dut, [0x08080877] * 5) == [None] * 5
    await ClockCycles(dut.clk, 3 * MILLISECOND)
    assert not sink.frames, "0.0.0.0 is nobody's address"


@cocotb.test()
async def a_cleared_table_misses_at_once_and_asks_anew(dut: Any) -> None:
    bench = await start(dut)
    sink = Sink(dut, "arp_axis", dut.clk)
    ip = OWN.ip & 0xFFFFFF00 | 0xFE  # the last ones to be cleared
    missing = ip ^ 2
    assert await look_up(dut, [missing]) == [None]
    asked = await sink.receive()
    assert asked.data == asking(OWN, missing)
    await write_entry(bench, ip, 0x0200000000FE, False)
    assert await look_up(dut, [ip]) == [0x0200000000FE]

    dut.lookup_ip.value, dut.lookup_valid.value = ip, 1
    await ClockCycles(dut.clk, 10)
    assert int(dut.result_hit.value)
    await bench.axi.write("arp_command", 3)
    for _ in range(300):  # from the answer on, though its entry is emptied some 250 cycles later
        await RisingEdge(dut.clk)
        assert int(dut.result_valid.value) and not int(dut.result_hit.value)
    dut.lookup_valid.value = 0
    # Clearing takes milliseconds here. A stamp of eight bits that stayed would look new again after 256 of them.
    again = asked.first + 256 * MILLISECOND
    assert sink.clocks + 300 < again
    await ClockCycles(dut.clk, again - sink.clocks)
    sink.frames.clear()
    assert await look_up(dut, [missing]) == [None]
    await ClockCycles(dut.clk, 30)
    assert [f.data for f in sink.frames] == [asking(OWN, missing)], "no millisecond is waited for after a clear"


@cocotb.test()
async def a_first_word_waits_for_the_second_of_its_own_entry(dut: Any) -> None:
    bench = await start(dut)
    one, other = OWN.ip & 0xFFFFFF00 | 0x51, OWN.ip & 0xFFFFFF00 | 0x52
    for ip, mac in ((one, 0x111122223333), (other, 0x444455556666)):
        await write_entry(bench, ip, mac, True)
    await bench.axi.write_at(0x1000 + 8 * (one & 255), 0x7777)
    await bench.axi.write_at(0x1004 + 8 * (other & 255), 0x88889999)
    assert await look_up(dut, [one, other]) == [0x111122223333, 0x444488889999]


@cocotb.test()
async def entries_change_as_a_whole(dut: Any) -> None:
    """A half-written MAC address is never looked up."""
    bench = await start(dut)
    ip, old, new = OWN.ip ^ 0x40, 0x111122223333, 0x444455556666
    await bench.axi.write_at(0x1000 + 8 * (ip & 255), old >> 32)
    assert await look_up(dut, [ip]) == [None]
    await bench.axi.write_at(0x1004 + 8 * (ip & 255), old & 0xFFFFFFFF)
    assert await look_up(dut, [ip]) == [old]
    await bench.axi.write_at(0x1000 + 8 * (ip & 255), new >> 32)
    assert await look_up(dut, [ip]) == [old]
    await bench.axi.write_at(0x1004 + 8 * (ip & 255), new & 0xFFFFFFFF)
    assert await look_up(dut, [ip]) == [new]
    await bench.axi.write("arp_command", 3)
    await ClockCycles(dut.clk, 270)
    assert await look_up(dut, [ip]) == [None]


@pytest.mark.parametrize("width", [64, 1024])
def test_arp(width):
    simulate("rx_half", __file__, also=[FOLDER], WIDTH=width)


@pytest.mark.soak
@pytest.mark.parametrize("width", [128, 256, 512])
def test_arp_of_other_widths(width):
    simulate("rx_half", __file__, also=[FOLDER], WIDTH=width)
