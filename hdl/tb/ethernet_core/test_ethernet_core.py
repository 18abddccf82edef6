# SPDX-License-Identifier: BSD-3-Clause
"""The core put together: packets, ARP, the CPU's frames and registers, as a host and a network see them."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import ARP, Dot1Q, Ether

from axil import COUNTERS, MEMORIES, REGISTERS, AxiLite, SlaveError
from simulation import parameter, simulate
from slices import Ports, Slice
from streams import Sink, Source, bursts, randomly, start

HERE = Path(__file__).parent
OWN_MAC, OWN_IP, GATEWAY = "02:00:00:00:00:01", "10.1.2.3", "10.1.2.1"
PEER, PEER_MAC, GATEWAY_MAC = "10.1.2.9", "06:11:22:33:44:55", "06:aa:bb:cc:dd:ee"
PORT = 7148
ENABLE, CHECKSUM, ANSWER, RESET = 1, 1 << 24, 1 << 26, 1 << 16


def number(address: str) -> int:
    """Read a MAC or IP address as a number."""
    if ":" in address:
        return int(address.replace(":", ""), 16)
    return int.from_bytes(bytes(int(p) for p in address.split(".")), "big")


async def reset(dut):
    """Start clocks, the core's of which is returned, and reset."""
    dut.rst.value, dut.s_axi_aresetn.value = 1, 0
    dut.ext_ack.value, dut.phy_status.value = 0, 1
    for clock, period in ((dut.s_axi_aclk, 10.0), (dut.app0_clk, 2.3), (dut.app1_clk, 3.1), (dut.app_rx_clk, 2.2)):
        await start(dut, period, clock=clock._name, reset=None)
    clk = await start(dut, 2.56, reset=None)
    await ClockCycles(dut.s_axi_aclk, 8)
    dut.rst.value, dut.s_axi_aresetn.value = 0, 1
    await ClockCycles(dut.s_axi_aclk, 100)  # the ARP table is cleared meanwhile
    return clk


class Bench:
    """The core with its registers, two applications and the network's side."""

    def __init__(self, dut):
        Slice._driven.clear()
        self.dut = dut
        self.registers = AxiLite(dut, dut.s_axi_aclk)
        sideband = ("dst_ip", "dst_port", "src_port")
        clocks = (dut.app0_clk, dut.app1_clk)
        self.apps = [Source(Ports(dut, i, 2), "s_axis", clocks[i], sideband=sideband) for i in range(2)]
        self.network_in = Source(dut, "mac_rx_axis", dut.clk)
        self.network_out = Sink(dut, "mac_tx_axis", dut.clk)
        self.received = Sink(
            dut, "m_axis", dut.app_rx_clk, sideband=("length", "src_ip", "src_port", "dst_ip", "dst_port")
        )

    async def begin(self, control=ENABLE):
        """Reset, and set addresses."""
        self.clk = await reset(self.dut)
        await self.configure(control)

    async def configure(self, control=ENABLE):
        """Set addresses."""
        r = self.registers
        mac = number(OWN_MAC)
        for name, value in {
            "mac_high": mac >> 32, "mac_low": mac & 0xFFFFFFFF, "ip": number(OWN_IP), "gateway": number(GATEWAY),
            "netmask": 0xFFFFFF00, "port": 0xFFFF0000 | PORT, "control": control,
        }.items():  # fmt: skip
            await r.write(name, value)

    async def learn(self, ip: str, mac: str):
        """Write an entry of the ARP table."""
        at = MEMORIES["arp"]["address"] + 8 * (number(ip) & 255)
        await self.registers.write_at(at, number(mac) >> 32)
        await self.registers.write_at(at + 4, number(mac) & 0xFFFFFFFF)

    def send(self, app: int, payload: bytes, dst: str, sport: int = 4000, dport: int = PORT):
        """Queue a packet at an application."""
        self.apps[app].send(payload, dst_ip=number(dst), src_port=sport, dst_port=dport)

    async def frame(self) -> bytes:
        """Next frame to the network."""
        return (await self.network_out.receive()).data


def udp(payload, dst, dst_mac, *, src=OWN_IP, src_mac=OWN_MAC, sport=4000, dport=PORT, checksum=False) -> bytes:
    """Build with scapy."""
    layer = UDP(sport=sport, dport=dport) if checksum else UDP(sport=sport, dport=dport, chksum=0)
    return bytes(Ether(dst=dst_mac, src=src_mac) / IP(src=src, dst=dst, id=0, flags="DF", ttl=64) / layer / payload)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def defects_2_and_3_next_hops_by_table_gateway_and_group(dut):
    """The gateway's MAC, never its IP; multicast by RFC 1112."""
    bench = Bench(dut)
    await bench.begin(ENABLE | CHECKSUM)
    await bench.learn(PEER, PEER_MAC)
    await bench.learn(GATEWAY, GATEWAY_MAC)
    hops = {
        PEER: PEER_MAC,
        "192.0.2.77": GATEWAY_MAC,
        "239.1.2.3": "01:00:5e:01:02:03",
        "224.129.2.3": "01:00:5e:01:02:03",
        "255.255.255.255": "ff:ff:ff:ff:ff:ff",
        "10.1.2.255": "ff:ff:ff:ff:ff:ff",
        "223.255.255.254": GATEWAY_MAC,
        "240.0.0.1": GATEWAY_MAC,
    }
    for n, (dst, mac) in enumerate(hops.items()):
        payload = random.randbytes(100 + n)
        bench.send(0, payload, dst)
        assert await bench.frame() == udp(payload, dst, mac, checksum=True), dst


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_missing_entry_is_asked_for_and_learned(dut):
    bench = Bench(dut)
    await bench.begin(ENABLE | ANSWER)
    bench.send(0, b"lost", PEER)
    asked = Ether(await bench.frame())
    assert (asked.dst, asked[ARP].op, asked[ARP].pdst, asked[ARP].psrc, asked[ARP].hwsrc) == (
        "ff:ff:ff:ff:ff:ff", 1, PEER, OWN_IP, OWN_MAC,
    )  # fmt: skip
    reply = Ether(dst=OWN_MAC, src=PEER_MAC) / ARP(op=2, hwsrc=PEER_MAC, psrc=PEER, hwdst=OWN_MAC, pdst=OWN_IP)
    bench.network_in.send(bytes(reply).ljust(60, b"\0"))
    await bench.network_in.idle()
    await ClockCycles(dut.clk, 80)
    bench.send(0, b"found", PEER)
    assert await bench.frame() == udp(b"found", PEER, PEER_MAC)
    request = Ether(dst="ff:ff:ff:ff:ff:ff", src=PEER_MAC) / ARP(op=1, hwsrc=PEER_MAC, psrc=PEER, pdst=OWN_IP)
    bench.network_in.send(bytes(request).ljust(60, b"\0"))
    answer = Ether(await bench.frame())
    assert (answer.dst, answer[ARP].op, answer[ARP].hwsrc, answer[ARP].pdst) == (PEER_MAC, 2, OWN_MAC, PEER)
    assert await bench.registers.read("tx_no_arp") == 1


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def two_applications_the_cpu_and_pauses_share_the_line(dut):
    bench = Bench(dut)
    await bench.begin()
    peers = [(PEER, PEER_MAC, 7148), ("10.1.2.77", "06:77:77:77:77:77", 7149)]
    for ip, mac, _ in peers:
        await bench.learn(ip, mac)
    bench.network_out.pause = randomly(0.3, 1)
    want: list[list[bytes]] = [[], []]
    for _ in range(40):
        for app in (0, 1):
            payload = random.randbytes(random.randint(1, 900))
            ip, mac, port = peers[app]
            bench.send(app, payload, ip, sport=5000 + app, dport=port)
            want[app].append(udp(payload, ip, mac, sport=5000 + app, dport=port))
    bench.apps[0].pause, bench.apps[1].pause = randomly(0.5, 2), randomly(0.1, 3)
    ping = bytes(Ether(dst=PEER_MAC, src=OWN_MAC) / IP(src=OWN_IP, dst=PEER) / ICMP() / b"ping of the CPU")
    r = bench.registers
    for at in range(0, len(ping), 4):
        await r.write_at(MEMORIES["cpu_tx"]["address"] + at, int.from_bytes(ping[at : at + 4], "little"))
    await r.write_at(MEMORIES["cpu_tx"]["address"] + 2048, 0xFFFFFFFF)  # behind the buffer: nowhere
    await r.write("bytes_ready", len(ping))
    while await r.read("bytes_ready") & 0xFFFF:
        pass
    got = [await bench.frame() for _ in range(81)]
    assert got.count(ping) == 1
    got.remove(ping)
    for app in (0, 1):
        assert [g for g in got if Ether(g)[UDP].sport == 5000 + app] == want[app]
    await ClockCycles(dut.clk, 100)
    assert await r.read("tx_packets") == 81
    assert await r.read("tx_bytes") == sum(map(len, got)) + len(ping)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def both_applications_get_half_of_the_packets(dut):
    bench = Bench(dut)
    await bench.begin()
    await bench.learn(PEER, PEER_MAC)
    bench.network_out.pause = lambda: True
    for _ in range(30):
        bench.send(0, bytes(1000), PEER, sport=5000)
        bench.send(1, bytes(200), PEER, sport=5001)
    await ClockCycles(dut.clk, 300)
    bench.network_out.pause = lambda: False
    ports = [Ether(await bench.frame())[UDP].sport for _ in range(60)]
    assert all(a != b for a, b in pairwise(ports[4:53])), ports


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def received_payloads_reach_the_application_and_other_frames_the_cpu(dut):
    bench = Bench(dut)
    await bench.begin()
    sent = []
    for n in range(20):
        payload = random.randbytes(random.randint(1, 900))
        sent.append(payload)
        frame = udp(payload, OWN_IP, OWN_MAC, src=PEER, src_mac=PEER_MAC, sport=9000 + n, checksum=bool(n % 2))
        bench.network_in.send(frame.ljust(60, b"\0"))
    ping = bytes(Ether(dst=OWN_MAC, src=PEER_MAC) / IP(src=PEER, dst=OWN_IP) / ICMP() / bytes(range(60)))
    bench.network_in.send(ping)
    for n, payload in enumerate(sent):
        got = await bench.received.receive()
        assert got.data == payload
        want = {
            "length": len(payload),
            "src_ip": number(PEER),
            "src_port": 9000 + n,
            "dst_ip": number(OWN_IP),
            "dst_port": PORT,
        }
        assert got.sideband == want
    await ClockCycles(dut.clk, 50)
    r = bench.registers
    assert await r.read("bytes_ready") >> 16 == len(ping)
    words = [await r.read_at(MEMORIES["cpu_rx"]["address"] + at) for at in range(0, len(ping), 4)]
    assert b"".join(w.to_bytes(4, "little") for w in words)[: len(ping)] == ping


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_soft_reset_drops_what_waits_and_keeps_settings(dut):
    bench = Bench(dut)
    await bench.begin()
    await bench.learn(PEER, PEER_MAC)
    bench.send(0, b"before", PEER)
    assert await bench.frame() == udp(b"before", PEER, PEER_MAC)
    r = bench.registers
    await r.write("control", 0)
    for _ in range(3):
        bench.send(0, b"while disabled", PEER)
    await bench.apps[0].idle()
    await r.write("control", RESET)
    await ClockCycles(dut.clk, 50)
    assert int(dut.app_tx_rst.value) == 3 and not int(dut.s_axis_tready.value)
    await r.write("control", ENABLE)
    await ClockCycles(dut.clk, 50)
    assert int(dut.app_tx_rst.value) == 0
    for n in range(3):
        bench.send(n % 2, b"after", PEER)
        assert await bench.frame() == udp(b"after", PEER, PEER_MAC)
    assert not bench.network_out.frames
    assert await r.read("ip") == number(OWN_IP)


async def unbroken(clock, valid, ready, last):
    """Fail if tvalid falls inside a frame: what the core sends is whole in it before it begins."""
    inside = False
    while True:
        await RisingEdge(clock)
        assert int(valid.value) or not inside, f"{valid._name} fell inside a frame"
        if int(valid.value):
            inside = not (int(ready.value) and int(last.value))


def in_order(got, sent, what):
    """Fail if something came that was not sent, or twice, or too late."""
    left = iter(sent)
    for g in got:
        assert any(g == s for s in left), f"{what}: {bytes(g[:60]).hex()} ({len(g)} bytes) was not sent, or not now"


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(pause=[0.0, 0.4])
async def soft_resets_at_any_moment_break_no_frame(dut, pause):
    """Neither to the MAC nor to the application; nor is the rest of one from them taken for the next."""
    bench = Bench(dut)
    await bench.begin()
    await bench.learn(PEER, PEER_MAC)
    r = bench.registers
    bench.network_out.pause, bench.received.pause = randomly(pause, 1), randomly(pause, 2)
    for app in bench.apps:
        app.pause = randomly(pause / 2, 3)
    bench.network_in.pause = bursts(pause, 4)  # also for longer than a reset lasts
    for stream, clock in (("mac_tx_axis", dut.clk), ("m_axis", dut.app_rx_clk)):
        signals = [getattr(dut, f"{stream}_{name}") for name in ("tvalid", "tready", "tlast")]
        cocotb.start_soon(unbroken(clock, *signals))
    sent = [[], [], []]  # frames of the applications; payloads to be received
    keep = parameter("WIDTH") // 8

    def payload():
        return sum(map(len, sent)).to_bytes(4, "big") + random.randbytes(random.choice([1, 60, 20 * keep, 40 * keep]))

    def more():
        for app in (0, 1):
            data = payload()
            bench.send(app, data, PEER, sport=5000 + app)
            sent[app].append(udp(data, PEER, PEER_MAC, sport=5000 + app))
        data = payload()
        bench.network_in.send(udp(data, OWN_IP, OWN_MAC, src=PEER, src_mac=PEER_MAC).ljust(60, b"\0"))
        sent[2].append(data)

    async def keep_sending():
        while True:
            while min(len(s._queue) for s in (*bench.apps, bench.network_in)) < 2:
                more()
            await ClockCycles(dut.clk, 8)

    sending = cocotb.start_soon(keep_sending())
    for n in range(40):
        await ClockCycles(dut.clk, random.randrange(700))
        await r.write("control", RESET | ENABLE)
        if n % 3 == 0:
            await ClockCycles(dut.clk, random.randrange(700))
        await r.write("control", ENABLE)
    sending.cancel()

    async def quiet():
        for source in (*bench.apps, bench.network_in):
            await source.idle()
        came = None
        while came != (came := (len(bench.network_out.frames), len(bench.received.frames))):
            await ClockCycles(dut.clk, 2000)

    await quiet()
    before = [len(s) for s in sent]
    for _ in range(5):
        more()
    await quiet()
    frames, payloads = [f.data for f in bench.network_out.frames], [f.data for f in bench.received.frames]
    for app in (0, 1):
        mine = [f for f in frames if f[34:36] == (5000 + app).to_bytes(2, "big")]
        in_order(mine, sent[app], f"application {app}")
        assert mine[-5:] == sent[app][before[app] :], "after the last reset all is as before the first"
        assert 20 < len(mine) < len(sent[app]), "some are sent, and some lost by resets"
    assert {f[34:36] for f in frames} == {(5000 + app).to_bytes(2, "big") for app in (0, 1)}
    in_order(payloads, sent[2], "received")
    assert payloads[-5:] == sent[2][before[2] :]
    assert 20 < len(payloads) < len(sent[2])
    assert await r.read("tx_packets") == len(frames), "a soft reset loses no count of what has left"
    drops = {name: await r.read(name) for name in COUNTERS if name.startswith(("drop_", "cpu_", "rx_bad"))}
    assert not any(drops.values()), f"the rest of a frame was taken for a frame: {drops}"


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def a_soft_reset_waits_for_who_holds_a_frame_up(dut):
    """The MAC or the application not being ready: the frame stays as it is, and the reset follows when it has gone."""
    bench = Bench(dut)
    await bench.begin()
    await bench.learn(PEER, PEER_MAC)
    held = True
    bench.network_out.pause = bench.received.pause = lambda: held
    data = random.randbytes(600)
    bench.send(0, data, PEER)
    # More than the ring, and at 1024 bits what is behind it, holds: the reset comes in the middle of one that waits for room.
    for _ in range(6 if parameter("WIDTH") == 1024 else 5):
        bench.send(0, bytes(8900), PEER)
    bench.network_in.send(udp(data, OWN_IP, OWN_MAC, src=PEER, src_mac=PEER_MAC))
    await ClockCycles(dut.clk, 400000 // parameter("WIDTH"))
    assert bench.apps[0].waited
    assert int(dut.mac_tx_axis_tvalid.value) and int(dut.m_axis_tvalid.value)
    await bench.registers.write("control", RESET | ENABLE)
    await bench.registers.write("control", ENABLE)  # once asked for is enough
    bench.send(1, data, PEER)  # not begun before the reset: it waits for the end of it
    await ClockCycles(dut.clk, 300)
    assert not int(dut.app_tx_rst.value) and not int(dut.app_rx_rst.value)
    was_reset = cocotb.start_soon(rising(dut.app_rx_rst))
    held = False
    assert await bench.frame() == udp(data, PEER, PEER_MAC)
    assert (await bench.received.receive()).data == data
    await was_reset
    after = [await bench.frame(), await bench.frame()]  # application 0's last packet was not begun before either
    assert sorted(after) == sorted([udp(data, PEER, PEER_MAC), udp(bytes(8900), PEER, PEER_MAC)])


async def rising(signal):
    await RisingEdge(signal)


@cocotb.test(timeout_time=4, timeout_unit="ms")
async def registers_answer_while_the_macs_clock_stands(dut):
    """Every one, with an error; clock_status says why. After it all is as it was."""
    bench = Bench(dut)
    await bench.begin()
    await bench.learn(PEER, PEER_MAC)
    r = bench.registers
    assert await r.read("clock_status") == 0
    for _ in range(2):
        bench.clk.stop()
        await ClockCycles(dut.s_axi_aclk, 5000)
        assert await r.read("clock_status") == 1
        for name, register in REGISTERS.items():
            if name != "clock_status":
                for access in (r.read_at(register["address"]), r.write_at(register["address"], 0xFFFFFFFF)):
                    try:
                        await access
                    except SlaveError:
                        continue
                    raise AssertionError(f"{name} answers without a clock")
        bench.clk.start()
        while await r.read("clock_status"):
            pass
        assert await r.read("ip") == number(OWN_IP)
        bench.send(0, b"as before", PEER)
        assert await bench.frame() == udp(b"as before", PEER, PEER_MAC)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def defect_1_phy_status_and_rates_are_not_tied_to_zero(dut):
    bench = Bench(dut)
    await bench.begin()
    await bench.learn(PEER, PEER_MAC)
    dut.phy_status.value = 0x12345678_9ABCDEF0
    await RisingEdge(dut.clk)
    r = bench.registers
    assert await r.read("phy_status") == 0x9ABCDEF0
    assert await r.read("phy_status_high") == 0x12345678
    # CLOCK_HZ is small here: a "second" is CLOCK_HZ cycles. One packet every 500 cycles.
    second = parameter("CLOCK_HZ")
    for _ in range(2 * second // 500 + 10):
        bench.send(0, bytes(50), PEER)
        await bench.frame()
        await ClockCycles(dut.clk, 500 - 60)
    rate = await r.read("tx_packet_rate")
    assert second / 600 < rate < second / 440, rate
    assert await r.read("tx_byte_rate") == 92 * rate


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def each_flag_of_control_does_its_own_and_no_other(dut):
    """A frame for each, that passes by its flag alone; with all the others on, and with all the others off."""
    bench = Bench(dut)
    await bench.begin()
    r = bench.registers
    to_us = {"src": PEER, "src_mac": PEER_MAC}
    plain = Ether(udp(b"tagged", OWN_IP, OWN_MAC, **to_us))
    frames = {
        "promiscuous": udp(b"other MAC", OWN_IP, "02:00:00:00:77:77", **to_us),
        "accept_vlan": bytes(Ether(dst=OWN_MAC, src=PEER_MAC) / Dot1Q(vlan=7) / plain.payload),
        "cpu_ports": udp(b"other port", OWN_IP, OWN_MAC, dport=PORT + 1, **to_us),
        "answer_arp": bytes(Ether(dst=OWN_MAC, src=PEER_MAC) / ARP(op=1, hwsrc=PEER_MAC, psrc=PEER, pdst=OWN_IP)),
    }
    bits = {name: 1 << REGISTERS["control"]["fields"][name][0] for name in (*frames, "udp_checksum")}
    await bench.learn(PEER, PEER_MAC)
    for name in (*frames, "udp_checksum"):
        others = sum(bits.values()) - bits[name] - (0 if name == "promiscuous" else bits["promiscuous"])
        for control in (bits[name], others):
            await r.write("control", ENABLE | control)
            await ClockCycles(dut.clk, 20)
            on = bool(control & bits[name])
            if name == "udp_checksum":
                bench.send(0, b"summed", PEER)
                assert await bench.frame() == udp(b"summed", PEER, PEER_MAC, checksum=on)
                continue
            before = [await r.read(n) for n in ("rx_packets", "cpu_rx_frames", "tx_packets")]
            bench.network_in.send(frames[name].ljust(60, b"\0"))
            await bench.network_in.idle()
            await ClockCycles(dut.clk, 200)
            after = [await r.read(n) for n in ("rx_packets", "cpu_rx_frames", "tx_packets")]
            came = dict(zip(("app", "cpu", "reply"), (b - a for a, b in zip(before, after, strict=True)), strict=True))
            want = {"promiscuous": "app", "accept_vlan": "app", "cpu_ports": "cpu", "answer_arp": "reply"}[name]
            assert came[want] == int(on), f"{name} is {on}: {came}"
            bench.network_out.frames.clear()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_disabled_core_sends_and_asks_nothing(dut):
    bench = Bench(dut)
    await bench.begin(control=0)
    bench.send(0, b"to somebody unknown", PEER)
    bench.send(1, b"beyond the gateway", "192.168.7.7")
    for app in bench.apps:
        await app.idle()
    await ClockCycles(dut.clk, 400)
    assert not bench.network_out.frames
    assert not int(dut.mac_tx_axis_tvalid.value)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def the_cpus_window_ends_with_its_buffer(dut):
    bench = Bench(dut)
    await bench.begin()
    r, at = bench.registers, MEMORIES["cpu_tx"]["address"]
    words = {n: random.getrandbits(32) for n in (0, 511)}
    for n, word in words.items():
        await r.write_at(at + 4 * n, word)
    for n in (512, 1023, 1024, 2047):
        await r.write_at(at + 4 * n, 0)
    assert {n: await r.read_at(at + 4 * n) for n in words} == words


@pytest.mark.parametrize("width", [64, 1024])
def test_ethernet_core(width):
    simulate("core_of_two", __file__, also=[HERE], WIDTH=width, CLOCK_HZ=5000)


@pytest.mark.soak
@pytest.mark.parametrize("width", [128, 256, 512])
def test_ethernet_core_of_other_widths(width):
    simulate("core_of_two", __file__, also=[HERE], WIDTH=width, CLOCK_HZ=5000)
