"""X-heaps: exact sums and counts through a socket, MeerKAT's export, incomplete heaps."""

import socket
import struct
import threading

import numpy as np
import pytest

from faulty_link import FaultyLink
from ryle.chunk import Integration
from ryle.config import changed
from ryle.config.simulation import FaultsTable
from ryle.net.visibilities import VisibilityReceiver, VisibilitySender, meerkat_values


def integration(rng, o, index, substream):
    sums = rng.integers(-(2**62), 2**62, (o.substream_channels, o.products, 2))
    counts = rng.integers(0, 2**32, (o.groups, o.products), dtype=np.uint32)
    first = substream * o.substream_channels
    return Integration(index * o.integration_spectra, o.integration_spectra, first, sums, counts)


def assert_same(got, sent):
    assert (got.first_spectrum, got.spectra, got.first_channel) == (
        sent.first_spectrum,
        sent.spectra,
        sent.first_channel,
    )
    assert got.visibilities.dtype == np.int64 and got.counts.dtype == np.uint32
    assert np.array_equal(got.visibilities, sent.visibilities)
    assert np.array_equal(got.counts, sent.counts)


def taking(receiver):
    got = []
    thread = threading.Thread(target=lambda: got.extend(receiver))
    thread.start()
    return got, thread


def test_round_trip(observe, steady, rng):
    def body():
        o = observe(antennas=8)
        sent = [integration(rng, o, k, s) for k in (5, 6, 9) for s in (0, 1)]
        with VisibilityReceiver(o, end_after=2) as r:
            got, thread = taking(r)
            senders = [VisibilitySender(o, s) for s in (0, 1)]
            for i in sent:
                senders[i.first_channel // 32].send(i)
            senders[0].send(sent[-2])  # once more
            for s in senders:
                s.end()
            thread.join(60)
        assert len(got) == len(sent)
        for a, b in zip(sorted(got, key=lambda i: (i.first_spectrum, i.first_channel)), sent, strict=True):
            assert_same(a, b)
        account = r.account()
        assert (account.placed, account.duplicate, account.foreign) == (6, 1, 2)
        assert (account.expected, account.missing) == (10, 4)
        assert account.balanced()

    steady(body)


def test_wire(observe, rng):
    o = observe(antennas=2, pols=["x"], channels=8, sub=4, spectra=8)
    i = integration(rng, o, 3, 1)
    for layout in ("native", "meerkat"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            e = o.network.visibilities
            s.bind((e.host, e.port))
            s.settimeout(60)
            VisibilitySender(o, 1, layout=layout).send(i)
            packet = s.recv(65536)
        if layout == "native":
            payload = i.visibilities.astype(">i8").tobytes() + i.counts.astype(">u4").tobytes()
            pointers = [(0x1600, 3 * o.integration_spectra * o.step), (0x4103, 4), (0x4104, o.integration_spectra)]
            arrays = [0x1801 << 48, 0x1802 << 48 | i.visibilities.nbytes]
        else:
            payload = meerkat_values(i).astype("<i4").tobytes()
            pointers = [(0x1600, 3 * o.integration_spectra * o.step), (0x4103, 4)]
            arrays = [0x1800 << 48]
        own = [(1, 1 + 2 * 3), (2, len(payload)), (3, 0), (4, len(payload))]
        words = [1 << 63 | n << 48 | v for n, v in own + pointers] + arrays
        assert packet == b"\x53\x04\x02\x06\0\0" + struct.pack(f">H{len(words)}Q", len(words), *words) + payload


def test_meerkat_values():
    most = 2**31 - 1
    sums = np.array([[[most + 1, -most - 1], [7, -8]], [[2**50, -(2**50)], [0, 0]]])
    counts = np.array([[3, 0], [4, 5]], np.uint32)
    i = Integration(0, 64, 0, sums, counts)
    assert meerkat_values(i).tolist() == [[[most, -most], [-(2**31), 1]], [[most, -most], [0, 0]]]


def test_lost_packets(observe, ports, steady, rng):
    def body():
        o = observe(antennas=8)
        there = changed(o, network={"visibilities": o.network.visibilities.model_copy(update={"port": ports(1)})})
        faults = FaultsTable(loss=0.04, duplicate=0.1, reorder=0.1, seed=int(rng.integers(1 << 30)))
        sent = [integration(rng, o, k, s) for k in range(30) for s in (0, 1)]
        link = FaultyLink([(o.network.visibilities, there.network.visibilities)], faults)
        with VisibilityReceiver(there, end_after=2) as r, link:
            got, thread = taking(r)
            senders = [VisibilitySender(o, s, rate=20e6) for s in (0, 1)]
            for i in sent:
                senders[i.first_channel // 32].send(i)
            for s in senders:
                s.end()
            thread.join(60)
        broken = {(f.items[0x1600] // o.step, f.items[0x4103]) for f in link.faults if f.kind == "lost"}
        assert 0 < len(broken) < 60
        wanted = [i for i in sent if (i.first_spectrum, i.first_channel) not in broken]
        assert len(got) == len(wanted)
        for a, b in zip(sorted(got, key=lambda i: (i.first_spectrum, i.first_channel)), wanted, strict=True):
            assert_same(a, b)
        account = r.account()
        assert account.placed == len(wanted) and account.balanced()
        assert r.incomplete >= len(broken)

    steady(body)


def test_poll_and_stop(observe):
    o = observe()
    with VisibilityReceiver(o) as r:
        assert r.poll(0.05) is None and not r.ended
        threading.Timer(0.1, r.stop).start()
        assert list(r) == []
        assert r.ended


def test_bad_arguments(observe, rng):
    o = observe()
    sender = VisibilitySender(o, 1)
    with pytest.raises(ValueError, match="this sender's are"):
        sender.send(integration(rng, o, 0, 0))
    with pytest.raises(ValueError, match="substream 2"):
        VisibilitySender(o, 2)
    with pytest.raises(ValueError, match='layout \'int16\' must be "native" or "meerkat"'):
        VisibilitySender(o, 0, layout="int16")
    with pytest.raises(ValueError, match="rate = -1"):
        VisibilitySender(o, 0, rate=-1)
