# SPDX-License-Identifier: BSD-3-Clause
"""What the benches of rx_half share: clocks, registers, and what must be counted."""

from __future__ import annotations

from typing import Any

from cocotb.clock import Clock
from cocotb.triggers import ClockCycles

from axil import AxiLite
from rx_frames import Case
from rx_model import Outcome, Settings, decide
from streams import Sink, Source

SIDEBAND = ("length", "src_ip", "src_port", "dst_ip", "dst_port")
IDLE_INPUTS = """s_axis_tvalid arp_axis_tready lookup_valid lookup_ip tx_packet tx_bytes tx_overflow tx_almost_full tx_oversize
tx_no_arp igmp_sent igmp_joined tx_held phy_status cpu_tx_read_data cpu_tx_busy ext_rdata ext_ack m_axis_tready""".split()


DROPS = """drop_mac drop_ip drop_port drop_ip_checksum drop_udp_checksum drop_length drop_fragment drop_other drop_vlan
rx_bad_mac""".split()


class Bench:
    """Clocks, reset, registers, and a count of what must come."""

    def __init__(self, dut: Any) -> None:
        self.dut, self.settings = dut, Settings()

    async def start(self, *, app_ns: float = 2.2, axi_ns: float = 5.1, clk_ns: float = 2.56) -> Bench:
        dut = self.dut
        for name in IDLE_INPUTS:
            getattr(dut, name).value = 0
        dut.arp_axis_tready.value = dut.echo_axis_tready.value = 1
        for clock, reset, ns in (
            ("clk", "rst", clk_ns),
            ("app_clk", "app_rst", app_ns),
            ("s_axi_aclk", "s_axi_rst", axi_ns),
        ):
            getattr(dut, reset).value = 1
            Clock(getattr(dut, clock), round(ns * 500) * 2, unit="ps").start()
        self.axi = AxiLite(dut, dut.s_axi_aclk)
        # What was at the input before the first edge may have begun a frame, whose rest would be left out.
        dut.s_axis_tvalid.value = dut.s_axis_tlast.value = 1
        await ClockCycles(dut.clk, 2)
        dut.s_axis_tvalid.value = 0
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
        assert c.expect in (None, o.verdict), (
            f"{c.kind}: made to be {c.expect}, and the model says {o.verdict}: {c.frame.hex()}"
        )
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
    for name in ("igmp_queries", "rx_pause"):
        count[name] = sum(o.verdict == name for o in outcomes)
    count["echo_replies"] = sum(o.verdict == "echo" for o in outcomes)
    count["echo_full"] = 0
    count["rx_bad"] = sum(count[n] for n in ("rx_bad_mac", "drop_ip_checksum", "drop_udp_checksum", "drop_length"))
    count["rx_frames"] = len(cases)
    return count
