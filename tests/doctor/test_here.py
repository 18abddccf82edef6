"""`ryle doctor` on this machine: in namespaces whose links are wrong on purpose, and as people type it."""

import json
import os
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from ryle.cli import app
from ryle.config import example, load
from ryle.doctor import Machine, Needs
from ryle.doctor.machine import network_interfaces
from ryle.doctor.measure import measured
from ryle.doctor.tree import Tree
from ryle.host_clock import kernel_clock
from tuned import build, machine

HERE, THERE = "10.79.0.1", "10.79.0.2"


@pytest.fixture
def link():
    """Two network namespaces and a link between them; give the names, and what runs a command in the first."""
    names = [f"ryle-doctor-{end}-{os.getpid()}" for end in "ab"]
    if subprocess.run(["ip", "netns", "add", names[0]], capture_output=True).returncode:
        pytest.skip("network namespaces need root and 'ip'")
    try:
        for line in (
            f"ip netns add {names[1]}",
            f"ip -n {names[0]} link add va mtu 1500 type veth peer name vb mtu 1500 netns {names[1]}",
            f"ip -n {names[0]} addr add {HERE}/24 dev va",
            f"ip -n {names[1]} addr add {THERE}/24 dev vb",
            f"ip -n {names[0]} link set va up",
            f"ip -n {names[1]} link set vb up",
            f"ip netns exec {names[0]} sysctl -qw net.ipv4.conf.va.rp_filter=1",
        ):
            subprocess.run(line.split(), check=True)
        yield names, ["ip", "netns", "exec", names[0]]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def observation(tmp_path):
    """Write the demo's, from digitizers in groups, with spectra to another host, by this link."""
    text = example("demo").read_text().replace('speed = "max"', "speed = 1.0")
    text += (
        f'\n[network]\ninterface = "{HERE}"\ndigitizers = "239.77.9.1:17100"\nspectra = "{THERE}:17600"\n'
        f'visibilities = "{HERE}:17900"\n'
    )
    (file := tmp_path / "linked.toml").write_text(text)
    return file


def doctor(inside, *arguments):
    """Run it in a namespace; give its status and what it printed."""
    ran = subprocess.run([*inside, sys.executable, "-m", "ryle", "doctor", *arguments], capture_output=True, text=True)
    assert ran.returncode in (0, 1), ran.stderr
    return ran.returncode, ran.stdout


def states(text):
    return {(f["key"], f["where"]): f["state"] for part in json.loads(text).values() for f in part}


def test_links_that_are_wrong_and_what_mends_them(link, tmp_path):
    names, inside = link
    file = observation(tmp_path)
    status, text = doctor(inside, str(file), "--json")
    assert status == 1
    before = states(text)
    assert before["mtu", "va"] == before["path", THERE] == "bad"
    assert before["rp-filter", "va"] == "poor"
    (tmp_path / "fix.sh").write_text(
        "\n".join(line for line in doctor(inside, str(file), "--fix")[1].splitlines() if line.startswith("ip link"))
    )
    subprocess.run([*inside, "sh", "-e", tmp_path / "fix.sh"], check=True)
    after = states(doctor(inside, str(file), "--json")[1])
    assert after["mtu", "va"] == "good"
    assert after["path", THERE] == "bad"  # the other end's is still what it was
    subprocess.run(f"ip -n {names[1]} link set vb mtu 9000".split(), check=True)
    subprocess.run(
        [*inside, "sysctl", "-qw", "net.ipv4.conf.va.rp_filter=2", "net.ipv4.conf.all.rp_filter=0"], check=True
    )
    subprocess.run(f"ip -n {names[0]} link set va down".split(), check=True)
    down = states(doctor(inside, str(file), "--json")[1])
    assert (down["link", "va"], down["path", THERE]) == ("bad", "unknown")
    subprocess.run(f"ip -n {names[0]} link set va up".split(), check=True)
    last = states(doctor(inside, str(file), "--json")[1])
    assert {last[key] for key in (("mtu", "va"), ("path", THERE), ("rp-filter", "va"))} == {"good"}


def test_this_machine_is_read():
    interfaces = {i.name: i for i in network_interfaces(Tree())}
    lo = interfaces["lo"]
    assert lo.loopback and lo.mtu > 1500
    with open("/sys/class/net/lo/mtu") as file:
        assert lo.mtu == int(file.read())
    assert set(interfaces) == set(os.listdir("/sys/class/net")) - {"bonding_masters"}
    assert kernel_clock().synchronized in (True, False)
    assert Machine().gpus[0] or Machine().gpus[1]


def run(*arguments):
    return CliRunner().invoke(app, ["doctor", *map(str, arguments)], env={"COLUMNS": "110"})


def test_what_people_see():
    plain = run()
    assert plain.exit_code in (0, 1)
    assert re.search(r"\d+ of \d+ are as they should be", plain.output)
    whole = run("--all").output
    assert len(whole) > len(plain.output)
    assert "✔ open-files" in plain.output
    told = json.loads(run("--json").output)
    assert {"Network stack", "Processors", "Memory", "Time"} <= set(told)
    for part in told.values():
        for finding in part:
            assert bool(finding["mends"]) == (finding["state"] in ("poor", "bad", "note")), finding


def test_engines_are_named_as_they_are_called():
    demo = example("demo")
    told = json.loads(run(demo, "--engine", "f1", "-e", "catcher0", "--json").output)
    assert told["Memory"]
    wrong = run(demo, "--engine", "f7")
    assert wrong.exit_code == 2
    assert "it has f0 to f1, x0 to x1, catcher0" in wrong.output.replace("\n", " ").replace("│ ", "").replace("  ", " ")
    assert run("--engine", "f0").exit_code == 2


def test_needs_of_engines_are_theirs():
    o = load(example("meerkat_extension"))
    one, all_ = Needs.of(o, [("f", 0)]), Needs.of(o)
    assert one.sockets == one.most_sockets == 16
    assert one.bits == pytest.approx(2 * 8 * 2.2e9, rel=0.5)
    assert all_.bits > 80 * one.bits
    assert all_.sockets > one.sockets
    assert one.datagram == 8316 and one.multicast and one.interface == "10.100.0.1"
    assert not one.shared_gpus and all_.shared_gpus
    demo = Needs.of(load(example("demo")))  # all within this machine
    assert (demo.bits, demo.datagram, demo.hosts, demo.gpus) == (0, 0, (), ())


def test_measured_effects_are_figures(tmp_path):
    build(tmp_path)
    said = []
    found = measured(machine(tmp_path, gpus=[]), Needs(socket_buffer=1 << 20), said.append)
    assert set(found) >= {"idle", "governor", "thp", "rmem"}
    assert len(said) == 5
    ratio = float(re.search(r": ([\d.]+) times", found["thp"])[1])
    assert ratio > 0
    held = int(re.search(r"holds (\d+) packets", found["rmem"])[1])
    assert 10 < held <= (2 << 20) // 8192
    assert float(re.search(r"at worst by ([\d.e+]+) ms", found["idle"])[1]) >= 0
