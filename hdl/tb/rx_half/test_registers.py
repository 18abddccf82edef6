# SPDX-License-Identifier: BSD-3-Clause
"""The register block: settings, counters, rates, windows and buffers, from the AXI4-Lite side."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import cocotb
import pytest
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge

from axil import COUNTERS, MEMORIES, REGISTERS, SlaveError
from rx_bench import SIDEBAND, Bench
from rx_frames import Frames
from rx_model import Settings
from simulation import RTL, simulate
from streams import Sink, Source

FOLDER = Path(__file__).parent
SECOND = 20000  # cycles, rx_half's CLOCK_HZ


def mask(register: dict[str, Any]) -> int:
    """Bits that a register has."""
    fields = register.get("fields")
    return sum((1 << bits) - 1 << low for low, bits, _ in fields.values()) if fields else 0xFFFFFFFF


async def pulse(dut: Any, name: str, value: int = 1, cycles: int = 1) -> None:
    await RisingEdge(dut.clk)
    getattr(dut, name).value = value
    await ClockCycles(dut.clk, cycles)
    getattr(dut, name).value = 0


@cocotb.test()
async def settings_hold_what_is_written_whatever_the_clocks(dut: Any) -> None:
    r = random.Random(random.getrandbits(32))
    bench = await Bench(dut).start(axi_ns=r.choice([1.0, 2.56, 4.0, 10.0, 23.0]))
    held = {}
    names = [n for n, x in REGISTERS.items() if x["access"] == "rw" and x.get("where") != "ext" and n != "bytes_ready"]
    assert len(names) >= 13
    for _ in range(120):
        name = r.choice(names)
        value, strobes = r.getrandbits(32), r.choice([15, 15, r.randrange(16)])
        await bench.axi.write_at(REGISTERS[name]["address"], value, strobes)
        bytes_ = sum(255 << 8 * n for n in range(4) if strobes >> n & 1)
        was = held[name] if name in held else 0
        if name not in held and strobes != 15:
            continue  # what was there before is another test's
        held[name] = was & ~bytes_ | value & bytes_
        if r.random() < 0.3:
            probe = r.choice(sorted(held))
            got = await bench.axi.read(probe)
            assert (got ^ held[probe]) & mask(REGISTERS[probe]) == 0, probe
    for name, value in held.items():
        assert (await bench.axi.read(name) ^ value) & mask(REGISTERS[name]) == 0, name
    if "phy_control" in held and "phy_control_high" in held:
        assert int(dut.phy_control.value) == held["phy_control_high"] << 32 | held["phy_control"]
    if "control" in held:
        assert (int(dut.udp_checksum.value), int(dut.soft_reset.value)) == (
            held["control"] >> 24 & 1,
            held["control"] >> 16 & 1,
        )


@cocotb.test()
async def constants_and_defaults(dut: Any) -> None:
    bench = await Bench(dut).start()
    read = bench.axi.read
    keep = len(dut.s_axis_tkeep)
    assert await read("core_type") == 0x01010104
    assert await read("buffer_sizes") == 8192 << 16 | 2048
    assert await read("word_lengths") == keep << 16 | keep
    assert await read("arp_size") == 256
    assert await read("ryle_version") == 0x52790001
    assert await read("netmask") == 0xFFFFFF00
    assert await read("port") == 0xFFFF0000
    assert await read("control") == 1 << 26 | 1 << 28 | 1 << 29  # ARP, ping and IGMP queries are answered
    assert (await read("tx_header"), await read("tx_vlan")) == (64, 0)
    for address in range(0x100, 0x200, 4):
        assert await bench.axi.read_at(address) == 0, "no lower half was read before"
    for address in (0xB4, 0xBC, 0x30C, 0x3FC, 0x40C, 0x4FC, 0x500, 0x900, 0xC000, 0xFFFC):
        assert await bench.axi.read_at(address) == 0
        await bench.axi.write_at(address, 0xFFFFFFFF)
        assert await bench.axi.read_at(address) == 0


@cocotb.test()
async def defect_1_phy_status_is_not_tied_to_zero(dut: Any) -> None:
    bench = await Bench(dut).start()
    value = random.getrandbits(64) | 1 << 63 | 1
    dut.phy_status.value = value
    await ClockCycles(dut.clk, 4)
    assert (await bench.axi.read("phy_status_high") << 32 | await bench.axi.read("phy_status")) == value


@cocotb.test()
async def defect_1_counters_are_not_tied_to_zero(dut: Any) -> None:
    """Every counter counts its event, and a reset zeroes every one."""
    bench = await Bench(dut).start()
    await bench.set(Settings(answer_ping=True, igmp=True))
    dut.echo_axis_tready.value = 0
    source = Source(dut, "s_axis", dut.clk)
    stopped = True
    sink = Sink(dut, "m_axis", dut.app_clk, pause=lambda: stopped, sideband=SIDEBAND)
    make = Frames(bench.settings, random.getrandbits(32))
    for kind in sorted(make.kinds):
        if kind != "too_long":
            case = make.kinds[kind](60)
            source.send(case.frame, bad=case.bad)
    for _ in range(9):
        source.send(make.kind_ping_options(20).frame)
    for _ in range(30):
        source.send(make.kind_ping(20).frame)
    for _ in range(300):
        source.send(make.kind_good(300).frame)
    for n, name in enumerate(("tx_overflow", "tx_almost_full", "tx_oversize")):
        await pulse(dut, name, 3, n + 1)  # both applications at once
    await pulse(dut, "tx_no_arp", 1, 4)
    await pulse(dut, "igmp_sent", 1, 7)
    await pulse(dut, "tx_held", 1, 8)
    dut.tx_bytes.value = 1500
    await pulse(dut, "tx_packet", 1, 5)
    await bench.settle(source, sink, 1)
    counters = await bench.axi.counters()
    for name in counters:
        assert counters[name] > 0, name
    exact = {"tx_overflow": 2, "tx_almost_full": 4, "tx_oversize": 6, "tx_no_arp": 4, "tx_packets": 5, "tx_bytes": 7500}
    exact |= {"igmp_sent": 7, "tx_held": 8, "echo_replies": 16}  # as many as wait
    assert {n: counters[n] for n in exact} == exact
    await bench.axi.write("counter_reset", 0)
    assert {n: c for n, c in (await bench.axi.counters()).items() if n in exact} == exact, "only a 1 resets"
    await bench.axi.write("counter_reset", 1)
    assert not any([await bench.axi.read_at(REGISTERS[name]["address"] + 0x100) for name in counters])
    assert not any((await bench.axi.counters()).values())
    stopped = False
    await bench.settle(source, sink, counters["rx_packets"])


@cocotb.test()
async def defect_1_bad_frames_are_counted(dut: Any) -> None:
    bench = await Bench(dut).start()
    await bench.set(Settings())
    source = Source(dut, "s_axis", dut.clk)
    make = Frames(bench.settings, random.getrandbits(32))
    marked, damaged = random.randrange(1, 20), random.randrange(1, 20)
    for _ in range(marked):
        source.send(make.kind_bad_fcs(50).frame, bad=True)
    for _ in range(damaged):
        source.send(make.kind_bad_udp_checksum(50).frame)
    source.send(make.kind_other_mac(50).frame)  # not for us, and nothing wrong with it
    await source.idle()
    await ClockCycles(dut.clk, 60)
    assert (await bench.axi.read("rx_bad_mac"), await bench.axi.read("rx_bad")) == (marked, marked + damaged)


@cocotb.test()
async def defect_1_rates_are_of_whole_seconds(dut: Any) -> None:
    bench = await Bench(dut).start()
    await bench.set(Settings())
    await bench.axi.write("counter_reset", 1)
    source = Source(dut, "s_axis", dut.clk)
    Sink(dut, "m_axis", dut.app_clk, sideband=SIDEBAND)
    make = Frames(bench.settings, 1)
    frame = make.kind_good(1000).frame
    beats = -(-len(frame) // len(dut.s_axis_tkeep))
    for _ in range(3 * SECOND // beats):
        source.send(frame)  # back to back
    dut.tx_bytes.value = 65535
    dut.tx_packet.value = 1
    await ClockCycles(dut.clk, SECOND - 400)
    assert await bench.axi.read("tx_packet_rate") == 0, "no second is over yet"
    await ClockCycles(dut.clk, SECOND + 800)
    assert await bench.axi.read("tx_packet_rate") == SECOND
    assert await bench.axi.read("tx_byte_rate") == SECOND * 65535
    packets = await bench.axi.read("rx_packet_rate")
    assert abs(packets - SECOND / beats) <= 1
    assert await bench.axi.read("rx_byte_rate") == packets * len(frame)
    dut.tx_packet.value = 0
    await ClockCycles(dut.clk, 2 * SECOND)
    assert await bench.axi.read("tx_packet_rate") == 0
    assert await bench.axi.read("tx_byte_rate") == 0
    assert await bench.axi.read("tx_packets") > 2 * SECOND - 1000, "totals stay"
    await source.idle()


@cocotb.test()
async def totals_have_64_bits_and_halves_of_one_moment(dut: Any) -> None:
    bench = await Bench(dut).start()
    await bench.axi.write("counter_reset", 1)
    dut.tx_bytes.value = 65535
    dut.tx_packet.value = 1
    seen = []
    while not seen or seen[-1] < 5 << 32:
        await ClockCycles(dut.clk, random.randrange(1, 4000))
        low = await bench.axi.read_at(REGISTERS["tx_bytes"]["address"])
        if random.random() < 0.5:  # whatever is read in between
            await bench.axi.read("tx_packets")
            await ClockCycles(dut.clk, random.randrange(1, 4000))
        seen.append(low | await bench.axi.read_at(REGISTERS["tx_bytes"]["address"] + 0x100) << 32)
        assert seen[-1] % 65535 == 0, "the halves are not of one moment"
    assert seen == sorted(seen)
    dut.tx_packet.value = 0
    await ClockCycles(dut.clk, 10)
    assert await bench.axi.read("tx_bytes") == 65535 * await bench.axi.read("tx_packets")
    await bench.axi.read_at(REGISTERS["tx_bytes"]["address"])
    await bench.axi.write("counter_reset", 1)
    assert await bench.axi.read_at(REGISTERS["tx_bytes"]["address"] + 0x100) == 0, "of a moment before the reset"


@cocotb.test()
async def the_extension_bus_is_reached_and_may_fail(dut: Any) -> None:
    bench = await Bench(dut).start()
    written: dict[int, int] = {}
    alive = True

    async def device() -> None:
        while True:
            await RisingEdge(dut.clk)
            wr, rd, address = int(dut.ext_wr.value), int(dut.ext_rd.value), int(dut.ext_addr.value)
            dut.ext_ack.value = 0
            if alive and (wr or rd):
                if wr:
                    written[address] = int(dut.ext_wdata.value)
                await ClockCycles(dut.clk, random.randrange(1, 9))
                dut.ext_rdata.value = written.get(address, address)
                dut.ext_ack.value = 1

    cocotb.start_soon(device())
    reached = [0x98, 0x9C, 0xA4, 0xB0, 0x200, 0x244, 0x2FC]
    for address in reached:
        assert await bench.axi.read_at(address) == address
        value = random.getrandbits(32)
        await bench.axi.write_at(address, value)
        assert await bench.axi.read_at(address) == value
    for address in (0x94, 0xB4, 0x1FC, 0x300, 0x1098, 0x4098, 0x8200):
        await bench.axi.read_at(address)
    assert sorted(written) == reached
    alive = False
    with pytest.raises(SlaveError):
        await bench.axi.read_at(0x200)
    with pytest.raises(SlaveError):
        await bench.axi.write_at(0x98, 1)
    alive = True
    assert await bench.axi.read_at(0x98) == written[0x98]


@cocotb.test()
async def the_cpu_transmit_window_writes_words_and_sends(dut: Any) -> None:
    bench = await Bench(dut).start()
    memory = [random.getrandbits(32) for _ in range(2048)]
    want = list(memory)
    sent = []

    async def buffer() -> None:
        while True:
            await RisingEdge(dut.clk)
            word = int(dut.cpu_tx_word.value)
            if int(dut.cpu_tx_write.value):
                memory[word] = int(dut.cpu_tx_write_data.value)
            dut.cpu_tx_read_data.value = memory[word]
            if int(dut.cpu_tx_send.value):
                sent.append(int(dut.cpu_tx_send_bytes.value))

    cocotb.start_soon(buffer())
    for _ in range(40):
        word, value, strobes = random.randrange(2048), random.getrandbits(32), random.choice([15, random.randrange(16)])
        lanes = sum(255 << 8 * n for n in range(4) if strobes >> n & 1)
        await bench.axi.write_at(0x4000 + 4 * word, value, strobes)
        want[word] = want[word] & ~lanes | value & lanes
        assert await bench.axi.read_at(0x4000 + 4 * word) == want[word]
    assert memory == want
    await bench.axi.write("bytes_ready", 60)
    dut.cpu_tx_busy.value = 1
    assert await bench.axi.read("bytes_ready") == 60
    await bench.axi.write("bytes_ready", 61)  # while busy: not sent
    dut.cpu_tx_busy.value = 0
    assert await bench.axi.read("bytes_ready") == 0
    await bench.axi.write("bytes_ready", 1514)
    assert sent == [60, 1514]


@cocotb.test()
async def sending_does_not_free_a_received_frame(dut: Any) -> None:
    bench = await Bench(dut).start()
    await bench.set(Settings())
    source = Source(dut, "s_axis", dut.clk)
    make = Frames(bench.settings, random.getrandbits(32))
    await bench.axi.write("bytes_ready", 0)  # there is nothing to free yet
    frames = [make.kind_ping(n).frame for n in (50, 70)]
    for f in frames:
        source.send(f)
    await source.idle()
    await ClockCycles(dut.clk, 40)
    await bench.axi.write("bytes_ready", 64)
    await bench.axi.write_at(0x28, 0, 0b0011)  # only the lower half
    assert await bench.axi.read("bytes_ready") == len(frames[0]) << 16
    assert [await bench.read_cpu_frame() for _ in frames] == frames


@cocotb.test()
async def axi_channels_may_come_in_any_order_and_wait(dut: Any) -> None:
    """Address before data, data before address, both ways at once, responses taken late."""
    bench = await Bench(dut).start()
    d, edge = dut, RisingEdge(dut.s_axi_aclk)
    value = 0
    for turn in range(60):
        new = random.getrandbits(32)
        lag = {n: random.randrange(12) for n in ("aw", "w", "ar", "b", "r")}
        read = random.random() < 0.7
        d.s_axi_awaddr.value = d.s_axi_araddr.value = REGISTERS["gateway"]["address"]
        d.s_axi_wdata.value, d.s_axi_wstrb.value = new, 15
        left = {"aw", "w", "b"} | ({"ar", "r"} if read else set())
        got = None
        for clock in range(400):
            for n in ("aw", "w", "ar"):
                getattr(d, f"s_axi_{n}valid").value = int(n in left and clock >= lag[n])
            for n in ("b", "r"):
                getattr(d, f"s_axi_{n}ready").value = int(n in left and clock >= 30 + lag[n])
            await ReadOnly()
            for n in sorted(left):
                if int(getattr(d, f"s_axi_{n}valid").value) and int(getattr(d, f"s_axi_{n}ready").value):
                    left.discard(n)
                    if n == "r":
                        got = int(d.s_axi_rdata.value)
            await edge
            if not left:
                break
        assert not left, (turn, left)
        for n in ("b", "r"):
            getattr(d, f"s_axi_{n}ready").value = 0
        assert got in ((value, new) if read else (None,))
        value = new
    assert await bench.axi.read("gateway") == value


def test_registers():
    simulate("rx_half", __file__, also=[FOLDER], WIDTH=64)


def test_addresses_are_those_of_the_register_map():
    text = (RTL / "regs_pkg.sv").read_text()
    ours = {name.lower(): int(value, 16) for name, value in re.findall(r"REG_(\w+)\s*=\s*16'h(\w+);", text)}
    assert ours == {n: r["address"] for n, r in REGISTERS.items() if r.get("where") != "ext"}
    memories = {name.lower(): int(value, 16) for name, value in re.findall(r"MEM_(\w+)\s*=\s*16'h(\w+);", text)}
    assert memories == {n: m["address"] for n, m in MEMORIES.items()}
    bits = {name.lower(): int(value) for name, value in re.findall(r"CONTROL_(\w+)\s*=\s*(\d+);", text)}
    assert bits == {n: low for n, (low, _, _) in REGISTERS["control"]["fields"].items()}
    ext = [r["address"] for r in REGISTERS.values() if r.get("where") == "ext"]
    assert all(0x98 <= a <= 0xB0 or 0x200 <= a < 0x300 for a in ext)
    counted = (RTL / "core_counters.sv").read_text()
    assert all(f"REG_{n.upper()}:" in counted for n in COUNTERS), "a counter of the map has no counter"
