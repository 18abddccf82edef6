# SPDX-License-Identifier: BSD-3-Clause
"""Header insertion alone: any length, any answer of the table, no idle beat."""

from __future__ import annotations

import random

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import checksum

from simulation import parameter, simulate
from slices import Ports
from streams import Sink, Source, never, pauses, start

SIDEBAND = ("length", "dst_ip", "dst_port", "src_port", "sum")


def dotted(ip):
    """Write an address in the usual way."""
    return ".".join(str(ip >> s & 255) for s in (24, 16, 8, 0))


class Bench:
    """Source, sink and a table that knows odd addresses only."""

    async def begin(self, dut, after=never):
        self.dut, self.asked, self.missed = dut, 0, 0
        self.source = Source(
            Ports(dut, **{f"s_axis_{n}": f"s_{n}" for n in SIDEBAND}), "s_axis", dut.clk, sideband=SIDEBAND
        )
        self.sink = Sink(dut, "m_axis", dut.clk, pause=after)
        dut.enable.value, dut.udp_checksum.value = 1, 1
        dut.own_mac.value, dut.own_ip.value = 0x020000000001, 0x0A010203
        self.ttl, self.tos = random.getrandbits(8), random.getrandbits(8)
        dut.ttl.value, dut.tos.value = self.ttl, self.tos
        await start(dut)
        cocotb.start_soon(self._table())

    async def _table(self):
        answers = [None] * 3
        while True:
            await RisingEdge(self.dut.clk)
            self.missed += int(self.dut.no_mac.value)
            answers.append(int(self.dut.lookup_ip.value) if int(self.dut.lookup_valid.value) else None)
            self.asked += answers[-1] is not None
            answer = answers.pop(0)
            # Without a question the port may say anything.
            self.dut.lookup_hit.value = random.getrandbits(1) if answer is None else answer & 1
            self.dut.lookup_mac.value = random.getrandbits(48) if answer is None else 0x060000000000 | answer

    def send(self, payload, ip, sport=1, dport=2):
        total = ~checksum(payload) & 0xFFFF
        self.source.send(payload, length=len(payload), dst_ip=ip, src_port=sport, dst_port=dport, sum=total)

    @staticmethod
    def frame(payload, ip, sport=1, dport=2, ttl=64, tos=0):
        mac = f"06:00:{ip >> 24:02x}:{ip >> 16 & 255:02x}:{ip >> 8 & 255:02x}:{ip & 255:02x}"
        head = IP(src="10.1.2.3", dst=dotted(ip), id=0, flags="DF", ttl=ttl, tos=tos)
        return bytes(Ether(dst=mac, src="02:00:00:00:00:01") / head / UDP(sport=sport, dport=dport) / payload)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(after=["never", "half", "bursts"])
async def hits_leave_and_misses_vanish_in_any_order(dut, after):
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    bench = Bench()
    await bench.begin(dut, pauses(seed)[after])
    keep = parameter("WIDTH") // 8
    want, misses = [], 0
    for _ in range(200):
        payload, ip = rng.randbytes(rng.choice([1, 2, keep, rng.randint(1, 4 * keep)])), rng.getrandbits(32)
        sport, dport = rng.getrandbits(16), rng.getrandbits(16)
        bench.send(payload, ip, sport, dport)
        if ip & 1:
            want.append(bench.frame(payload, ip, sport, dport, bench.ttl, bench.tos))
        else:
            misses += 1
    for n, frame in enumerate(want):
        assert (await bench.sink.receive()).data == frame, n
    await ClockCycles(dut.clk, 60)
    assert not bench.sink.frames and bench.missed == misses and bench.asked == 200


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def ttl_and_type_of_service_change_between_packets(dut):
    """Whatever the moment, the header and its checksum have the same ones."""
    bench = Bench()
    await bench.begin(dut)
    for _ in range(60):
        bench.send(random.randbytes(random.randrange(1, 300)), 0x0A010209)
    headers = set()
    for _ in range(60):
        dut.ttl.value, dut.tos.value = random.getrandbits(8), random.getrandbits(8)
        header = (await bench.sink.receive()).data[14:34]
        assert checksum(header) == 0, header.hex()
        headers.add((header[1], header[8]))
    assert len(headers) > 5


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def defect_7_no_idle_beats_once_it_has_begun(dut):
    bench = Bench()
    await bench.begin(dut)
    keep = parameter("WIDTH") // 8
    # Frames that take a beat more than their payload, so that the output is what limits; and many short ones.
    lengths = [8 * keep] * 30 + [keep] * 60 + [3 * keep] * 20
    for n, length in enumerate(lengths):
        bench.send(bytes([n]) * length, 0x0A010209)
    got = [await bench.sink.receive() for _ in lengths]
    beats = sum(-(-(42 + n) // keep) for n in lengths)
    assert got[-1].last - got[0].first + 1 == beats


@pytest.mark.parametrize("width", [64, 1024])
def test_udp_tx(width):
    simulate("udp_tx", __file__, WIDTH=width)
