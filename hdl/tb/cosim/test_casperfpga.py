# SPDX-License-Identifier: BSD-3-Clause
"""CASPER's drivers and a simulated core: the accesses of casperfpga.toml, by TAPCP over UDP as casperfpga makes them."""

import struct
import time
import tomllib
from pathlib import Path

import pytest

from ryle.fpga.addresses import ip_number, mac_number
from ryle.fpga.core import Core
from ryle.fpga.generate import Generate, Stream
from ryle.fpga.simulator import Network, SimulatedFpga
from ryle.fpga.tapcp import Tapcp
from ryle.fpga.tapcp_server import TapcpServer
from ryle.fpga.transport import Simulated

WIDTH = 64
CALLS = {c["name"]: c for c in tomllib.loads(Path(__file__).with_name("casperfpga.toml").read_text())["call"]}
MAC, IP, PORT = "02:00:00:00:00:05", "10.0.0.5", 4000
SETTINGS = {
    "mac": mac_number(MAC),
    "ip": ip_number(IP),
    "netmask": 0xFFFFFF00,
    "gateway": ip_number("10.0.0.1"),
    "port": PORT,
}
COUNTERS = "tx_packet_rate tx_packets tx_byte_rate tx_bytes tx_overflow tx_almost_full "
COUNTERS += "rx_packet_rate rx_packets rx_byte_rate rx_bytes rx_overflow rx_bad"


class Driver:
    """Does a call's accesses to the device "gbe", with the names of files that casperfpga uses."""

    def __init__(self, tapcp: Tapcp):
        self.tapcp = tapcp

    def read(self, offset: int, size: int) -> bytes:
        return self.tapcp.get(f"gbe.{offset // 4:x}.{size // 4:x}")

    def write(self, offset: int, payload: bytes) -> None:
        self.tapcp.put(f"gbe.{offset // 4:x}.0", payload)

    def call(self, name: str, **values: int | bytes) -> list[bytes]:
        """Do it; what its reads gave."""
        found = []
        for access in CALLS[name]["accesses"]:
            operation, where, size, *what = access.replace("write and read", "verified").split()
            base, _, factor = where.partition("+")
            offset = int(base, 0) + (8 * int(values["host"]) if factor == "8*host" else 0)
            given = values.get(what[0]) if what else None
            value = given if given is not None else int(what[0], 0) if what else 0
            if operation == "read":
                found.append(self.read(offset, int(size)))
            elif operation == "byte":
                n = int(size)
                word = int.from_bytes(self.read(offset, 4), "big") & ~(0xFF << 8 * n) | int(value) << 8 * n
                self.write(offset, word.to_bytes(4, "big"))
            else:
                payload = value if isinstance(value, bytes) else value.to_bytes(int(size), "big")
                assert len(payload) == int(size)
                self.write(offset, payload)
                assert operation == "write" or self.read(offset, len(payload)) == payload
        return found


@pytest.fixture(scope="module")
def looped():
    with SimulatedFpga(Network(loopback=True), width=WIDTH, quiet=True) as fpga:
        transport = Simulated(fpga.socket)
        with TapcpServer(transport, port=0, name="gbe") as server, fpga.core() as core:
            yield Driver(Tapcp("127.0.0.1", server.port, seconds=60)), core, server
        transport.close()


@pytest.fixture
def driver(looped):
    return looped[0]


@pytest.fixture
def core(looped):
    return looped[1]


def settled(core: Core, name: str, value: int, seconds: float = 60) -> int:
    end = time.monotonic() + seconds
    while core.read(name) != value and time.monotonic() < end:
        time.sleep(0.02)
    return core.read(name)


@pytest.mark.timeout(900)
def test_core_is_taken_for_one_of_the_unified_map(driver):
    cpu_tx, cpu_rx, revision, kind = struct.unpack("4B", driver.call("_check_memmap_compliance")[0])
    assert cpu_tx <= 1
    assert cpu_rx <= 1
    assert kind in {2, 4} & {3, 4}  # of the 10 and of the 40GbE driver
    assert revision == 1


@pytest.mark.timeout(900)
def test_configure_core_starts_packets(driver, core):
    core.write("control", 1 << 16)  # left in reset by somebody
    core.write("control", 1 << 26)
    driver.call("configure_core", **SETTINGS)
    assert (core.status().mac, core.status().ip, core.status().netmask) == (MAC, IP, "255.255.255.0")
    assert (core.read("gateway"), core.read("port.port")) == (SETTINGS["gateway"], PORT)
    assert (core.read("control.enable"), core.read("control.soft_reset"), core.read("control.promiscuous")) == (1, 0, 0)
    driver.call("set_single_arp_entry", host=5, mac=mac_number(MAC))
    driver.call("get_hw_gbe_stats(rst_counters=True)")
    core.write("checker_enable.enable", 1)
    core.write("checker_reset", 1)
    core.start(Generate([Stream(IP, PORT)], length=777, packets=40))
    core.wait(60)
    assert settled(core, "checker_packets", 40) == 40
    assert core.read("checker_wrong") == core.read("checker_lost") == 0

    got = dict(zip(COUNTERS.split(), (int.from_bytes(w, "big") for w in driver.call("get_hw_gbe_stats")), strict=True))
    assert (got["tx_packets"], got["rx_packets"]) == (40, 40)
    assert got["tx_bytes"] == got["rx_bytes"] == 40 * (777 + 42)
    assert got["tx_overflow"] == got["rx_overflow"] == got["rx_bad"] == 0
    driver.call("get_hw_gbe_stats(rst_counters=True)")
    assert all(int.from_bytes(w, "big") == 0 for w in driver.call("get_hw_gbe_stats")[1::2])

    driver.call("fabric_disable")
    core.start(Generate([Stream(IP, PORT)], length=100, packets=3))
    core.wait(60)
    assert core.read("tx_packets") == 0
    driver.call("fabric_enable")
    core.start(Generate([Stream(IP, PORT)], length=100, packets=3))
    core.wait(60)
    assert settled(core, "rx_packets", 3) == 3


@pytest.mark.timeout(900)
def test_core_answers_arp_after_a_driver_that_does_not_know_of_it(driver, core):
    driver.call("configure_core", **SETTINGS)
    core.write("control.cpu_ports", 1)
    driver.call("fabric_disable")
    driver.call("fabric_enable")
    assert core.read("control.cpu_ports") == core.read("control.answer_arp") == 1
    driver.call("get_hw_gbe_stats(rst_counters=True)")
    # A neighbour asks, and the answer to it comes round the loop, where it is to another's MAC address.
    asker, address = mac_number("06:00:00:00:00:77").to_bytes(6, "big"), ip_number("10.0.0.77")
    question = struct.pack("!HHBBH6sI6sI", 1, 0x0800, 6, 4, 1, asker, address, bytes(6), SETTINGS["ip"])
    core.send_frame(b"\xff" * 6 + asker + b"\x08\x06" + question)
    assert settled(core, "drop_mac", 1, seconds=10) == 1
    core.write("control.cpu_ports", 0)


@pytest.mark.timeout(900)
def test_what_was_set_is_read_back(driver):
    driver.call("configure_core", **SETTINGS)
    group = {"group": ip_number("239.1.2.0"), "group_mask": 0xFFFFFF00}
    driver.call("multicast", **group)
    ip, netmask, mac, gateway, port, control, *groups = (
        int.from_bytes(w, "big") for w in driver.call("get_gbe_core_details")
    )
    assert {"ip": ip, "netmask": netmask, "mac": mac, "gateway": gateway, "port": port} == SETTINGS
    assert control & 0xFF == 1
    assert groups == list(group.values())


@pytest.mark.timeout(900)
def test_groups_are_received(driver, core):
    driver.call("configure_core", **SETTINGS)
    driver.call("multicast", group=ip_number("239.1.2.0"), group_mask=0xFFFFFF00)
    driver.call("get_hw_gbe_stats(rst_counters=True)")
    core.start(Generate([Stream("239.1.2.77", PORT), Stream("239.1.3.77", PORT)], length=200, packets=5))
    core.wait(60)
    assert settled(core, "rx_packets", 5) == 5
    assert settled(core, "drop_mac", 5) == 5


@pytest.mark.timeout(900)
def test_arp_table_is_written_and_read_as_a_whole(driver, core):
    driver.call("configure_core", **SETTINGS)
    macs = [0x020000000000 | n << 8 | 0xA5 for n in range(256)]
    driver.call("set_arp_table", macs=struct.pack(">256Q", *macs))
    assert struct.unpack(">256Q", driver.call("get_arp_details")[0][:2048]) == tuple(macs)
    assert core.arp_get("10.0.0.200") == "02:00:00:00:c8:a5"
    driver.call("set_single_arp_entry", host=200, mac=mac_number("06:11:22:33:44:55"))
    assert core.arp_get("10.0.0.200") == "06:11:22:33:44:55"
    core.arp_clear()


@pytest.mark.timeout(900)
def test_core_by_name_through_udp(looped):
    _, core, server = looped
    with Core(f"tapcp:127.0.0.1:{server.port}/gbe") as far:
        far.set_addresses(mac=MAC, ip=f"{IP}/24", gateway="10.0.0.1", port=PORT)
        far.enable()
        far.arp_set(IP, MAC)
        far.reset_counters()
        far.start(Generate([Stream(IP, PORT, sequence=9)], length=500, packets=4))
        far.wait(60)
        assert settled(far, "rx_packets", 4) == 4
        assert far.status().counters == core.status().counters
