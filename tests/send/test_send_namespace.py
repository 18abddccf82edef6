"""A sender and its way out: an MTU that is too small, no route, a queue that is full; in a network namespace of its own."""

import json
import os
import subprocess
import sys

import pytest


@pytest.fixture
def namespace():
    """A network namespace with a veth pair of MTU 1500."""
    name = f"ryle-send-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True)
    if made.returncode:
        pytest.skip("network namespaces need root and 'ip'")
    try:
        for line in (
            "ip link add va type veth peer name vb",
            "ip addr add 10.77.0.1/24 dev va",
            "ip link set va up",
            "ip link set vb up",
            "ip link set lo up",
            "ip neigh add 10.77.0.2 lladdr 02:00:00:00:00:02 dev va",
        ):
            subprocess.run(["ip", "netns", "exec", name, *line.split()], check=True)
        yield ["ip", "netns", "exec", name]
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def test_packets_that_do_not_fit(namespace):
    """The error names the MTU to set; with it, packets go out; without a route the error names that."""

    def run(arguments):
        command = [*namespace, sys.executable, "-m", "ryle", "send", *arguments.split()]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    for plain in ("", " --plain"):
        done = run(f"counter_8192 --to 10.77.0.2:7000 --packets 10 --pps 1000 --quiet{plain}")
        assert done.returncode == 1 and "mtu 9000" in done.stderr and "8220" in done.stderr, done.stderr
    done = run("lwa_snap2 --size 1472 --to 10.77.0.2:7000 --packets 100 --pps 1000 --quiet --json -")
    assert done.returncode == 0 and json.loads(done.stdout)["pushed"] == 100, done.stderr
    for end in ("va", "vb"):
        subprocess.run([*namespace, "ip", "link", "set", end, "mtu", "9000"], check=True)
    before = int(_counter(namespace, "va"))
    done = run("counter_8192 --to 10.77.0.2:7000 --packets 500 --pps 2000 --quiet --json -")
    assert done.returncode == 0 and json.loads(done.stdout)["pushed"] == 500, done.stderr
    assert int(_counter(namespace, "va")) - before >= 500 * (8192 + 42)
    done = run("counter_8192 --to 10.99.0.2:7000 --packets 10 --quiet")
    assert done.returncode == 1 and "ip route get 10.99.0.2" in done.stderr


def test_a_way_that_is_full(namespace):
    """What a full queue refuses is sent again: nothing is lost, and the sender goes as fast as the way out."""
    for line in (
        "ip link set va mtu 9000",
        "ip link set vb mtu 9000",
        "tc qdisc replace dev va root tbf rate 400mbit burst 64kb limit 200kb",
    ):
        if subprocess.run([*namespace, *line.split()], capture_output=True).returncode:
            pytest.skip("the kernel has no tbf")
    before = int(_counter(namespace, "va", "tx_packets"))
    command = "send counter_8192 --to 10.77.0.2:7000 --packets 1000 --plain --quiet --json -"
    done = subprocess.run(
        [*namespace, sys.executable, "-m", "ryle", *command.split()], capture_output=True, text=True, timeout=60
    )
    summary = json.loads(done.stdout)
    assert summary["pushed"] == 1000 and summary["full"] > 0, done.stderr
    assert 1000 <= int(_counter(namespace, "va", "tx_packets")) - before < 1020  # and what IPv6 says by itself
    assert summary["payload_gbps"] < 0.5 and "was full" in done.stderr


def _counter(namespace, interface, name="tx_bytes"):
    path = f"/sys/class/net/{interface}/statistics/{name}"
    return subprocess.run([*namespace, "cat", path], capture_output=True, text=True, check=True).stdout
