"""Packets that come by DPDK are correlated as those that come by sockets: the same files."""

import os
import signal
import subprocess
import sys

import h5py
import numpy as np
import pytest

HERE = "10.79.0.1"
KEYS = ("Data/visdata", "Data/nsamples", "Data/flags", "Header/time_array", "Ryle/adc_histogram", "Ryle/adc_power")
PROBLEM = subprocess.run(
    [sys.executable, "-c", "from ryle.receive.dpdk import dpdk_problem; print(dpdk_problem() or '')"],
    capture_output=True,
    text=True,
    check=True,
).stdout.strip()
pytestmark = pytest.mark.skipif(bool(PROBLEM), reason=PROBLEM)

# Sends a capture's frames into shared memory when somebody takes them, a second of samples in a second.
SENDER = """
import sys, time
from ryle.receive import dpdk
from ryle.receive.pcap import PcapFile
dpdk.start(dpdk.DpdkConfig(huge_pages="no", memory=256 << 20))
pool = dpdk.Pool(2048)
device = dpdk.Device(f"net_memif0,role=client,id=0,socket-abstract=yes,socket=@{sys.argv[2]},bsize=10240", [pool])
device.begin()
while not device.up:
    time.sleep(0.01)
sent = began = 0
for datagram in PcapFile(sys.argv[1]):
    began = began or time.time_ns() - datagram.time
    time.sleep(max(0, datagram.time + began - time.time_ns()) * 1e-9)
    frame = dpdk.Path(target_port=datagram.port).frame(bytes(datagram.payload))
    while not device.send([frame], pool):
        time.sleep(0.001)
    sent += 1
time.sleep(1)
print(sent, flush=True)
"""


def engines(path, fengine="", network=""):
    """Let one F-engine and one X-engine do all; they or all receive so."""
    text = path.read_text().replace("taps = 4\n", f"taps = 4\nantennas_per_engine = 2\n{fengine}\n")
    path.write_text(text.replace("[network]\n", f"[network]\n{network}\n"))


def same(a, b):
    """Compare two files bit for bit."""
    with h5py.File(a) as one, h5py.File(b) as other:
        for key in KEYS:
            assert np.array_equal(one[key][...], other[key][...]), key
        assert one["Header/Ntimes"][()] > 10 and (one["Data/nsamples"][...] > 0).any()


@pytest.fixture
def cable():
    """A network namespace with a cable whose far end nobody but DPDK listens at; give what runs a command there."""
    name = f"ryle-dpdk-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode:
        pytest.skip("network namespaces need root and 'ip'")
    try:
        for line in (
            "link add here mtu 9000 type veth peer name there mtu 9000",
            "link set here gso_max_segs 1",  # a train of packets would arrive as one frame
            f"addr add {HERE}/24 dev here",
            *(f"link set {device} up" for device in ("lo", "here", "there")),
        ):
            subprocess.run(["ip", "-n", name, *line.split()], check=True)
        yield ["ip", "netns", "exec", name]
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


@pytest.mark.long
def test_a_run_by_af_packet_devices_is_one_by_sockets(cable, observation, ryle, tmp_path, steady):
    path, _ = observation(duration=1, sub=64)
    engines(path)
    run = ryle("run", path, "--output", tmp_path / "sockets")
    assert run.end() == 0, run.said

    def body():
        path, ports = observation(duration=1, sub=64, speed="0.5")
        engines(path, network='receive = { by = "dpdk", device = "net_af_packet0,iface=there", buffer = "16 MiB" }')
        text = path.read_text().replace("[network]\n", f'[network]\ninterface = "{HERE}"\n')
        for number, port in enumerate(ports.values()):
            text = text.replace(f"127.0.0.1:{port}", f"239.102.1.{8 * number}:{port}")
        path.write_text(text)
        out = tmp_path / "dpdk"
        run = ryle("run", path, "--output", out, "--overwrite", prefix=cable)
        assert run.end() == 0, run.said
        same(tmp_path / "sockets/small.uvh5", out / "small.uvh5")

    steady(body)


@pytest.mark.long
def test_an_engine_by_memif_and_correlating_the_capture_are_the_same(observation, ryle, tmp_path, steady):
    name = f"ryle-run-{os.getpid()}"
    path, _ = observation(duration=1, sub=64)
    device = f"net_memif0,role=server,id=0,socket-abstract=yes,socket=@{name}"
    engines(path, f'receive = {{ by = "dpdk", device = "{device}" }}')
    capture = tmp_path / "samples.pcap"
    for command in (
        ["simulate", path, "--pcap", capture],
        ["correlate", path, "--input", capture, "--output", tmp_path / "file"],
    ):
        process = ryle(*command)
        assert process.end() == 0, process.said

    def body():
        out = tmp_path / "dpdk"
        live = [ryle("engine", "f", path, "--live"), ryle("engine", "x", path, "--live")]
        live.append(ryle("engine", "catcher", path, "--live", "--output", out, "--overwrite"))
        for engine in live:
            engine.wait_ready()
        sender = subprocess.run(
            [sys.executable, "-c", SENDER, capture, name], capture_output=True, text=True, timeout=120, check=True
        )
        for engine in live:
            engine.signal(signal.SIGTERM)
            assert engine.end() == 0, engine.said
        assert live[0].statuses[-1]["account"]["placed"] == int(sender.stdout)
        same(tmp_path / "file/small.uvh5", out / "small.uvh5")

    steady(body)


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("nope0", ["nope0", "PCI address", "net_af_packet0,iface=eth1"]),
        ("net_af_packet0", ["net_af_packet0", "iface"]),
        ("net_af_packet0,iface=nope", ["nope", "no such network interface", "lo"]),
        ("0000:41:00.0", ["0000:41:00.0", "huge pages", "nr_hugepages"]),
    ],
)
def test_what_cannot_be_opened_is_said(device, words, observation, ryle, tmp_path):
    path, _ = observation()
    engines(path, network=f'receive = {{ by = "dpdk", device = "{device}" }}')
    process = ryle("engine", "catcher", path, "--output", tmp_path)
    assert process.end(60) == (1 if "huge pages" in words else 2)  # a machine without them is not asked wrongly
    error = "\n".join(process.errors)
    assert "Traceback" not in error and all(word in error for word in words), error
