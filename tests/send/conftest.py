"""Observations on free ports, and patience with machines that steal CPU time."""

import socket

import pytest

from ports import free_ports
from ryle.config import parse

FILE = """
[observation]
name = "net"
sync_time = "2026-03-20T20:00:00Z"
[array]
location = {{ latitude = "0 deg", longitude = "0 deg", height = "0 m" }}
polarizations = {pols}
antennas = [{antennas}]
[band]
sample_rate = "8 MHz"
[digitizer]
bits = 10
heap_samples = {heap_samples}
[fengine]
channels = {channels}
spectra_per_heap = {spectra}
sends = "meerkat"
output_bits = {bits}
[xengine]
integration = "{integration} s"
channels_per_substream = {sub}
[network]
digitizers = "{host}:{port}"
spectra = "{host2}:{port2}"
visibilities = "127.0.0.1:{port3}"
packet_size = "{packet} B"
receive_buffer = "{buffer} B"
{inputs}
"""


def _allowed_buffer(wanted):
    """The most socket buffer that this user gets, up to `wanted`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.setsockopt(socket.SOL_SOCKET, 33, wanted)  # SO_RCVBUFFORCE
        except PermissionError:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, wanted)
        return min(wanted, s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2)


@pytest.fixture
def observe():
    """Make an observation on free ports from a few numbers."""

    def make(
        antennas=3,
        pols=("x", "y"),
        channels=64,
        spectra=64,
        bits=8,
        sub=32,
        packet=8192,
        heap_samples=1024,
        integration=0.25,
        multicast=False,
        inputs="",
        host="127.0.0.1",
    ):
        names = ", ".join(f'{{ name = "A{a}", enu = ["{10 * a} m", "0 m", "0 m"] }}' for a in range(antennas))
        text = FILE.format(
            pols=list(pols),
            antennas=names,
            channels=channels,
            spectra=spectra,
            bits=bits,
            sub=sub,
            packet=packet,
            heap_samples=heap_samples,
            integration=integration,
            host="239.77.1.1" if multicast else host,
            host2="239.77.2.1" if multicast else host,
            port=free_ports(antennas),
            port2=free_ports(8),
            port3=free_ports(1),
            buffer=_allowed_buffer(16 << 20),
            inputs=inputs,
        )
        return parse(text, "test")

    return make
