# SPDX-License-Identifier: BSD-3-Clause
"""The simulated FPGA as a whole, from the host's side: registers by name, and its packets in the real receivers."""

import io
import os
import subprocess
import sys
import time

import pytest
from rich.console import Console

from ryle.fpga.demo import run
from ryle.fpga.generate import Generate, Stream
from ryle.fpga.pattern import counter_packet
from ryle.fpga.simulator import Network, SimulatedFpga
from ryle.fpga.transport import FpgaError
from ryle.receive.pcap import PcapFile

WIDTH = 64


@pytest.mark.timeout(900)
def test_real_receivers_take_every_packet_and_make_the_right_visibilities(tmp_path):
    said = io.StringIO()
    assert run(tmp_path, WIDTH, Console(file=said), packets=200, integrations=2), said.getvalue()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mac", ["cmac", pytest.param("dcmac", marks=pytest.mark.soak)])
def test_real_receivers_take_what_passes_a_board_s_mac(tmp_path, mac):
    """Through the board's adapter and the model of its MAC, ARP both ways too: what the adapter does wrong ends the simulation."""
    said = io.StringIO()
    assert run(tmp_path, None, Console(file=said), mac=mac, packets=200, integrations=2), said.getvalue()


TAP = """
import json, socket, subprocess, time
from ryle.fpga.generate import Generate, Stream
from ryle.fpga.pattern import counter_packet
from ryle.fpga.simulator import Network, SimulatedFpga

def ip(*words):
    subprocess.run(["ip", *words], check=True)

with SimulatedFpga(Network(tap="ryle0"), width=WIDTH, quiet=True) as fpga:
    ip("address", "add", "10.77.0.1/24", "dev", "ryle0")
    ip("link", "set", "ryle0", "mtu", "9000", "up")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s, fpga.core() as core:
        s.settimeout(60)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        s.bind(("10.77.0.1", 7148))
        core.set_addresses(mac="02:00:00:00:00:05", ip="10.77.0.5/24", gateway="10.77.0.1", port=4000)
        core.enable(udp_checksum=True)
        core.write("checker_enable.enable", 1)
        shown = subprocess.run(["ip", "-json", "link", "show", "ryle0"], check=True, capture_output=True).stdout
        assert core.resolve("10.77.0.1") == json.loads(shown)[0]["address"]
        core.start(Generate([Stream("10.77.0.1", 7148, sequence=5)], length=1500, packets=30, source_port=4000))
        for n in range(30):
            assert s.recvfrom(9000) == (counter_packet(5 + n, 1500), ("10.77.0.5", 4000))
        for n in range(20):  # the kernel asks for the core's address first, and the core answers by itself
            s.sendto(counter_packet(70 + n, 1000 + n), ("10.77.0.5", 4000))
        end = time.monotonic() + 60
        while core.read("checker_packets") < 20 and time.monotonic() < end:
            time.sleep(0.05)
        assert core.status().checker == dict(packets=20, bytes=20 * 1000 + 190, lost=0, late=0, wrong=0, short=0)
        print("the kernel and the core understand each other")
"""


@pytest.mark.timeout(600)
def test_kernel_at_the_other_end_of_the_line(tmp_path):
    if os.geteuid() or not os.path.exists("/dev/net/tun"):
        pytest.skip("a TAP interface in a network namespace of its own takes root and /dev/net/tun")
    (script := tmp_path / "tap.py").write_text(f"WIDTH = {WIDTH}\n{TAP}")
    done = subprocess.run(["unshare", "-n", sys.executable, str(script)], capture_output=True, text=True, timeout=500)
    assert "understand each other" in done.stdout, done.stdout + done.stderr


@pytest.fixture
def looped(tmp_path):
    with SimulatedFpga(Network(pcap=tmp_path / "sent.pcap", loopback=True), width=WIDTH, quiet=True) as fpga:
        with fpga.core() as core:
            core.set_addresses(
                mac="02:00:00:00:00:05", ip="10.0.0.5/24", gateway="10.0.0.1", port=4000, port_mask=0xFFF0
            )
            core.arp_set("10.0.0.5", "02:00:00:00:00:05")
            core.enable(udp_checksum=True)
            yield fpga, core, tmp_path / "sent.pcap"


def settled(core, name, value, seconds=20):
    end = time.monotonic() + seconds
    while core.read(name) != value and time.monotonic() < end:
        time.sleep(0.02)
    return core.read(name)


def test_checker_sees_every_packet_of_a_looped_line(looped):
    fpga, core, file = looped
    core.write("checker_enable.enable", 1)
    streams = [Stream("10.0.0.5", 4000 + n, sequence=1000 * n) for n in range(3)]
    assert core.start(Generate(streams, length=777, packets=50)) == 0
    core.wait(60)
    assert settled(core, "checker_packets", 150) == 150
    now = core.status()
    assert now.link == "up"
    assert now.checker == {"packets": 150, "bytes": 150 * 777, "lost": 0, "late": 0, "wrong": 0, "short": 0}
    assert now.counters["tx_packets"] == now.counters["rx_packets"] == 150
    assert now.counters["tx_bytes"] == 150 * (777 + 42)
    assert {n: v for n, v in now.counters.items() if "drop" in n or "bad" in n or "overflow" in n if v} == {}
    # A packet to a port that is not received is dropped, and counted as that.
    core.start(Generate([Stream("10.0.0.5", 5000)], length=100, packets=7))
    core.wait(60)
    assert settled(core, "drop_port", 7) == 7
    core.reset_counters()
    assert core.read("drop_port") == core.read("checker_packets") == core.read("tx_bytes") == 0
    fpga.close()
    sent = [bytes(d.payload) for d in PcapFile(file)]
    assert sent[:150] == [counter_packet(1000 * s + p, 777) for p in range(50) for s in range(3)]


def test_rate_is_what_was_asked_for(looped):
    fpga, core, _ = looped
    core.write("checker_enable.enable", 1)
    gbps = 0.004  # the line does 64 bits at 250 kHz: 0.016
    set_ = core.start(Generate([Stream("10.0.0.5", 4000)], length=1000, gbps=gbps))
    assert 0.99 * gbps < set_ <= gbps
    second = fpga.statistics()["clocks"]
    while fpga.statistics()["clocks"] < second + 600_000:  # two windows of a second and more
        time.sleep(0.05)
    packets, bits = core.read("tx_packet_rate"), core.read("tx_byte_rate") * 8
    assert abs(packets - set_ * 1e9 / 8000) <= 2
    assert abs(bits - packets * 1042 * 8) <= 2 * 1042 * 8
    core.set_rate(0)
    core.stop()


def test_arp_is_asked_for_and_who_does_not_answer_is_told(tmp_path):
    with SimulatedFpga(Network(), width=WIDTH, quiet=True) as fpga, fpga.core() as core:
        core.set_addresses(mac="02:00:00:00:00:05", ip="10.0.0.5/24", gateway="10.0.0.1")
        core.enable()
        far = "02:52:79:6c:65:01"
        assert core.arp_get("10.0.0.9") is None
        assert core.resolve("10.0.0.9") == core.arp_get("10.0.0.9") == far
        assert core.resolve("192.168.7.7") == core.arp_get("10.0.0.1") == far  # by the gateway
        assert core.resolve("239.1.2.3") == "01:00:5e:01:02:03"
        assert core.arp_table() == {"10.0.0.1": far, "10.0.0.9": far}
        core.arp_clear()
        assert core.arp_table() == {}
        with pytest.raises(FpgaError, match=r"the next hop to 10\.0\.0\.5, does not answer ARP"):
            core.resolve("10.0.0.5", seconds=0.1)  # nobody answers for our own address


def test_writing_a_register_that_cannot_be_written_is_an_error(looped):
    _, core, _ = looped
    with pytest.raises(FpgaError, match="tx_packets can only be read"):
        core.write("tx_packets", 1)
    for register in core.map.registers:
        if "r" in register.access:
            core.read(register.name)
