# SPDX-License-Identifier: BSD-3-Clause
"""The whole core against other people's models: cocotbext-axi's streams and AXI4-Lite master, cocotbext-eth's MAC, scapy's frames.

Nothing here is shared with the other benches but the register map, so that a mistake in their drivers is no mistake here. The MAC sends
and takes at the line's rate or less, with gaps, and fails if a frame runs dry.
"""

from __future__ import annotations

import logging
import random
import tomllib
from collections import deque
from pathlib import Path
from typing import Any

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, Timer
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiResp,
    AxiStreamBus,
    AxiStreamFrame,
    AxiStreamSink,
    AxiStreamSource,
)
from cocotbext.eth import EthMac, EthMacFrame
from cocotbext.eth.eth_mac import AxiStreamBus as MacBus
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Raw
from scapy.utils import mac2str

from simulation import ROOT, parameter, simulate

HERE = Path(__file__).parent
_MAP = tomllib.loads((ROOT / "src" / "ryle" / "fpga" / "registers.toml").read_text())
AT = {r["name"]: r["address"] for r in _MAP["register"]}
CLK_NS = 2.56
OWN_MAC, OWN_IP, PORT = "02:00:00:00:00:0a", "10.0.0.10", 7148
PEERS = {f"10.0.0.{n}": f"02:00:00:00:01:{n:02x}" for n in (1, 77, 254)}
ENABLE, CHECKSUM, ANSWER = 1, 1 << 24, 1 << 26


def number(ip: str) -> int:
    return int.from_bytes(bytes(map(int, ip.split("."))), "big")


def paused(share: float) -> Any:
    """Give pauses for `set_pause_generator`."""
    draw = random.Random(random.getrandbits(32)).random
    return iter(lambda: draw() < share, None)


class Core:
    """The core, and all that is connected to it."""

    def __init__(self, dut: Any, rate: float) -> None:
        logging.getLogger("cocotb.outside_core").setLevel(logging.WARNING)
        self.dut, self.rate = dut, rate

    async def begin(self, control: int) -> None:
        """Reset, then connect: before a reset nothing that comes out means anything, whatever listens."""
        d = self.dut
        d.rst.value, d.s_axi_aresetn.value = 1, 0
        for name in ("mac_rx_axis_tvalid", "mac_tx_axis_tready", "s_axis_tvalid", "m_axis_tready", "s_axi_awvalid",
                     "s_axi_wvalid", "s_axi_bready", "s_axi_arvalid", "s_axi_rready"):  # fmt: skip
            getattr(d, name).value = 0
        await Timer(1, "ns")
        for clock, ns in ((d.clk, CLK_NS), (d.app_clk, 2.9), (d.s_axi_aclk, 8.0)):
            Clock(clock, round(ns * 500) * 2, unit="ps").start()
        await ClockCycles(d.s_axi_aclk, 10)
        d.rst.value, d.s_axi_aresetn.value = 0, 1
        await ClockCycles(d.s_axi_aclk, 120)
        self.app = AxiStreamSource(AxiStreamBus.from_prefix(d, "s_axis"), d.app_clk)
        self.out = AxiStreamSink(AxiStreamBus.from_prefix(d, "m_axis"), d.app_clk)
        self.mac = EthMac(
            MacBus.from_prefix(d, "mac_tx_axis"), d.clk, rx_bus=MacBus.from_prefix(d, "mac_rx_axis"),
            rx_clk=d.clk, speed=self.rate * parameter("WIDTH") / (CLK_NS * 1e-9),
        )  # fmt: skip
        self.axi = AxiLiteMaster(AxiLiteBus.from_prefix(d, "s_axi"), d.s_axi_aclk)
        mac = int.from_bytes(mac2str(OWN_MAC), "big")
        for name, value in {
            "mac_high": mac >> 32, "mac_low": mac & 0xFFFFFFFF, "ip": number(OWN_IP), "netmask": 0xFFFFFF00,
            "port": 0xFFFF0000 | PORT, "control": control,
        }.items():  # fmt: skip
            await self.write(AT[name], value.to_bytes(4, "little"))
        for ip, address in PEERS.items():
            entry = (b"\0\0" + mac2str(address))[3::-1] + mac2str(address)[:1:-1]  # two words
            at = _memory("arp") + 8 * (number(ip) & 255)
            await self.write(at, entry)
            assert (await self.axi.read(at, 8)).data == entry

    async def write(self, at: int, data: bytes) -> None:
        assert (await self.axi.write(at, data)).resp == AxiResp.OKAY

    async def counter(self, name: str) -> int:
        low = await self.axi.read_dword(AT[name])
        return low | await self.axi.read_dword(AT[name] + _MAP["counter_high"]) << 32

    async def sent(self) -> None:
        """Wait until the MAC has handed over what it was given (its own `wait` never returns in version 0.1.28)."""
        while not self.mac.rx.empty() or self.mac.rx.current_frame is not None:
            await ClockCycles(self.dut.clk, 10)

    def send(self, payload: bytes, ip: str, sport: int, dport: int) -> None:
        user = number(ip) << 33 | dport << 17 | sport << 1
        self.app.send_nowait(AxiStreamFrame(payload, tuser=user))


def a_length() -> int:
    keep = parameter("WIDTH") // 8
    return random.choice(
        [1, 18, 22, keep, max(1, 2 * keep - 42), random.randint(1, 300), random.randint(1, 1500), 8192, 9000]
    )


def datagram(payload: bytes, checksum: bool, **fields: Any) -> bytes:
    """Build what the core should send."""
    udp = (
        UDP(sport=fields["sport"], dport=fields["dport"])
        if checksum
        else UDP(sport=fields["sport"], dport=fields["dport"], chksum=0)
    )
    ip = IP(src=OWN_IP, dst=fields["ip"], id=0, flags="DF", ttl=64)
    return bytes(Ether(src=OWN_MAC, dst=PEERS[fields["ip"]]) / ip / udp / Raw(payload))


@cocotb.test(timeout_time=3, timeout_unit="ms")
@cocotb.parametrize(checksum=[False, True])
@cocotb.parametrize(rate=[0.98, 0.6])
async def frames_go_both_ways_at_once(dut: Any, checksum: bool, rate: float) -> None:
    core = Core(dut, rate)
    await core.begin(ENABLE | ANSWER | (CHECKSUM if checksum else 0))
    core.app.set_pause_generator(paused(random.choice([0, 0.3, 0.7])))
    core.out.set_pause_generator(paused(random.choice([0, 0.05])))
    left: list[bytes] = []
    for n in range(30):
        payload, ip = random.randbytes(a_length()), random.choice(list(PEERS))
        core.send(payload, ip, 4000 + n, 5000 + n)
        left.append(datagram(payload, checksum, ip=ip, sport=4000 + n, dport=5000 + n))
    come: deque[tuple[bytes, int]] = deque()
    dropped = {"drop_mac": 0, "drop_port": 0, "drop_vlan": 0, "drop_udp_checksum": 0, "drop_other": 0}
    asked = 0
    for n in range(40):
        payload, peer = random.randbytes(a_length()), random.choice(list(PEERS))
        ip, udp = IP(src=peer, dst=OWN_IP, ttl=random.randint(1, 255)), UDP(sport=6000 + n, dport=PORT)
        ether = Ether(src=PEERS[peer], dst=OWN_MAC)
        kind = random.choice(["good", "good", "good", "no checksum", "options", *dropped, "arp"])
        frame = ether / ip / udp / Raw(payload)
        if kind == "no checksum":
            udp.chksum = 0
            frame = ether / ip / udp / Raw(payload)
        elif kind == "options":
            frame = ether / IP(src=peer, dst=OWN_IP, options=[b"\x01"] * random.randint(1, 40)) / udp / Raw(payload)
        elif kind == "drop_mac":
            frame.dst = "02:00:00:00:00:0b"
        elif kind == "drop_port":
            frame[UDP].dport = PORT + 1
        elif kind == "drop_vlan":
            frame = ether / Dot1Q(vlan=5) / ip / udp / Raw(payload)
        elif kind == "drop_udp_checksum":
            frame[UDP].chksum = (int.from_bytes(bytes(frame)[40:42], "big") % 0xFFFF) + 1
        elif kind == "drop_other":
            frame = Ether(src=PEERS[peer], dst="ff:ff:ff:ff:ff:ff") / Raw(payload)
            frame.type = 0x88B5
        elif kind == "arp":
            frame = Ether(src=PEERS[peer], dst="ff:ff:ff:ff:ff:ff") / ARP(
                op=1, hwsrc=PEERS[peer], psrc=peer, pdst=OWN_IP
            )
            asked += 1
        if kind in ("good", "no checksum", "options"):
            words = (len(payload), number(peer), 6000 + n, number(OWN_IP), PORT)
            user = 0
            for word, bits in zip(words, (16, 32, 16, 32, 16), strict=True):
                user = user << bits | word
            come.append((payload, user))
        elif kind in dropped:
            dropped[kind] += 1
        await core.mac.rx.send(EthMacFrame(bytes(frame).ljust(60, b"\0")))
        if kind == "arp":  # one of each waits for its reply: let it go
            await core.sent()
            await ClockCycles(dut.clk, 1500)
    expected_in = len(come)
    while come:
        got = await core.out.recv()
        payload, user = come.popleft()
        assert bytes(got.tdata) == payload
        assert got.tuser == user
    frames = [bytes((await core.mac.tx.recv()).data) for _ in range(len(left) + asked)]
    replies = [f for f in frames if Ether(f).type == 0x0806]
    assert [f for f in frames if f not in replies] == left
    assert len(replies) == asked
    for reply in map(Ether, replies):
        arp = reply[ARP]
        assert (arp.op, arp.hwsrc, arp.psrc, reply.src) == (2, OWN_MAC, OWN_IP, OWN_MAC)
        assert (arp.hwdst, reply.dst) == (PEERS[arp.pdst],) * 2
    await core.sent()
    await ClockCycles(dut.clk, 100)
    assert core.mac.tx.empty() and core.out.empty()
    assert await core.counter("tx_packets") == len(frames)
    assert await core.counter("tx_bytes") == sum(map(len, frames))
    assert await core.counter("rx_packets") == expected_in
    assert {name: await core.counter(name) for name in dropped} == dropped


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def the_cpu_sends_receives_and_asks(dut: Any) -> None:
    core = Core(dut, 0.98)
    await core.begin(ENABLE | ANSWER)
    # A frame of the CPU, written in pieces of any size.
    frame = bytes(
        Ether(src=OWN_MAC, dst=PEERS["10.0.0.1"]) / IP(src=OWN_IP, dst="10.0.0.1") / ICMP() / Raw(random.randbytes(301))
    )
    at = 0
    while at < len(frame):
        size = random.randint(1, 9)
        await core.write(_memory("cpu_tx") + at, frame[at : at + size])
        at += size
    await core.write(AT["bytes_ready"], len(frame).to_bytes(4, "little"))
    assert bytes((await core.mac.tx.recv()).data) == frame
    # A frame for the CPU.
    ping = bytes(
        Ether(src=PEERS["10.0.0.1"], dst=OWN_MAC) / IP(src="10.0.0.1", dst=OWN_IP) / ICMP() / Raw(random.randbytes(99))
    )
    await core.mac.rx.send(EthMacFrame(ping))
    while not (ready := await core.axi.read_dword(AT["bytes_ready"]) >> 16):
        pass
    assert ready == len(ping)
    assert (await core.axi.read(_memory("cpu_rx"), ready)).data == ping
    # A peer that is not in the table is asked for, learned from its reply, and then sent to.
    core.send(b"lost", "10.0.0.9", 1, 2)
    question = Ether((await core.mac.tx.recv()).data)
    assert (question[ARP].op, question[ARP].pdst, question.dst) == (1, "10.0.0.9", "ff:ff:ff:ff:ff:ff")
    new = "02:00:00:00:09:09"
    answer = Ether(src=new, dst=OWN_MAC) / ARP(op=2, hwsrc=new, psrc="10.0.0.9", hwdst=OWN_MAC, pdst=OWN_IP)
    await core.mac.rx.send(EthMacFrame(bytes(answer).ljust(60, b"\0")))
    await core.sent()
    await ClockCycles(dut.clk, 100)
    core.send(b"found", "10.0.0.9", 1, 2)
    found = Ether((await core.mac.tx.recv()).data)
    assert (found.dst, found[UDP].load) == (new, b"found")
    assert await core.counter("tx_no_arp") == 1


def _memory(name: str) -> int:
    return next(m["address"] for m in _MAP["memory"] if m["name"] == name)


@pytest.mark.parametrize("width", [64, 1024])
def test_outside(width):
    simulate("outside_core", __file__, also=[HERE], WIDTH=width)
