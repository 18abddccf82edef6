# SPDX-License-Identifier: BSD-3-Clause
"""After power-up and one reset nothing that matters is unknown, in a simulator that starts with everything unknown."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import cocotb
import pytest
from cocotb.triggers import ClockCycles, RisingEdge, Timer
from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import ARP, Ether

CORE = Path(__file__).parents[1] / "ethernet_core"
sys.path.insert(0, str(CORE))

from test_ethernet_core import (  # noqa: E402
    ANSWER,
    CHECKSUM,
    ENABLE,
    OWN_IP,
    OWN_MAC,
    PEER,
    PEER_MAC,
    RESET,
    Bench,
    number,
    reset,
    udp,
)

from axil import REGISTERS, SlaveError  # noqa: E402
from four_state import simulate_four_state  # noqa: E402
from simulation import changed, parameter  # noqa: E402

INPUTS = """s_axis_tdata s_axis_tkeep s_axis_tvalid s_axis_tlast s_axis_tuser s_axis_dst_ip s_axis_dst_port s_axis_src_port
m_axis_tready mac_tx_axis_tready mac_rx_axis_tdata mac_rx_axis_tkeep mac_rx_axis_tvalid mac_rx_axis_tlast mac_rx_axis_tuser
phy_status s_axi_awaddr s_axi_awvalid s_axi_wdata s_axi_wstrb s_axi_wvalid s_axi_bready s_axi_araddr s_axi_arvalid s_axi_rready
ext_rdata ext_ack""".split()
HOST = 1 << 28 | 1 << 29  # pings and IGMP
KNOWN = """app_tx_rst app_rx_rst s_axis_tready m_axis_tvalid mac_tx_axis_tvalid s_axi_awready s_axi_wready s_axi_bvalid
s_axi_arready s_axi_rvalid ext_wr ext_rd phy_control""".split()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def one_reset_makes_all_known(dut):
    for name in INPUTS:
        getattr(dut, name).value = 0
    dut.rst.value, dut.s_axi_aresetn.value = 1, 0
    await Timer(1, unit="ns")  # resets are there before the first edge of a clock
    assert not dut.phy_control.value.is_resolvable, "a simulator that knows no X says nothing here"
    await reset(dut)

    async def watch():
        while True:
            await RisingEdge(dut.clk)
            unknown = [n for n in KNOWN if not getattr(dut, n).value.is_resolvable]
            assert not unknown, f"unknown: {unknown}"

    cocotb.start_soon(watch())
    bench = Bench(dut)
    r = bench.registers
    every = REGISTERS.items() if parameter("WIDTH") == 64 else []  # they have no width, and at 1024 bits take minutes
    for name, register in every:
        if register["access"] != "pulse":
            try:
                await r.read_at(register["address"])
                await r.read_at(register["address"] + 0x100)
            except SlaveError:
                assert register.get("where") == "ext", name
    await bench.configure(ENABLE | CHECKSUM | ANSWER | HOST)
    await bench.learn(PEER, PEER_MAC)
    for _ in range(2):
        for n in range(6):
            data = random.randbytes(random.choice([1, 60, 300, 900]))
            bench.send(n % 2, data, PEER)
            assert await bench.frame() == udp(data, PEER, PEER_MAC, checksum=True)
            bench.network_in.send(udp(data, OWN_IP, OWN_MAC, src=PEER, src_mac=PEER_MAC).ljust(60, b"\0"))
            assert (await bench.received.receive()).data == data
        request = Ether(dst="ff:ff:ff:ff:ff:ff", src=PEER_MAC) / ARP(op=1, hwsrc=PEER_MAC, psrc=PEER, pdst=OWN_IP)
        bench.network_in.send(bytes(request).ljust(60, b"\0"))
        assert Ether(await bench.frame())[ARP].op == 2
        ping = bytes(Ether(dst=OWN_MAC, src=PEER_MAC) / IP(src=PEER, dst=OWN_IP) / ICMP() / bytes(60))
        bench.network_in.send(ping)
        assert Ether(await bench.frame())[ICMP].type == 0
        await r.write("multicast_ip", number("239.1.2.3"))
        await r.write("multicast_mask", 0xFFFFFFFF)
        assert Ether(await bench.frame())[IP].dst == "239.1.2.3"
        await r.write("multicast_mask", 0)
        assert Ether(await bench.frame())[IP].dst == "224.0.0.2"
        await r.write("control", RESET | ENABLE)
        await r.write("control", ENABLE | CHECKSUM | ANSWER | HOST)
        await ClockCycles(dut.clk, 100)
    assert await r.read("tx_packets") == 20
    assert await r.read("rx_frames") == 16
    assert await r.read("clock_status") == 0


@pytest.mark.parametrize("width", [64, 1024])
def test_four_states(width):
    simulate_four_state("core_of_two", __file__, also=[CORE / "core_of_two.sv"], WIDTH=width, CLOCK_HZ=5000)


def test_a_reset_that_stays_unknown_is_found():
    broken = changed("reset_domains", "logic [1:0] state = RESET;", "logic [1:0] state;")
    with pytest.raises(AssertionError, match="failed: "):
        simulate_four_state(
            "core_of_two", __file__, also=[CORE / "core_of_two.sv"], changed=[broken], WIDTH=64, CLOCK_HZ=5000
        )
