"""Integrations by TCP: what comes is what was published, and nobody who listens badly holds anything up."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time

import numpy as np
import pytest

from ryle.chunk import Exposure, Integration
from ryle.products import publisher as module
from ryle.products.framing import MAGIC, PREAMBLE, StreamError, integration_header, preamble, read_frame
from ryle.products.listener import Listener
from ryle.products.publisher import Publisher

ABOUT = {"observation": {"source": "a.toml", "toml": ""}, "channels": [8, 6], "products": 3}


def pieces(rng, number, channels=(4, 2), products=3):
    made, first = [], 0
    for n, kind in zip(channels, (">i8", "<i8"), strict=True):
        sums = rng.integers(-(2**62), 2**62, (n, products, 2)).astype(kind)
        held = np.zeros((n, products + 1, 2), kind)  # as in a ring: not one behind the other
        held[:, :products] = sums
        counts = rng.integers(0, 100, (2, products)).astype(np.uint32)
        made.append(Integration(100 * number, 100, first, held[:, :products], counts, Exposure(90, 17)))
        first += n
    return made


def assert_same(found, sent):
    for f, s in zip(found, sent, strict=True):
        assert (f.first_spectrum, f.spectra, f.first_channel) == (s.first_spectrum, s.spectra, s.first_channel)
        assert f.exposure == s.exposure
        assert f.visibilities.dtype == s.visibilities.dtype and f.counts.dtype == np.uint32
        np.testing.assert_array_equal(f.visibilities, s.visibilities)
        np.testing.assert_array_equal(f.counts, s.counts)


def wait_for(what):
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_listeners_get_what_was_published(rng):
    sent = [pieces(rng, n) for n in range(6)]
    with Publisher("127.0.0.1", 0, ABOUT) as publisher:
        publisher.publish(1, sent[0])  # to nobody
        with Listener("127.0.0.1", publisher.port) as one, Listener("127.0.0.1", publisher.port) as two:
            assert {k: one.about[k] for k in ABOUT} == ABOUT
            got = [iter(one), iter(two)]
            for n, each in enumerate(sent[1:], 2):
                publisher.publish(n, each)
                for listener in got:
                    header, found = next(listener)
                    assert header["number"] == n and header["missed"] == 0
                    assert_same(found, each)
                wait_for(lambda: len(publisher._spare) == module.BUFFERS)
            threading.Thread(target=publisher.close).start()
            assert [list(listener) for listener in got] == [[], []]
    assert publisher.missed == 0


def test_who_does_not_listen_misses_whole_integrations_and_is_told(rng):
    """Too much for a socket's buffers: the quick one gets all, the slow one what was waiting for it, and no part of any."""
    sent = [pieces(rng, n, channels=(400, 600), products=1000) for n in range(8)]  # 16 MB
    with Publisher("127.0.0.1", 0, ABOUT) as publisher, Listener("127.0.0.1", publisher.port) as slow:
        with Listener("127.0.0.1", publisher.port) as quick:
            wait_for(lambda: publisher.listeners == 2)
            came = iter(quick)
            for n, each in enumerate(sent):
                wait_for(lambda: publisher._spare)  # what the quick one has taken is given back a moment later
                publisher.publish(n, each)
                assert_same(next(came)[1], each)
        assert 0 < publisher.missed < len(sent)
        threading.Thread(target=publisher.close).start()
        found = list(slow)
    numbers = [header["number"] for header, _ in found]
    assert numbers == sorted(set(numbers)) and len(numbers) + slow.missed == len(sent)
    assert slow.missed == publisher.missed
    for header, got in found:
        assert_same(got, sent[header["number"]])


def test_who_leaves_gives_back_what_it_held(rng):
    sent = pieces(rng, 1, channels=(400, 600), products=1000)
    with Publisher("127.0.0.1", 0, ABOUT) as publisher:
        for _ in range(3):
            with Listener("127.0.0.1", publisher.port):
                wait_for(lambda: publisher.listeners == 1)
                for n in range(4):
                    publisher.publish(n, sent)
            wait_for(lambda: publisher.listeners == 0 and len(publisher._spare) == module.BUFFERS)


def test_who_takes_nothing_is_left(rng, monkeypatch):
    monkeypatch.setattr(module, "_STALLED", 0.2)
    sent = pieces(rng, 1, channels=(400, 600), products=1000)
    with Publisher("127.0.0.1", 0, ABOUT) as publisher, Listener("127.0.0.1", publisher.port) as stuck:
        wait_for(lambda: publisher.listeners == 1)
        publisher.publish(1, sent)
        wait_for(lambda: publisher.listeners == 0)
        with pytest.raises(StreamError, match="within a frame"):
            list(stuck)


def test_bytes_are_as_the_reference_says(rng):
    """Read by hand, without this package's reader."""
    sent = pieces(rng, 7)
    header, arrays = integration_header(3, sent)
    data = preamble(header, sum(a.nbytes for a in arrays)) + b"".join(a.tobytes() for a in arrays)
    magic, said, payload = struct.unpack("<8sQQ", data[:24])
    assert (magic, (24 + said) % 8, 24 + said + payload) == (b"RYLEVIS1", 0, len(data))
    found = json.loads(data[24 : 24 + said])
    assert (found["kind"], found["number"], found["first_spectrum"], found["spectra"]) == ("integration", 3, 700, 100)
    at = 24 + said
    for listed, piece in zip(found["pieces"], sent, strict=True):
        for name, array in (("visibilities", piece.visibilities), ("counts", piece.counts)):
            assert listed[name] == {"dtype": array.dtype.str, "shape": list(array.shape)}
            assert data[at : at + array.nbytes] == array.tobytes()
            at += array.nbytes


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n......", "none of Ryle's"),
        (PREAMBLE.pack(b"RYLEVIS2", 0, 0), "version 2"),
        (PREAMBLE.pack(MAGIC, 1 << 40, 0), "nobody sends"),
        (PREAMBLE.pack(MAGIC, 8, 0)[:20], "within a frame"),
        (PREAMBLE.pack(MAGIC, 8, 0) + b"{}      ", "no JSON with a kind"),
        (PREAMBLE.pack(MAGIC, 8, 0) + b"{\xff     }", "no JSON with a kind"),
    ],
)
def test_what_is_no_stream_is_said(data, message):
    one, two = socket.socketpair()
    with one, two:
        one.sendall(data)
        one.shutdown(socket.SHUT_WR)
        with pytest.raises(StreamError, match=message):
            read_frame(two.recv_into)


@pytest.mark.parametrize(
    "change",
    [
        {"pieces": [{"first_channel": 0}]},
        {
            "pieces": [
                {"first_channel": 0} | {n: {"dtype": "<i8", "shape": [9, 9, 2]} for n in ("visibilities", "counts")}
            ]
        },
        {"pieces": [{"first_channel": 0} | {n: {"dtype": "O", "shape": [1]} for n in ("visibilities", "counts")}]},
        {"exposure": None},
    ],
)
def test_headers_that_lie_are_refused(rng, change):
    header, arrays = integration_header(3, pieces(rng, 7))
    payload = b"".join(a.tobytes() for a in arrays)
    one, two = socket.socketpair()
    with one, two:
        one.sendall(preamble(header | change, len(payload)) + payload)
        frame = read_frame(two.recv_into)
        with pytest.raises(StreamError, match="does not hold"):
            frame.pieces()


def test_nobody_there():
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
        with pytest.raises(OSError, match=r"\(output.stream\).*port that nobody has"):
            Publisher("127.0.0.1", port, ABOUT)
    with pytest.raises(StreamError, match=r"output\.stream"):
        Listener("127.0.0.1", port)
