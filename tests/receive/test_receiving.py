"""Engines receive as the observation file says, and say what is wrong where they cannot."""

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dpdk_support import needs_dpdk
from ports import free_ports
from ryle.config import parse
from ryle.config.endpoints import Endpoint
from ryle.receive.receiving import make_source
from ryle.receive.sources import Discard

SMALL = (Path(__file__).parents[1] / "small.toml").read_text()


def observation(receive):
    return parse(f"{SMALL}\n[network]\nreceive = {receive}\n")


def may_capture():
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    except OSError:
        return False
    return True


needs_rings = pytest.mark.skipif(not may_capture(), reason="packet sockets need CAP_NET_RAW")

_ROUND = """
import socket, sys, time
from ryle.config import parse
from ryle.config.endpoints import Endpoint
from ryle.receive.receiving import make_source
from ryle.receive.sources import Discard

text, port = sys.argv[1], int(sys.argv[2])
sink, before = Discard(), time.time_ns()
ends = [Endpoint(host=f"239.77.1.{i}", port=port) for i in range(30)]
source = make_source(parse(text), "f", sink, ends, index=1)
source.start()
with socket.socket(type=socket.SOCK_DGRAM) as s:
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
    end = time.monotonic() + 30
    while sink.packets < 300:
        assert time.monotonic() < end, sink.packets
        for e in ends:
            s.sendto(bytes(1000), (e.host, e.port))
        time.sleep(0.01)
report, = source.reports()
source.stop()
assert source.join()
assert before <= sink.arrived[0] <= sink.arrived[1] <= time.time_ns(), sink.arrived
print(type(source).__name__, report.core)
"""


@pytest.mark.parametrize(
    ("receive", "kind"),
    [
        ('{ by = "udp", buffer = "1 MiB" }', "UdpSource 1"),
        pytest.param('{ by = "packet_ring", device = "lo", buffer = "4 MiB" }', "RingSource 1", marks=needs_rings),
        pytest.param(
            '{ by = "dpdk", device = "net_af_packet0,iface=lo", buffer = "1 MiB" }',
            "DpdkSource 1",
            marks=[needs_dpdk, needs_rings],
        ),
    ],
)
def test_packets_come_by_each_way(receive, kind):
    """From thirty groups, more than one socket may join, on the second engine's core."""
    text = f"{SMALL}\n[network]\nreceive = {receive}\n".replace("[fengine]", "[fengine]\ncores = [0, 1]")
    done = subprocess.run(
        [sys.executable, "-c", _ROUND, text, str(free_ports(1))], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip().splitlines()[-1:] == [kind], done.stderr


def test_too_many_threads_for_multicast():
    ends = [Endpoint(host=f"239.77.2.{i}", port=free_ports(1)) for i in range(2)]
    with pytest.raises(ValueError, match=r"receive\.threads = 3 for 2 multicast groups"):
        make_source(observation("{ threads = 3 }"), "x", Discard(), ends)


def test_no_such_interface():
    end = Endpoint(host="127.0.0.1", port=free_ports(1))
    with pytest.raises(ValueError, match=r'receive\.device = "nowhere0": .* there are .*lo'):
        make_source(observation('{ by = "packet_ring", device = "nowhere0" }'), "f", Discard(), [end])


@pytest.mark.skipif(shutil.which("setpriv") is None or not may_capture(), reason="needs setpriv and CAP_NET_RAW")
def test_no_right_to_packet_rings(tmp_path):
    """`ryle engine f` says which capability it lacks."""
    program = _ROUND.replace("source.start()", "raise SystemExit('it may')")
    text = f'{SMALL}\n[network]\nreceive = {{ by = "packet_ring", device = "lo" }}\n'
    command = ["setpriv", "--bounding-set=-net_raw", sys.executable, "-c", program, text, str(free_ports(1))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert 'receive.by = "packet_ring" needs CAP_NET_RAW' in done.stderr, done.stderr


def test_no_dpdk(monkeypatch):
    from ryle.receive.dpdk import environment

    monkeypatch.setattr(environment, "dpdk_problem", lambda: environment.INSTALL)
    end = Endpoint(host="127.0.0.1", port=free_ports(1))
    with pytest.raises(OSError, match=r'receive\.by = "dpdk": this Ryle was built without DPDK'):
        make_source(observation('{ by = "dpdk", device = "net_null0" }'), "f", Discard(), [end])


@needs_dpdk
def test_no_such_dpdk_device():
    program = _ROUND.replace('"f", sink', '"x", sink')
    text = f'{SMALL}\n[network]\nreceive = {{ by = "dpdk", device = "net_nothing0" }}\n'
    done = subprocess.run(
        [sys.executable, "-c", program, text, str(free_ports(1))], capture_output=True, text=True, timeout=120
    )
    assert 'receive.device = "net_nothing0"' in done.stderr, done.stderr
