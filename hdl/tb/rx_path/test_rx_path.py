# SPDX-License-Identifier: BSD-3-Clause
"""What the receive path says of its FIFO while nobody takes packets, told exactly; what becomes of frames, rx_half asks."""

from __future__ import annotations

import random
from pathlib import Path

import cocotb
from cocotb.triggers import ClockCycles

from rx_bench import SIDEBAND, Bench
from rx_frames import Frames
from rx_model import Settings
from simulation import simulate
from streams import Sink, Source

TOP = Path(__file__).parents[1] / "rx_half"  # the path behind its registers


@cocotb.test(timeout_time=10, timeout_unit="ms")
async def a_fifo_that_fills_up_is_almost_full_once(dut):
    """An event each time that it becomes so, however long it stays so."""
    bench = await Bench(dut).start()
    await bench.set(Settings())
    make, stopped = Frames(bench.settings, random.getrandbits(32)), True
    source = Source(dut, "s_axis", dut.clk)
    sink = Sink(dut, "m_axis", dut.app_clk, pause=lambda: stopped, sideband=SIDEBAND)
    sent = 0
    for times in (1, 2):
        for _ in range(90):
            source.send(make.kind_good(1000).frame)
            sent += 1
        await bench.settle(source, sink, 10**6)
        counters = await bench.axi.counters()
        assert counters["rx_overflow"] > 0 and counters["rx_packets"] + counters["rx_overflow"] == sent
        assert counters["rx_almost_full"] == times
        await ClockCycles(dut.clk, 500)  # still full
        assert (await bench.axi.counters())["rx_almost_full"] == times
        stopped = False
        await bench.settle(source, sink, counters["rx_packets"])
        assert len(sink.frames) == counters["rx_packets"]
        assert (await bench.axi.counters())["rx_almost_full"] == times
        stopped = True


def test_rx_path():
    simulate("rx_half", __file__, also=[TOP], WIDTH=64)
