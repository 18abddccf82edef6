"""Links go down and come back: nobody spins meanwhile, and all go on."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

from x_heaps import PARTS, heap

HERE, THERE = "10.77.0.1", "10.77.0.2"
SEND = """
import socket, sys
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while size := sys.stdin.buffer.read(4):
    out.sendto(sys.stdin.buffer.read(int.from_bytes(size, "big")), (sys.argv[1], int(sys.argv[2])))
"""


@pytest.fixture
def link():
    """Two network namespaces and a link between them; give what runs a command in each."""
    names = [f"ryle-link-{end}-{os.getpid()}" for end in "ab"]
    if subprocess.run(["ip", "netns", "add", names[0]], capture_output=True).returncode:
        pytest.skip("network namespaces need root and 'ip'")
    try:
        here, there = ([*"ip netns exec".split(), name] for name in names)
        for line in (
            f"ip netns add {names[1]}",
            f"ip -n {names[0]} link add va mtu 9000 type veth peer name vb mtu 9000 netns {names[1]}",
            f"ip -n {names[0]} addr add {HERE}/24 dev va",
            f"ip -n {names[1]} addr add {THERE}/24 dev vb",
            f"ip -n {names[0]} link set va up",
            f"ip -n {names[1]} link set vb up",
            f"ip -n {names[0]} link set lo up",
        ):
            subprocess.run(line.split(), check=True)
        yield here, there
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def send(there, port, packets):
    framed = b"".join(len(p).to_bytes(4, "big") + p for p in packets)
    subprocess.run([*there, sys.executable, "-c", SEND, HERE, str(port)], input=framed, check=True)


def cpu(pid):
    """Seconds of processor time that a process has used."""
    with open(f"/proc/{pid}/stat") as f:
        words = f.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def interrupted(here, pid):
    """Let the link be down for 3 s; of the last 2 s the process must not have used more than it does otherwise."""

    def second():
        before = cpu(pid)
        time.sleep(2)
        return (cpu(pid) - before) / 2

    idle = second()
    subprocess.run([*here, *"ip link set va down".split()], check=True)
    try:
        time.sleep(1)
        down = second()
    finally:
        subprocess.run([*here, *"ip link set va up".split()], check=True)
    assert down < idle + 0.3, f"{down:.2f} s of CPU a second without a link, {idle:.2f} with it"
    yield


def counters(numbers):
    return [n.to_bytes(8, "big") + bytes(8184) for n in numbers]


@pytest.mark.long
def test_capture(link, ryle):
    here, there = link
    at = ("--at", f"{HERE}:8000", "--packet-ring", "va", "--warm-up", "0", "--json", "-")
    process = ryle("capture", "counter_8192", *at, prefix=here)

    def placed(p):
        found = [json.loads(line) for line in list(p.lines) if line.startswith("{")]
        return found[-1]["account"]["placed"] if found else -1

    process.wait_for(lambda p: placed(p) == 0)
    send(there, 8000, counters(range(20)))
    process.wait_for(lambda p: placed(p) == 20, 20)
    with interrupted(here, process.process.pid):
        send(there, 8000, counters(range(20, 50)))
        process.wait_for(lambda p: placed(p) == 50, 20)
    process.signal(signal.SIGTERM)
    assert process.end(30) == 0, process.said


@pytest.mark.long
def test_catcher(link, observation, ryle, tmp_path):
    here, there = link
    path, ports = observation(duration=60)
    receive = '[network]\nreceive = { by = "packet_ring", device = "va", buffer = "4 MiB" }\n'
    text = path.read_text().replace("[network]\n", receive)
    path.write_text(text.replace(f"127.0.0.1:{ports['visibilities']}", f"{HERE}:{ports['visibilities']}"))
    process = ryle("engine", "catcher", path, "--output", tmp_path, prefix=here)
    process.wait_ready()

    def integrations(numbers):
        send(there, ports["visibilities"], [p for n in numbers for s in (0, 1) for p in heap(n, s, 1)])

    def written(count):
        process.wait_for(lambda p: any(s.get("integrations", 0) >= count for s in p.statuses), 30)

    integrations(range(5, 10))
    written(5)
    with interrupted(here, process.process.pid):
        integrations(range(10, 15))
        written(10)
    process.signal(signal.SIGTERM)
    assert process.end(30) == 0, process.said
    account = process.statuses[-1]["account"]
    assert (account["placed"], account["missing"]) == (20 * PARTS, 0)
    with h5py.File(tmp_path / "small.uvh5") as file:
        assert int(file["Header/Ntimes"][()]) == 10 and not file["Data/flags"][...].any()


@pytest.mark.long
def test_run(observation, ryle, tmp_path, steady):
    """The link between all engines of a live run is down for two seconds, longer than any is waited for.

    When it is back no X-engine has its own time: integrations have the whole band, all through.
    """

    def body():
        name = f"ryle-link-lo-{os.getpid()}"
        if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode:
            pytest.skip("network namespaces need root and 'ip'")
        lo = ["ip", "-n", name, "link", "set", "lo"]
        try:
            subprocess.run([*lo, "up"], check=True)
            path, _ = observation(duration=4, spectra=3200, speed="0.3")
            process = ryle("run", path, "-o", tmp_path, "--overwrite", prefix=["ip", "netns", "exec", name])
            process.wait_for(lambda p: "F 1" in p.said or (tmp_path / "small.uvh5").exists())
            time.sleep(5)
            subprocess.run([*lo, "down"], check=True)
            time.sleep(2)
            subprocess.run([*lo, "up"], check=True)
            assert process.end(200) == 0, process.said
        finally:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        with h5py.File(tmp_path / "small.uvh5") as file:
            times, found = file["Header/time_array"][()], file["Data/nsamples"][()]
        heard = np.array([(found[times == t] > 0).any(axis=(0, 2)) for t in np.unique(times)])  # [integration][channel]
        assert len(heard) >= 12 and heard.all(), (heard.mean(axis=1), process.said)

    steady(body)
