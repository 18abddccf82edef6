# SPDX-License-Identifier: BSD-3-Clause
"""Protocols in hardware, in the whole core: by its registers, with frames of scapy at its network side."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import cocotb
import pytest
from cocotb.triggers import ClockCycles
from scapy.contrib.igmp import IGMP
from scapy.layers.inet import ICMP, IP, IPOption_Router_Alert
from scapy.layers.l2 import ARP, Ether

sys.path.insert(0, str(Path(__file__).parent))

from test_ethernet_core import (
    ANSWER,
    CHECKSUM,
    ENABLE,
    HERE,
    OWN_IP,
    OWN_MAC,
    PEER,
    PEER_MAC,
    RESET,
    Bench,
    number,
    udp,
)

from axil import MEMORIES
from simulation import parameter, simulate

PING, IGMP_ON, PAUSE = 1 << 28, 1 << 29, 1 << 30
GROUP = "239.1.2.3"


def ping(size: int = 56) -> Ether:
    """One whose reply has a checksum that is neither 0 nor ffff, of which scapy and the core may choose either."""
    head = Ether(dst=OWN_MAC, src=PEER_MAC) / IP(src=PEER, dst=OWN_IP, tos=0x28) / ICMP(id=7)
    while bytes(made := head / random.randbytes(size))[36:38] == b"\xf7\xff":
        pass
    return made


def pong(request: Ether, ttl: int = 64) -> bytes:
    """What must answer it."""
    reply = Ether(dst=PEER_MAC, src=OWN_MAC) / IP(src=OWN_IP, dst=PEER, tos=0x28, id=0, flags="DF", ttl=ttl)
    return bytes(reply / ICMP(type=0, id=7) / request[ICMP].payload)


def query(group: str = "0.0.0.0", tenths: int = 1) -> bytes:
    to = "224.0.0.1" if group == "0.0.0.0" else group
    mac = f"01:00:5e:{number(to) >> 16 & 127:02x}:{number(to) >> 8 & 255:02x}:{number(to) & 255:02x}"
    ip = IP(src=PEER, dst=to, ttl=1, options=[IPOption_Router_Alert()])
    return bytes(Ether(dst=mac, src=PEER_MAC) / ip / IGMP(type=0x11, mrcode=tenths, gaddr=group)).ljust(60, b"\0")


def pause_frame(quanta: int) -> bytes:
    return (bytes.fromhex("0180c2000001 061122334455 8808 0001") + quanta.to_bytes(2, "big")).ljust(60, b"\0")


def tagged(frame: bytes, tci: int) -> bytes:
    return frame[:12] + b"\x81\x00" + tci.to_bytes(2, "big") + frame[12:]


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def all_that_leaves_has_the_tag_and_the_header_that_were_set(dut):
    bench = Bench(dut)
    await bench.begin(ENABLE | ANSWER | PING | CHECKSUM | 1 << 25)
    await bench.learn(PEER, PEER_MAC)
    r = bench.registers
    for tci, ttl, tos in ((None, 64, 0), (0x6064, 9, 0xB8), (0x1001, 255, 0x03), (None, 1, 0)):
        await r.write("tx_vlan", 0 if tci is None else 1 << 16 | tci)
        await r.write("tx_header", tos << 8 | ttl)

        def leaves(frame: bytes, tci=tci) -> bytes:
            return frame if tci is None else tagged(frame, tci)

        for size in (1, 18, 60, random.randrange(1, 1000), 1400):
            data = random.randbytes(size)
            bench.send(0, data, PEER)
            plain = udp(data, PEER, PEER_MAC, checksum=True)
            ip = IP(plain[14:])
            ip.ttl, ip.tos = ttl, tos
            del ip.chksum
            assert await bench.frame() == leaves(plain[:14] + bytes(ip))
        bench.network_in.send(bytes(request := ping()))
        assert await bench.frame() == leaves(pong(request, ttl))
        # A tag that came goes back.
        bench.network_in.send(tagged(bytes(request), 0x0FFE))
        assert await bench.frame() == tagged(pong(request, ttl), 0x0FFE)
        asks = Ether(dst="ff:ff:ff:ff:ff:ff", src=PEER_MAC) / ARP(op=1, hwsrc=PEER_MAC, psrc=PEER, pdst=OWN_IP)
        bench.network_in.send(bytes(asks).ljust(60, b"\0"))
        says = ARP(op=2, hwsrc=OWN_MAC, psrc=OWN_IP, hwdst=PEER_MAC, pdst=PEER)
        assert await bench.frame() == leaves(bytes(Ether(dst=PEER_MAC, src=OWN_MAC) / says))
        # The CPU's frames too, but for those to which it gave a tag.
        for frame in (mine := bytes(Ether(dst=PEER_MAC, src=OWN_MAC, type=0x88B5) / bytes(50)), tagged(mine, 5)):
            for at in range(0, len(frame), 4):
                await r.write_at(
                    MEMORIES["cpu_tx"]["address"] + at, int.from_bytes(frame[at : at + 4].ljust(4, b"\0"), "little")
                )
            await r.write("bytes_ready", len(frame))
            assert await bench.frame() == (leaves(mine) if frame == mine else frame)
    assert await r.read("echo_replies") == 8


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def pings_are_left_to_the_cpu_when_told_so(dut):
    bench = Bench(dut)
    await bench.begin(ENABLE | ANSWER)
    bench.network_in.send(bytes(ping(40)))
    await ClockCycles(dut.clk, 300)
    assert not bench.network_out.frames
    assert (await bench.registers.read("cpu_rx_frames"), await bench.registers.read("echo_replies")) == (1, 0)


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def the_group_that_is_received_is_joined_reported_and_left(dut):
    bench = Bench(dut)
    await bench.begin(ENABLE | IGMP_ON)
    r = bench.registers
    millisecond = parameter("CLOCK_HZ") // 1000
    await r.write("multicast_ip", number(GROUP))
    await r.write("multicast_mask", 0xFFFFFFFF)
    for _ in range(3):
        report = Ether(await bench.frame())
        assert (report.dst, report[IP].dst, report[IP].ttl) == ("01:00:5e:01:02:03", GROUP, 1)
        assert (report[IGMP].type, report[IGMP].gaddr) == (0x16, GROUP)
    assert await r.read("igmp_status") == 1
    # Soft resets do not make it forget: it would join anew, 64 ms later, which looks like the answers below.
    await r.write("control", ENABLE | IGMP_ON | RESET)
    await ClockCycles(dut.clk, 50)
    assert int(dut.app_tx_rst.value) == 3 and await r.read("igmp_status") == 1
    await r.write("control", ENABLE | IGMP_ON)
    await ClockCycles(dut.clk, 200 * millisecond)
    assert not bench.network_out.frames and await r.read("igmp_status") == 1
    for asked in ("0.0.0.0", GROUP):
        bench.network_in.send(query(asked))
        assert Ether(await bench.frame())[IGMP].gaddr == GROUP
    bench.network_in.send(query("239.1.2.4"))
    bench.network_in.send(udp(b"to the group", GROUP, "01:00:5e:01:02:03", src=PEER, src_mac=PEER_MAC).ljust(60, b"\0"))
    assert (await bench.received.receive()).data == b"to the group"
    await ClockCycles(dut.clk, 200 * millisecond)
    assert not bench.network_out.frames
    await r.write("multicast_mask", 0)
    leave = Ether(await bench.frame())
    assert (leave.dst, leave[IP].dst, leave[IGMP].type) == ("01:00:5e:00:00:02", "224.0.0.2", 0x17)
    assert leave[IGMP].gaddr == GROUP
    assert (await r.read("igmp_status"), await r.read("igmp_queries"), await r.read("igmp_sent")) == (0, 2, 6)


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def pause_frames_are_counted_and_honoured_only_when_told_so(dut):
    bench = Bench(dut)
    await bench.begin(ENABLE)
    await bench.learn(PEER, PEER_MAC)
    r = bench.registers
    data = random.randbytes(300)
    wide = parameter("WIDTH") // 8
    quanta = 4 * parameter("WIDTH") // 2  # 1024 clocks
    for honour in (0, PAUSE):
        await r.write("control", ENABLE | honour)
        # A frame that has begun is not cut, whenever the pause begins.
        bench.send(0, big := random.randbytes(60 * wide), PEER)
        await ClockCycles(dut.clk, random.randrange(150))
        bench.network_in.send(pause_frame(quanta))
        await ClockCycles(dut.clk, 100)
        asked = bench.network_out.clocks
        bench.send(0, data, PEER)
        got = [await bench.network_out.receive() for _ in range(2)]
        assert [g.data for g in got] == [udp(big, PEER, PEER_MAC), udp(data, PEER, PEER_MAC)]
        assert (got[1].first - asked > 700) == bool(honour)
        held = await r.read("tx_held")
        assert (500 < held < 1030) if honour else held == 0
        await ClockCycles(dut.clk, 1100)  # a pause that is refused passes too
    # While there is nothing to send nothing is held; the frame that then comes is, for the rest of the pause.
    bench.network_in.send(pause_frame(quanta))
    await ClockCycles(dut.clk, 500)
    assert await r.read("tx_held") == held
    begun = bench.network_out.clocks
    bench.send(0, data, PEER)
    got = await bench.network_out.receive()
    assert got.data == udp(data, PEER, PEER_MAC)
    waited = got.first - begun  # on its way to the MAC too, for less than 100 clocks
    assert 200 < waited < 600 and waited - 100 < await r.read("tx_held") - held < waited
    # 0 ends it.
    bench.network_in.send(pause_frame(0xFFFF))
    await ClockCycles(dut.clk, 100)
    bench.send(0, data, PEER)
    await ClockCycles(dut.clk, 2000)
    assert not bench.network_out.frames
    bench.network_in.send(pause_frame(0))
    assert await bench.frame() == udp(data, PEER, PEER_MAC)
    assert await r.read("rx_pause") == 5


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def line_rate_stays_with_tags(dut):
    """Payloads of 8192 bytes take as many beats as their frames have, from two applications that always send."""
    bench = Bench(dut)
    await bench.begin(ENABLE)
    await bench.learn(PEER, PEER_MAC)
    await bench.registers.write("tx_vlan", 1 << 16 | 100)
    for n in range(24):
        bench.send(n % 2, bytes(8192), PEER)
    got = [await bench.network_out.receive() for _ in range(24)]
    beats = -(-(8192 + 46) // (parameter("WIDTH") // 8))
    assert got[11].last - got[3].last == 8 * beats


@pytest.mark.parametrize("width", [64, 1024])
def test_protocols(width):
    simulate("core_of_two", __file__, also=[HERE], WIDTH=width, CLOCK_HZ=5000)
