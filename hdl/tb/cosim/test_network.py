# SPDX-License-Identifier: BSD-3-Clause
"""The simulated core at a port of a Linux bridge that snoops IGMP, and pings between it and the kernel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

WIDTH = 64

# A membership that nobody renews ends after 4 s; the bridge asks every second, and wants an answer within 0.2 s of simulated time.
BRIDGE = """
import json, shutil, socket, struct, subprocess, time
from ryle.fpga.protocols import checksum, join, leave, ping
from ryle.fpga.simulator import Network, SimulatedFpga

GROUP, EXPIRES = "239.1.2.3", 4.0

def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout

def waited(what, true, seconds):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{what}: not after {seconds} s"
        time.sleep(0.05)

with SimulatedFpga(Network(tap="ryle0"), width=WIDTH, quiet=True) as fpga, fpga.core() as core:
    run("ip", "link", "add", "br0", "type", "bridge", "mcast_snooping", "1", "mcast_querier", "1",
        "mcast_query_interval", "100", "mcast_query_response_interval", "20", "mcast_startup_query_interval", "100",
        "mcast_membership_interval", str(round(100 * EXPIRES)), "mcast_last_member_interval", "10")
    run("ip", "link", "add", "sender", "type", "veth", "peer", "name", "port")
    for name in ("port", "ryle0"):
        run("ip", "link", "set", name, "master", "br0")
    for name in ("br0", "port", "ryle0", "sender"):
        run("ip", "link", "set", name, "mtu", "9000", "up")
    run("ip", "address", "add", "10.77.0.1/24", "dev", "br0")
    run("ip", "address", "add", "10.78.0.9/24", "dev", "sender")
    core.set_addresses(mac="02:00:00:00:00:05", ip="10.77.0.5/24", gateway="10.77.0.1", port=7148)
    core.enable()
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("10.78.0.9"))

    def member():
        return any(e["grp"] == GROUP and e["port"] == "ryle0" for e in json.loads(run("bridge", "-json", "mdb"))[0]["mdb"])

    def delivered(packets=20):
        before, frames = core.read("rx_packets"), core.read("rx_frames")
        for _ in range(packets):
            out.sendto(bytes(100), (GROUP, 7148))
            time.sleep(0.01)
        end = time.monotonic() + 30
        while core.read("rx_packets") < before + packets and time.monotonic() < end and member():
            time.sleep(0.02)
        time.sleep(0.3)
        return core.read("rx_packets") - before, core.read("rx_frames") - frames

    time.sleep(1.5)  # the bridge is a querier now, and keeps groups from ports that did not ask for them
    assert delivered()[0] == 0 and not member()
    assert join(core, GROUP).joined
    waited("joining", member, 30)
    assert delivered()[0] == 20
    for version in ("2", "3"):
        run("ip", "link", "set", "br0", "type", "bridge", "mcast_igmp_version", version)
        asked, sent = core.read("igmp_queries"), core.read("igmp_sent")
        end = time.monotonic() + 1.3 * EXPIRES
        while time.monotonic() < end:
            assert member(), f"the bridge forgot the core (IGMP version {version})"
            time.sleep(0.1)
        assert delivered()[0] == 20, f"behind the time-out (IGMP version {version})"
        assert core.read("igmp_queries") >= asked + 2 and core.read("igmp_sent") >= sent + 2
    core.write("control.enable", 0)  # a core that does not answer is forgotten
    waited("forgetting", lambda: not member(), 30)
    # From now on nobody is forgotten in the time that is waited: who is no member has left.
    run("ip", "link", "set", "br0", "type", "bridge", "mcast_membership_interval", "30000")
    core.write("control.enable", 1)
    waited("joining again", member, 30)
    assert not leave(core).joined
    waited("leaving", lambda: not member(), 30)
    packets, frames = delivered()
    assert packets == 0 and frames < 10, "the bridge still sends it"
    print("the bridge kept delivering while it was to")

    sizes = (0, 1, 56, 1472, 8972)
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    raw.settimeout(5)
    for size in sizes:
        request = struct.pack("!BBHHH", 8, 0, 0, 77, size) + bytes(n & 255 for n in range(size))
        raw.sendto(request[:2] + checksum(request) + request[4:], ("10.77.0.5", 0))
        packet = raw.recv(10000)
        assert packet[20:22] == bytes(2) and packet[24:] == request[4:] and checksum(packet[20:]) == bytes(2)
    assert core.read("echo_replies") == len(sizes)
    if shutil.which("ping"):
        for size in ("56", "8972"):
            said = run("ping", "-n", "-c", "3", "-i", "0.2", "-W", "5", "-M", "do", "-s", size, "10.77.0.5")
            assert "3 received" in said, said
            print(said)
    assert [ping(core, "10.77.0.1", n, 56 * n, 5).milliseconds is not None for n in range(3)] == [True] * 3
    assert ping(core, "10.77.0.1", 1, 1900, 5).milliseconds is not None
    print("ping answers both ways")
"""


def refused() -> str:
    """Say what is missing for a bridge and a TAP in a network namespace of their own; empty if nothing is."""
    for program in ("unshare", "ip", "bridge"):
        if not shutil.which(program):
            return f"there is no program {program}"
    tries = "ip tuntap add dev tap0 mode tap; ip link add br0 type bridge mcast_snooping 1; ip link add port type veth"
    done = subprocess.run(["unshare", "-n", "sh", "-ec", tries], capture_output=True, text=True)
    return f"a bridge and a TAP in a network namespace: {done.stderr.strip()}" if done.returncode else ""


@pytest.mark.timeout(300)
def test_a_snooping_bridge_delivers_as_long_as_the_core_is_a_member_and_pings_are_answered(tmp_path):
    if os.geteuid() or (why := refused()):
        pytest.skip("it takes root" if os.geteuid() else why)
    (script := tmp_path / "bridge.py").write_text(f"WIDTH = {WIDTH}\n{BRIDGE}")
    done = subprocess.run(["unshare", "-n", sys.executable, str(script)], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kept delivering" in done.stdout and "both ways" in done.stdout
