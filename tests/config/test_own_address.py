"""One observation file for all hosts: the network is named, and each host finds its own address in it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ryle.config import ConfigError, parse
from ryle.config.own_address import address_in

ASK = "import sys; from ryle.config.own_address import address_in; print(address_in(sys.argv[1]))"


@pytest.mark.parametrize(
    "network, own", [("127.0.0.0/8", "127.0.0.1"), ("127.0.0.1/32", "127.0.0.1"), ("::1/128", "::1")]
)
def test_the_address_in_a_network(network, own):
    assert address_in(network) == own


def test_a_network_of_others():
    with pytest.raises(
        ValueError, match=re.escape("198.51.100.0/24: this host has no address there; name the network")
    ):
        address_in("198.51.100.0/24")  # for documentation only: nobody has one


def test_each_host_finds_its_own():
    name = f"ryle-own-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode:
        pytest.skip("network namespaces need root and 'ip'")
    try:
        for line in (
            "link add card type veth peer name other",
            "addr add 10.88.1.2/24 dev other",
            "addr add 10.88.0.7/24 dev card",
            "link set card up",
            "link set other up",
        ):
            subprocess.run(["ip", "-n", name, *line.split()], check=True)
        inside = ["ip", "netns", "exec", name, sys.executable, "-c", ASK]
        for network, own in (("10.88.0.0/24", "10.88.0.7"), ("10.88.1.0/24", "10.88.1.2")):
            found = subprocess.run([*inside, network], capture_output=True, text=True)
            assert found.stdout.strip() == own, found.stderr
        assert subprocess.run([*inside, "10.99.0.0/24"], capture_output=True).returncode
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False)


def test_an_observation_names_an_address_or_a_network():
    text = (Path(__file__).parents[1] / "small.toml").read_text()

    def of(value):
        return parse(text + f'\n[network]\ninterface = "{value}"\n', "array.toml").network

    assert of("10.0.0.5").own_address == "10.0.0.5"
    assert of("127.0.0.0/8").interface == "127.0.0.0/8" and of("127.0.0.0/8").own_address == "127.0.0.1"
    for wrong in ("eth0", "10.0.0.5/24", "10.0.0.0/33", ""):
        with pytest.raises(ConfigError, match="or its network"):
            of(wrong)
