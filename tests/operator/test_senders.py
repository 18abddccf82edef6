"""`receive.senders`: packets from elsewhere are foreign, and cost nobody anything, though they come first."""

import os
import signal
import socket

import h5py
import pytest

from x_heaps import PARTS, heap

TRUE, FORGED = "127.1.0.9", "127.0.0.66"


@pytest.fixture
def sending():
    """Send datagrams from an address."""
    sockets = {}

    def to(port, packets, host):
        if host not in sockets:
            sockets[host] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sockets[host].bind((host, 0))
        for packet in packets:
            sockets[host].sendto(packet, ("127.0.0.1", port))

    yield to
    for s in sockets.values():
        s.close()


WAYS = [
    "",
    pytest.param(
        'by = "packet_ring", device = "lo", buffer = "4 MiB", ',
        marks=pytest.mark.skipif(os.geteuid() != 0, reason="packet rings need CAP_NET_RAW"),
    ),
]


@pytest.mark.parametrize("way", WAYS, ids=["sockets", "packet ring"])
def test_forged_integrations(observation, ryle, sending, tmp_path, steady, way):
    """The same integrations from elsewhere, other values in them, each before the true one; and impossible ones."""

    def body():
        path, ports = observation(duration=60)
        output = tmp_path / f"{ports['visibilities']}"
        senders = f'receive = {{ {way}senders = ["127.1.0.0/16", "127.0.0.66:1"] }}\n'
        path.write_text(path.read_text().replace("[network]\n", "[network]\n" + senders))
        process = ryle("engine", "catcher", path, "--output", output)
        process.wait_ready()
        for index in range(5, 25):
            for substream in (0, 1):
                if index % 2:
                    sending(ports["visibilities"], heap(index, substream, 7), FORGED)
                sending(ports["visibilities"], heap(index, substream, 1), TRUE)
            sending(ports["visibilities"], [b"rubbish", next(heap(10**6 + index, 0, 7))], FORGED)
        process.wait_for(lambda p: any(s.get("integrations", 0) >= 19 for s in p.statuses), 60)
        process.signal(signal.SIGTERM)
        assert process.end(60) == 0, process.said
        account = process.statuses[-1]["account"]
        assert (account["placed"], account["missing"], account["malformed"]) == (40 * PARTS, 0, 0)
        assert account["foreign"] == 20 * PARTS + 40 and account["duplicate"] == 0
        with h5py.File(output / "small.uvh5") as file:
            assert int(file["Header/Ntimes"][()]) == 20 and not file["Data/flags"][...].any()
            values = abs(file["Data/visdata"][...])
        assert values.min() > 0 and values.max() == values.min()

    steady(body)


def test_check_says_who(observation, ryle):
    path, _ = observation(duration=60)
    senders = 'receive = { senders = ["10.1.0.0/16", "10.2.0.7:7148"] }\n'
    path.write_text(path.read_text().replace("[xengine]\n", "[xengine]\n" + senders))
    check = ryle("check", path)
    assert check.end(60) == 0
    said = " ".join(check.said.split())
    assert "to F-engines: anybody; to X-engines: 10.1.0.0/16, 10.2.0.7:7148; to catcher: anybody" in said
    assert "X-engines receive at 127.0.0.1, where only this host sends" in said
