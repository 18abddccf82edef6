"""Packets of rows as they leave: read back from sockets, byte for byte."""

import socket
import threading
import time

import numpy as np
import pytest

from observations import observe_rows
from ryle.chunk import BLOCK
from ryle.receive.sockets import receive_socket
from ryle.send.rows import HEADER, RowSender
from ryle.wire.description import Format
from ryle.wire.packets import Parser


def spectra(rng, o, blocks, antennas):
    """Rows [block][antenna][channel][pol][128] and validity (input, spectrum): whole blocks of some inputs missing."""
    rows = rng.integers(-127, 128, (blocks, antennas, o.fengine.channels, o.pols, 2 * BLOCK), dtype=np.int8)
    valid = rng.random((antennas * o.pols, blocks, BLOCK)) < rng.choice(
        [0, 0, 0.7, 1, 1], (antennas * o.pols, blocks, 1)
    )
    return rows, valid.reshape(antennas * o.pols, blocks * BLOCK)


class Taker:
    """Takes what comes to each X-engine's endpoint until it is told to stop and nothing is left."""

    def __init__(self, o):
        self.sockets = [
            receive_socket(o.spectra_endpoint(s), "127.0.0.1", o.network.receive_buffer) for s in range(o.substreams)
        ]
        self.packets = [[] for _ in self.sockets]
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._take, args=a) for a in zip(self.sockets, self.packets, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def _take(self, s, packets):
        s.settimeout(0.05)
        while True:
            try:
                packets.append(s.recv(65536))
            except TimeoutError:
                if self._stop.is_set():
                    return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for s in self.sockets:
            s.close()


def words(valid, antennas, pols):
    """Validity (input, spectrum) as words [block][antenna][pol], bit by bit."""
    blocks = valid.shape[1] // BLOCK
    out = np.zeros((blocks, antennas, pols), np.uint64)
    for i, s in np.argwhere(valid):
        out[s // BLOCK, i // pols, i % pols] |= np.uint64(1) << np.uint64(s % BLOCK)
    return out


@pytest.mark.parametrize(
    "what",
    [
        {},
        {"pols": ["x"], "antennas": 5},
        {"packet": 1400},  # what fits an MTU of 1500
        {"packet": 1400, "pols": ["y"], "channels": 96, "sub": 24},
        {"channels": 30, "sub": 15, "packet": 2000},
        {"channels": 32, "sub": 32, "packet": 256},  # a channel a packet
        {"multicast": True},
        {"host": "[::1]"},
        {"packet": 60000, "channels": 256, "sub": 256},
    ],
    ids=str,
)
def test_every_packet_leaves_once(what, rng):
    o = observe_rows(**what)
    blocks, first = 3, int(rng.integers(1 << 40))
    antennas = list(range(len(o.antennas)))[1:]
    rows, valid = spectra(rng, o, blocks, len(antennas))
    with Taker(o) as taker, RowSender(o, antennas, rate=0) as sender:
        sender.send(rows, valid, first)
        counts = sender.counts
    expected, withheld = words(valid, len(antennas), o.pols), 0
    parser, per = Parser(Format.load("ryle_rows")), o.packet_channels
    wanted = [dict() for _ in range(o.substreams)]
    for b in range(blocks):
        for a, antenna in enumerate(antennas):
            for channel in range(0, o.fengine.channels, per):
                if not expected[b, a].any():
                    withheld += 1
                    continue
                slice_ = rows[b, a, channel : channel + per].tobytes()
                wanted[channel // o.substream_channels][antenna, first + b, channel] = slice_, expected[b, a]
    for packets, there in zip(taker.packets, wanted, strict=True):
        assert len(packets) == len(there)
        fields = parser.parse(packets) if packets else None
        for i, packet in enumerate(packets):
            assert fields.valid[i], fields.explain(i)
            at = tuple(int(fields.header[name][i]) for name in ("antenna", "block", "channel"))
            payload, valid_words = there.pop(at)
            assert packet[HEADER:] == payload and len(packet) <= o.network.packet_size + HEADER
            got = [int(fields.header[f"valid_{p}"][i]) for p in range(2)]
            assert got == [*map(int, valid_words), 0][:2]
            assert packet[40:HEADER] == bytes(24)
        assert not there
    sent = sum(map(len, taker.packets))
    assert (counts["packets"], counts["withheld"], sender.sent) == (sent, withheld, sent)
    assert counts["bytes"] == sum(len(p) for packets in taker.packets for p in packets)


def test_words_are_taken_as_they_are(rng):
    o = observe_rows(antennas=2)
    rows, valid = spectra(rng, o, 2, 2)
    with Taker(o) as one, RowSender(o, rate=0) as sender:
        sender.send(rows, valid, 7)
    with Taker(o) as other, RowSender(o, rate=0) as sender:
        sender.send(rows, words(valid, 2, o.pols), 7)
    assert [sorted(p) for p in one.packets] == [sorted(p) for p in other.packets]


def test_engines_begin_with_different_shares(rng):
    o = observe_rows(antennas=4, channels=64, sub=16)
    firsts = []
    for antenna in range(4):
        s = [receive_socket(o.spectra_endpoint(k), "127.0.0.1", 1 << 20) for k in range(4)]
        with RowSender(o, [antenna], rate=1.0) as sender:  # hours to the second packet
            rows, _ = spectra(rng, o, 1, 1)
            thread = threading.Thread(target=sender.send, args=(rows, np.ones((2, 64), bool), 0))
            thread.start()
            while sender.packets == 0:
                time.sleep(0.001)
            sender.stop()
            thread.join()
        for k, one in enumerate(s):
            one.setblocking(False)
            try:
                one.recv(65536)
                firsts.append(k)
            except BlockingIOError:
                pass
            one.close()
    assert firsts == [0, 1, 2, 3]


def test_a_rate_is_kept_and_can_be_stopped(rng):
    """No faster than the rate, but for 2 ms of it and a packet; how much slower is up to the machine."""
    o = observe_rows(antennas=2)
    rows, _ = spectra(rng, o, 8, 2)
    valid = np.ones((4, 8 * BLOCK), bool)
    total = o.fengine.channels // o.packet_channels * 16 * (HEADER + o.packet_channels * o.pols * 128)
    with Taker(o), RowSender(o, rate=total / 0.25) as sender:
        began = time.monotonic()
        sender.send(rows, valid, 0)
        took = time.monotonic() - began
        assert sender.counts["bytes"] == total
        assert took > 0.25 * (1 - 1 / sender.packets) - 0.003
        sender.rate = 1e3  # hours
        thread = threading.Thread(target=sender.send, args=(rows, valid, 8))
        thread.start()
        time.sleep(0.05)
        assert thread.is_alive()
        sender.stop()
        thread.join(60)
        assert not thread.is_alive()


def test_without_a_rate_receivers_are_waited_for(rng):
    o = observe_rows(antennas=2, channels=512, sub=512)
    rows, _ = spectra(rng, o, 4, 2)
    rows = np.repeat(rows, 8, axis=0)  # some 8 MiB, to a socket that is read late
    with (
        receive_socket(o.spectra_endpoint(0), "127.0.0.1", o.network.receive_buffer) as s,
        RowSender(o, rate=0) as sender,
    ):
        thread = threading.Thread(target=sender.send, args=(rows, np.ones((4, 32 * BLOCK), bool), 0))
        thread.start()
        while not sender.counts["waits"]:
            time.sleep(0.001)
        time.sleep(0.02)
        held = sender.packets
        time.sleep(0.1)
        assert thread.is_alive() and sender.packets == held  # it waits, and the socket holds what was sent
        filled = sender._native.fill(0)
        assert 64 << 10 < filled <= 256 << 10
        assert sender._native.fill(0, table=True) == filled
        got = 0
        s.settimeout(60)
        while got < 32 * 2 * 512 // o.packet_channels:
            s.recv(65536)
            got += 1
        thread.join(60)
        assert not thread.is_alive() and sender.packets == got
        assert sender._native.fill(0) == 0


def test_what_does_not_fit_is_refused(rng):
    o = observe_rows(antennas=2)
    rows, valid = spectra(rng, o, 2, 2)
    with RowSender(o, rate=0) as sender:
        for bad, message in (
            ((rows[:, :1], valid, 0), "this sender takes C-contiguous int8"),
            ((rows.view(np.uint8), valid, 0), "this sender takes"),
            ((rows[:, ::-1], valid, 0), "C-contiguous"),
            ((rows, valid[:, :64], 0), "valid has shape"),
            ((rows, np.zeros((2, 2), np.uint64), 0), "valid is uint64"),
            ((rows, valid, -1), "counted from sync"),
        ):
            with pytest.raises(ValueError, match=message):
                sender.send(*bad)
        with pytest.raises(ValueError, match="must not be negative"):
            sender.rate = -1.0
    with pytest.raises(ValueError, match="closed"):
        sender.send(rows, valid, 0)
    with pytest.raises(ValueError, match='needs "rows"'):
        RowSender(observe_rows(sends="meerkat"))


def test_the_kernels_refusal_is_told(rng):
    o = observe_rows(antennas=1)
    rows, _ = spectra(rng, o, 1, 1)
    sender = RowSender(o, rate=0)
    socket.close(sender._socket.detach())
    with pytest.raises(OSError, match="packets of rows cannot be sent"):
        sender.send(rows, np.ones((2, 64), bool), 0)
