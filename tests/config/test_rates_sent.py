"""The packets that `ryle check` announces are the packets that Ryle's senders send, byte for byte."""

import socket
from contextlib import ExitStack

import numpy as np
import pytest

from ports import free_ports
from ryle.chunk import Integration, SampleChunk
from ryle.config import changed, example, load, rates
from ryle.send.digitizer import DigitizerSender
from ryle.send.rows import RowSender
from ryle.send.samples import SampleSender
from ryle.send.spectra import SpectraSender
from ryle.send.visibilities import VisibilitySender


def listen(stack, port):
    """A socket of this machine with room for the whole test, so that nothing is lost before it is read."""
    heard = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    heard.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    heard.bind(("127.0.0.1", port))
    heard.settimeout(60)
    return heard


def datagrams(heard, count):
    return [len(heard.recv(65536)) for _ in range(count)]


@pytest.fixture
def observation():
    """Two antennas and one substream, each kind of endpoint at free ports of its own: one an antenna."""
    o = changed(load(example("vdif2")), digitizer={"bits": 10, "heap_samples": 4096}, network={"packet_size": 8192})
    with ExitStack() as stack:
        sockets = {name: listen(stack, free_ports(2)) for name in ("digitizers", "spectra", "visibilities")}
        ports = {name: f"127.0.0.1:{s.getsockname()[1]}" for name, s in sockets.items()}
        yield changed(o, network=ports), sockets


def link(o, name):
    return next(x for x in rates.links(o) if x.name == name)


def test_digitizer(observation):
    o, sockets = observation
    sender = DigitizerSender(o, [0], speed=0.01)
    sender.send(SampleChunk(0, np.zeros((2, 1, 5120), np.uint8), np.ones((2, 1), np.uint8), 4096))
    expected = link(o, "digitizer stream")
    assert datagrams(sockets["digitizers"], 2) == [expected.datagram - 28] * 2


def test_digitizer_of_another_format(observation):
    o, sockets = observation
    o = changed(o, digitizer={"packets": "alma_like", "bits": 8, "heap_samples": 8192}, simulate={"speed": 0.01})
    heads, ways = [o.digitizer_head(i) for i in (0, 1)], [o.input_endpoints(i) for i in (0, 1)]
    with SampleSender(o, o.digitizer_format, heads, ways, speed=0.01) as sender:
        sender.send(SampleChunk(0, np.zeros((2, 1, 8192), np.uint8), np.ones((2, 1), np.uint8), 8192))
    expected = link(o, "digitizer stream")
    assert datagrams(sockets["digitizers"], 2) == [expected.datagram - 28] * 2 == [8192 + 14] * 2


def test_rows(observation):
    o, sockets = observation
    assert o.fengine.sends == "rows"
    expected = link(o, "F-engine out")
    packets = expected.heap // expected.packet
    with RowSender(o, [0], rate=1e6) as sender:
        sender.send(np.zeros((1, 1, o.fengine.channels, o.pols, 128), np.int8), np.ones((o.pols, 64), bool), 0)
    assert datagrams(sockets["spectra"], packets) == [expected.datagram - 28] * packets


def test_heaps(observation):
    o, sockets = observation
    o = changed(o, fengine={"sends": "meerkat"})
    sender = SpectraSender(o, [0], rate=1e6)
    spectra = o.fengine.spectra_per_heap
    sender.send(np.zeros((1, 1, o.fengine.channels, spectra, o.pols, 2), np.int8), np.ones((o.pols, spectra), bool), 0)
    expected = link(o, "F-engine out")
    packets = expected.heap // expected.packet
    assert datagrams(sockets["spectra"], packets) == [expected.datagram - 28] * packets


def test_visibilities(observation):
    o, sockets = observation
    sender = VisibilitySender(o, 0, rate=1e6)
    sums = np.zeros((o.substream_channels, o.products, 2), np.int64)
    sender.send(Integration(0, o.integration_spectra, 0, sums, np.zeros((o.groups, o.products), np.uint32)))
    expected = link(o, "X-engine out")
    packets = -(-expected.heap // expected.packet)
    found = datagrams(sockets["visibilities"], packets)
    extra = rates.overhead(o, rates.VISIBILITY_ITEMS) - 28
    assert sum(found) == expected.heap + packets * extra
    assert max(found) == expected.datagram - 28
