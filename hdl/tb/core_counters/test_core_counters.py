# SPDX-License-Identifier: BSD-3-Clause
"""Every event is counted where the register map says, however many come at once, and rates are of whole seconds."""

from __future__ import annotations

import random
from collections import Counter

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge

from axil import COUNTERS, REGISTERS
from rx_vectors import VERDICTS
from simulation import parameter, simulate
from streams import start

#: Counters, and the inputs that they count.
EVENTS = {
    "tx_overflow": "tx_overflow", "tx_almost_full": "tx_almost_full", "tx_oversize": "tx_oversize", "tx_no_arp": "tx_no_arp",
    "rx_overflow": "rx_overflow", "rx_almost_full": "rx_almost_full", "cpu_rx_full": "cpu_full", "cpu_rx_frames": "cpu_stored",
    "rx_frames": "rx_frame", "tx_packets": "tx_packet", "rx_packets": "rx_stored",
    "echo_replies": "echo_stored", "echo_full": "echo_full", "igmp_queries": "query_valid", "igmp_sent": "igmp_sent",
    "rx_pause": "pause_valid", "tx_held": "tx_held",
}  # fmt: skip
LENGTHS = {"tx_bytes": ("tx_packet", "tx_bytes"), "rx_bytes": ("rx_stored", "rx_stored_bytes")}
DAMAGE = {"rx_bad_mac", "drop_ip_checksum", "drop_udp_checksum", "drop_length"}
INPUTS = {*EVENTS.values(), *(n for names in LENGTHS.values() for n in names), "rx_drop"}


async def begin(dut):
    for name in (*INPUTS, "clear", "address"):
        getattr(dut, name).value = 0
    await start(dut)


async def read(dut, name):
    dut.address.value = REGISTERS[name]["address"]
    await ClockCycles(dut.clk, 2)
    assert int(dut.found.value)
    return int(dut.value.value)


async def events(dut, cycles):
    """Let everything happen at random for so many cycles; count it."""
    count: Counter[str] = Counter()
    for n in range(cycles):
        now = {name: random.getrandbits(len(getattr(dut, name))) for name in INPUTS}
        drop = n if n < 10 else random.randrange(2 * len(VERDICTS))  # each once, then at random
        now["rx_drop"] = 1 << drop if drop < 10 else 0
        for name, value in now.items():
            getattr(dut, name).value = value
        await RisingEdge(dut.clk)
        for name, source in EVENTS.items():
            count[name] += now[source].bit_count()
        for name, (event, length) in LENGTHS.items():
            count[name] += now[length] if now[event] else 0
        if drop < 10:
            count[VERDICTS[drop]] += 1
            count["rx_bad"] += VERDICTS[drop] in DAMAGE
    for name in INPUTS:
        getattr(dut, name).value = 0
    await ClockCycles(dut.clk, 4)
    return count


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def every_event_has_its_counter(dut):
    await begin(dut)
    for _ in range(3):
        count = await events(dut, 500)
        for name in COUNTERS:
            if "rate" not in name:
                assert await read(dut, name) == count[name] > 0, name
        dut.clear.value = 1
        await RisingEdge(dut.clk)
        dut.clear.value = 0
    dut.address.value = 0
    await ClockCycles(dut.clk, 2)
    assert not int(dut.found.value) and not int(dut.value.value)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def rates_are_of_the_second_that_clear_begins(dut):
    await begin(dut)
    second = parameter("CLOCK_HZ")
    for _ in range(4):
        await ClockCycles(dut.clk, random.randrange(1, second))
        dut.clear.value = 1
        await RisingEdge(dut.clk)
        dut.clear.value = 0
        dut.tx_packet.value, dut.tx_bytes.value = 1, 1500
        dut.rx_stored.value, dut.rx_stored_bytes.value = 0, 9
        await ClockCycles(
            dut.clk, 2 * second - 20
        )  # in the first the counters are not yet at work: it begins with no tick
        assert await read(dut, "tx_packet_rate") == 0
        await ClockCycles(dut.clk, 30)
        rates = [await read(dut, f"{way}_{what}_rate") for way in ("tx", "rx") for what in ("packet", "byte")]
        assert rates == [second, 1500 * second, 0, 0]
        dut.tx_packet.value, dut.rx_stored.value = 0, 1
        await ClockCycles(dut.clk, 2 * second)
        rates = [await read(dut, f"{way}_{what}_rate") for way in ("tx", "rx") for what in ("packet", "byte")]
        assert rates == [0, 0, second, 9 * second]


def test_core_counters():
    simulate("core_counters", __file__, CLOCK_HZ=200, TX_APPS=3)
