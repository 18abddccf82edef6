# SPDX-License-Identifier: BSD-3-Clause
"""The receive half behind its registers: every frame that scapy makes is accepted or dropped as rx_model says, and counted."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import cocotb
import pytest
from axil import AxiLite
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from rx_model import Case, Frames, Outcome, Settings, decide
from simulation import WIDTHS, parameter, simulate
from streams import Sink, Source, bursts, never, randomly

FOLDER = Path(__file__).parent
SIDEBAND = ("length", "src_ip", "src_port", "dst_ip", "dst_port")
IDLE_INPUTS = """s_axis_tvalid arp_axis_tready lookup_valid lookup_ip tx_packet tx_bytes tx_overflow tx_almost_full tx_oversize
tx_no_arp phy_status cpu_tx_read_data cpu_tx_busy ext_rdata ext_ack m_axis_tready""".split()


class Bench:
    """Clocks, reset, registers, and a count of what must come."""

    def __init__(self, dut: Any) -> None:
        self.dut, self.settings = dut, Settings()

    async def start(self, *, app_ns: float = 2.2, axi_ns: float = 5.1, clk_ns: float = 2.56) -> Bench:
        dut = self.dut
        for name in IDLE_INPUTS:
            getattr(dut, name).value = 0
        dut.arp_axis_tready.value = 1
        for clock, reset, ns in (("clk", "rst", clk_ns), ("app_clk", "app_rst", app_ns), ("s_axi_aclk", "s_axi_rst", axi_ns)):
            getattr(dut, reset).value = 1
            Clock(getattr(dut, clock), round(ns * 500) * 2, unit="ps").start()
        self.axi = AxiLite(dut, dut.s_axi_aclk)
        await ClockCycles(dut.s_axi_aclk, 10)
        for reset in ("rst", "app_rst", "s_axi_rst"):
            getattr(dut, reset).value = 0
        await ClockCycles(dut.s_axi_aclk, 10)
        return self

    async def set(self, settings: Settings) -> None:
        self.settings = settings
        for name, value in settings.registers().items():
            await self.axi.write(name, value)

    async def settle(self, source: Source, sink: Sink, frames: int) -> None:
        """Wait until all frames went in, and everything came out."""
        await source.idle()
        await ClockCycles(self.dut.clk, 60)
        quiet = 0
        while quiet < 50 and len(sink.frames) < frames:
            before = len(sink.frames)
            await ClockCycles(self.dut.app_clk, 200)
            quiet = 0 if len(sink.frames) > before else quiet + 1

    async def read_cpu_frame(self) -> bytes:
        """Take the oldest frame of the CPU's buffer."""
        size = await self.axi.read("bytes_ready") >> 16
        words = [await self.axi.read_at(0x8000 + at) for at in range(0, size, 4)]
        await self.axi.write("bytes_ready", 0)
        return b"".join(w.to_bytes(4, "little") for w in words)[:size]


def expected(cases: list[Case], settings: Settings) -> list[Outcome]:
    """Ask the model about each, and compare it with what the maker of the frame knows."""
    outcomes = [decide(c.frame, c.bad, settings) for c in cases]
    for c, o in zip(cases, outcomes, strict=True):
        assert c.expect in (None, o.verdict), f"{c.kind}: made to be {c.expect}, and the model says {o.verdict}: {c.frame.hex()}"
    return outcomes


def totals(cases: list[Case], outcomes: list[Outcome]) -> dict[str, int]:
    """Counters after these frames, if nothing overflowed (but the CPU's buffer, which is summed up)."""
    count = {name: 0 for name in DROPS}
    for o in outcomes:
        if o.verdict in count:
            count[o.verdict] += 1
    good = [c for c, o in zip(cases, outcomes, strict=True) if o.verdict == "app"]
    count["rx_packets"] = len(good)
    count["rx_bytes"] = sum(len(c.frame) for c in good)
    count["rx_overflow"] = 0
    count["rx_bad"] = sum(count[n] for n in ("rx_bad_mac", "drop_ip_checksum", "drop_udp_checksum", "drop_length"))
    count["rx_frames"] = len(cases)
    return count


DROPS = """drop_mac drop_ip drop_port drop_ip_checksum drop_udp_checksum drop_length drop_fragment drop_other drop_vlan
rx_bad_mac""".split()


def a_size(r: random.Random, large: float = 0.03) -> int:
    """Mostly around the widths' edges, where bugs are; some large."""
    if r.random() < large:
        return r.randrange(9001)
    return r.choice([r.randrange(0, 20), r.randrange(0, 300), r.choice([22, 86, 214, 342]) + r.randrange(-3, 4)])


def some_settings(r: random.Random) -> Settings:
    """Registers that a user might have set."""
    group, mask = r.choice([(0, 0), (0xEF010240, 0xFFFFFFC0), (0xE8000001, 0xFFFFFFFF), (0xEF000000, 0), (0xEF000000, 0xF0000000)])
    return Settings(
        netmask=r.choice([0xFFFFFF00, 0xFFFF0000, 0xFFFFFFF0, 0xFFFFFFFF]),
        group=group,
        group_mask=mask,
        port=r.getrandbits(16),
        port_mask=r.choice([0xFFFF, 0xFFFF, 0xFFF8, 0]),
        promiscuous=r.random() < 0.25,
        accept_vlan=r.random() < 0.6,
        cpu_ports=r.random() < 0.3,
    )


async def run(dut: Any, seed: int, count: int, source_pause: Any, sink_pause: Any, settings: Settings) -> None:
    """Send frames of all kinds; payloads, sidebands and counters must be the model's."""
    bench = await Bench(dut).start()
    await bench.set(settings)
    r, make = random.Random(seed), Frames(settings, seed)
    source = Source(dut, "s_axis", dut.clk, pause=source_pause)
    sink = Sink(dut, "m_axis", dut.app_clk, pause=sink_pause, sideband=SIDEBAND)
    kinds = sorted(make.kinds)
    cases = [make.kinds[k](a_size(r)) for k in kinds]  # each kind at least once
    cases += [make.any(a_size(r)) for _ in range(count - len(cases))]
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
    want = totals(cases, outcomes)
    assert {n: counters[n] for n in want} == want
    for_cpu = sum(o.verdict == "cpu" for o in outcomes)
    assert counters["cpu_rx_frames"] + counters["cpu_rx_full"] == for_cpu
    assert counters["cpu_rx_frames"] == min(for_cpu, 7), "frames of at most 1500 bytes fit, seven of them"


@cocotb.test()
async def every_frame_is_decided_and_counted_back_to_back(dut: Any) -> None:
    r = random.Random()
    seed = r.getrandbits(32)
    dut._log.info(f"seed {seed}")
    r.seed(seed)
    await run(dut, seed, parameter("COUNT"), never, never, some_settings(r))


@cocotb.test()
async def every_frame_is_decided_and_counted_with_pauses(dut: Any) -> None:
    r = random.Random()
    seed = r.getrandbits(32)
    dut._log.info(f"seed {seed}")
    r.seed(seed)
    await run(dut, seed, parameter("COUNT"), bursts(0.5, seed), randomly(0.2, seed), some_settings(r))


@pytest.mark.parametrize("width", WIDTHS)
def test_rx_half(width):
    simulate("rx_half", __file__, also=[FOLDER], WIDTH=width, env={"HDL_COUNT": "250"})
