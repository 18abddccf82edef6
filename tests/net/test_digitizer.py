"""Digitizer heaps: what is on the wire, what arrives, and what every packet is counted as."""

import os
import signal
import socket
import struct
import threading
import time

import numpy as np
import pytest

from faulty_link import FaultyLink
from ryle.chunk import SampleChunk
from ryle.config import changed
from ryle.config.endpoints import read_ranges
from ryle.config.simulation import FaultsTable
from ryle.net.digitizer import DigitizerReceiver, DigitizerSender
from ryle.net.pacing import LocalQueues

RATE = 20e6


def chunk(rng, observation, first_packet, packets=8, inputs=6, present=None):
    data = rng.integers(0, 256, (inputs, packets, observation.digitizer_heap_bytes), dtype=np.uint8)
    present = np.ones((inputs, packets), np.uint8) if present is None else present
    n = observation.digitizer.heap_samples
    return SampleChunk(first_packet * n, data, present, n)


def slow(observation, antennas=None, rate=RATE):
    """A sender of so many bytes a second."""
    o = observation
    inputs = o.pols * len(o.antennas if antennas is None else antennas)
    real_time = inputs * float(o.sample_rate) / o.digitizer.heap_samples * (o.digitizer_heap_bytes + 72)
    return DigitizerSender(o, antennas, speed=rate / real_time)


def packet(stream, timestamp, payload, heap=0, length=None, status=0, control=None):
    """A digitizer packet put together by hand, as the MeerKAT packet definition has it."""
    items = [(1, heap), (2, len(payload) if length is None else length), (3, 0), (4, len(payload))]
    if control is not None:
        items.append((6, control))
    items += [(i, v) for i, v in ((0x1600, timestamp), (0x3101, stream), (0x3102, status)) if v is not None]
    header = struct.pack(">BBBBHH", 0x53, 4, 2, 6, 0, len(items) + 1)
    return (
        header
        + b"".join(struct.pack(">Q", 1 << 63 | i << 48 | v) for i, v in items)
        + struct.pack(">Q", 0x3300 << 48)
        + bytes(payload)
    )


@pytest.fixture
def wire():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        yield s


def assert_same(got, sent):
    assert got.timestamp == sent.timestamp
    assert np.array_equal(got.present, sent.present)
    assert np.array_equal(got.data[got.present == 1], sent.data[sent.present == 1])


def spread(o, ports):
    """Groups of its own for each input of the first antenna, five of its own for the second, unicast for the third."""
    a, b, c = o.antennas
    own = f"239.78.{os.getpid() % 256}"
    first = read_ranges([f"{own}.0+2:{ports}", f"{own}.8+7:{ports}"])
    a, b = (
        a.model_copy(update={"digitizers": first}),
        b.model_copy(update={"digitizers": read_ranges(f"{own}.16+4:{ports}")}),
    )
    return o.model_copy(update={"array": o.array.model_copy(update={"antennas": [a, b, c]})})


@pytest.mark.parametrize("how", [{}, {"multicast": True}, {"host": "[::1]"}, {"spread": True}], ids=str)
def test_round_trip(observe, steady, rng, how, ports):
    def body():
        o = spread(observe(), ports(1)) if "spread" in how else observe(**how)
        with DigitizerReceiver(o, chunk_packets=8, end_after=6) as r:
            sender = slow(o)
            sent = [chunk(rng, o, 8 * k, present=(rng.random((6, 8)) > 0.2).astype(np.uint8)) for k in (7, 8, 9, 10)]
            sent.append(chunk(rng, o, 88))
            for c in sent:
                sender.send(c, np.full((6, 8), 3))
            sender.end()
            got = list(r)
        account = r.account()
        assert len(got) == len(sent)
        for a, b in zip(got, sent, strict=True):
            assert_same(a, b)
        there = sum(int(c.present.sum()) for c in sent)
        assert (account.placed, sender.sent, r.saturated) == (there, there, 3 * there)
        assert (account.late, account.duplicate, account.malformed, account.foreign) == (0, 0, 0, 6)  # the stop heaps
        columns = np.concatenate([c.present.any(axis=0) for c in sent]).nonzero()[0]
        assert account.expected == 6 * (columns[-1] - columns[0] + 1) == account.placed + account.missing
        assert account.datagrams == there + 6
        assert account.balanced()

    steady(body)


def test_wire_is_meerkats(observe, rng):
    o = observe(
        antennas=1,
        inputs='[[inputs]]\nstream = 71\nantenna = "A0"\npolarization = "x"\n[[inputs]]\nstream = 70\n'
        'antenna = "A0"\npolarization = "y"\n',
    )
    e = o.digitizer_endpoints(0)[0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(60)
        s.bind((e.host, e.port))
        c = chunk(rng, o, 3, packets=2, inputs=2)
        slow(o).send(c, np.array([[0, 5], [70000, 0]]))
        got = [s.recv(65536) for _ in range(4)]
    order = [(0, 0, 71, 0), (1, 0, 70, 0xFFFF), (0, 1, 71, 5), (1, 1, 70, 0)]
    ids = [struct.unpack(">Q", g[8:16])[0] & (1 << 48) - 1 for g in got]
    assert len(set(ids)) == 4
    for g, heap, (i, p, stream, saturated) in zip(got, ids, order, strict=True):
        assert g == packet(stream, (3 + p) * 1024, c.data[i, p].tobytes(), heap, status=saturated << 32)


def test_every_class_of_the_account(observe, settled, wire, steady, rng):
    def body():
        o = observe(antennas=1)
        size, n = o.digitizer_heap_bytes, o.digitizer.heap_samples
        to = (o.digitizer_endpoints(0)[0].host, o.digitizer_endpoints(0)[0].port)
        payload = bytes(size)
        with DigitizerReceiver(o, chunk_packets=4, window=2) as r:
            good = [packet(s, t * n, payload, heap=100 + 2 * t + s) for t in range(40, 52) for s in (0, 1)]
            for d in good:
                wire.sendto(d, to)
            wire.sendto(good[-1], to)  # duplicate
            wire.sendto(good[-1], to)
            wire.sendto(packet(0, 43 * n, payload), to)  # late: chunk 10, open are 11 and 12
            wire.sendto(packet(5, 50 * n, payload), to)  # foreign: no such stream
            wire.sendto(packet(0, 50 * n, payload, control=0), to)  # foreign: stream control
            bad = [
                packet(0, 50 * n + 1, payload),  # timestamp between heaps
                packet(0, 50 * n, payload[:-8]),  # wrong length
                packet(0, 50 * n, payload, length=2 * size, heap=5),  # first part of a longer heap
                packet(0, None, payload),
                packet(None, 50 * n, payload),
                packet(0, (1 << 40) * n // 1024 * 1024, payload),  # wildly wrong time
                b"SP",
                b"not SPEAD at all",
                good[0][:-1],
                good[0] + b"\0",
                good[0][:4] + b"\xff\xff\xff\xff" + good[0][8:],
            ]
            for d in bad:
                wire.sendto(d, to)
            settled(r, *o.digitizer_endpoints(range(len(o.antennas))))
            r.stop()
            got = list(r)
        account = r.account()
        assert [c.timestamp for c in got] == [40 * n, 44 * n, 48 * n]
        assert all(c.present.all() for c in got)
        assert (account.placed, account.late, account.duplicate) == (24, 1, 2)
        assert (account.malformed, account.foreign) == (len(bad), 2)
        assert account.datagrams == 24 + 5 + len(bad)
        assert (account.expected, account.missing) == (24, 0)
        assert account.balanced()

    steady(body)


def test_whole_chunks_lost_and_sender_restarted(observe, settled, steady, rng):
    def body():
        o = observe()
        with DigitizerReceiver(o, antennas=[1, 2], chunk_packets=4, window=2) as r:
            sent = [chunk(rng, o, p, packets=4, inputs=4) for p in (8, 12, 32, 36)]
            sender = slow(o, [1, 2])
            for c in sent[:2]:
                sender.send(c)
            del sender
            ends = o.digitizer_endpoints(range(len(o.antennas)))
            settled(r, *ends)  # or one antenna's packets of the other sender may be read first
            sender = slow(o, [1, 2])
            for c in sent[2:]:
                sender.send(c)
            settled(r, *ends)
            r.stop()
            got = list(r)
        assert len(got) == 4
        for a, b in zip(got, sent, strict=True):
            assert_same(a, b)
        account = r.account()
        assert (account.expected, account.missing) == (4 * 32, 4 * 16)
        assert account.balanced()

    steady(body)


@pytest.mark.parametrize("later", [100_000, -100_000])
def test_far_jump_is_believed_when_confirmed(observe, settled, steady, rng, later):
    """A sender that comes back at another time is followed; single packets with such times are not."""

    def body():
        o = observe(antennas=1)
        with DigitizerReceiver(o, chunk_packets=4, window=2) as r:
            sender = slow(o)
            before = chunk(rng, o, 400_000, packets=8, inputs=2)
            after = chunk(rng, o, 400_000 + later, packets=16, inputs=2)
            sender.send(before)
            sender.send(after)
            settled(r, *o.digitizer_endpoints(range(len(o.antennas))))
            r.stop()
            got = list(r)
        account = r.account()
        assert [c.timestamp // 1024 - 400_000 for c in got] == [0, 4] + [later + k for k in (0, 4, 8, 12)]
        assert (account.malformed, account.late) == ((7, 0) if later > 0 else (0, 7))  # until the eighth that agrees
        assert account.placed == 2 * 24 - 7
        assert account.balanced()
        joined = np.concatenate([c.data for c in got[2:]], axis=1)
        there = np.concatenate([c.present for c in got[2:]], axis=1) == 1
        assert np.array_equal(joined[there], after.data[there])

    steady(body)


def test_faulty_link(observe, ports, steady, rng):
    """Loss, duplication, reordering and corruption: every packet where it belongs and in the right class."""

    def body():
        o = observe(heap_samples=512)
        there = changed(o, network={"digitizers": o.network.digitizers.model_copy(update={"port": ports(3)})})
        faults = FaultsTable(
            loss=0.05, duplicate=0.05, reorder=0.2, reorder_distance=6, corrupt=0.05, seed=int(rng.integers(1 << 30))
        )
        routes = [(o.digitizer_endpoints(a)[0], there.digitizer_endpoints(a)[0]) for a in range(3)]
        sent = chunk(rng, o, 64, packets=256)
        with DigitizerReceiver(there, chunk_packets=16, end_after=6) as r, FaultyLink(routes, faults) as link:
            sender = slow(o, rate=8e6)
            sender.send(sent)
            sender.end()
            got = list(r)
        account, counts = r.account(), link.counts
        assert min(counts[k] for k in ("lost", "corrupted", "duplicated", "delayed")) > 20
        gone = {(f.items[0x3101], f.items[0x1600]) for f in link.faults if f.kind in ("lost", "corrupted")}
        assert (account.late, account.foreign) == (0, 6)
        assert (account.duplicate, account.malformed) == (counts["duplicated"], counts["corrupted"])
        assert account.placed == 6 * 256 - counts["lost"] - counts["corrupted"]
        assert account.balanced()
        data = np.concatenate([c.data for c in got], axis=1)
        present = np.concatenate([c.present for c in got], axis=1)
        times = np.concatenate([c.timestamp + 512 * np.arange(16) for c in got])
        assert np.array_equal(times, sent.timestamp + 512 * np.arange(256))
        wanted = np.array([[(i, t) not in gone for t in times] for i in range(6)])
        assert np.array_equal(present == 1, wanted)
        assert np.array_equal(data[wanted], sent.data[wanted])

    steady(body)


def test_late_beyond_the_window(observe, ports, settled, steady, rng):
    def body():
        o = observe(antennas=1)
        there = changed(o, network={"digitizers": o.network.digitizers.model_copy(update={"port": ports(1)})})
        faults = FaultsTable(reorder=0.1, reorder_distance=200, seed=int(rng.integers(1 << 30)))
        routes = [(o.digitizer_endpoints(0)[0], there.digitizer_endpoints(0)[0])]
        sent = chunk(rng, o, 0, packets=256, inputs=2)
        with DigitizerReceiver(there, chunk_packets=4, window=2) as r, FaultyLink(routes, faults) as link:
            got = []
            taking = threading.Thread(target=lambda: got.extend(r))
            taking.start()
            slow(o, rate=8e6).send(sent)
            link.close()  # once it has passed on everything
            settled(r, there.digitizer_endpoints(0)[0])
            r.stop()
            taking.join(60)
        account = r.account()
        assert link.counts["delayed"] > 10 and account.late > 0
        assert account.datagrams == 512 == account.placed + account.late
        assert account.missing == account.expected - 512 + account.late
        assert account.balanced()
        for c in got:
            at = slice(c.timestamp // 1024, c.timestamp // 1024 + 4)
            assert np.array_equal(c.data[c.present == 1], sent.data[:, at][c.present == 1])

    steady(body)


def test_memory_is_on_loan(observe, steady, rng):
    """A chunk that is held is never written to, however much arrives meanwhile."""

    def body():
        o = observe(antennas=1)
        with DigitizerReceiver(o, chunk_packets=2, window=2, spare=3) as r:
            sender = slow(o)
            first = chunk(rng, o, 0, packets=2, inputs=2)
            sender.send(first)
            sender.send(chunk(rng, o, 2, packets=8, inputs=2))
            held = r.poll(60)
            part = held.data[1, :, 3:7]
            del held
            for k in range(20):
                sender.send(chunk(rng, o, 10 + 2 * k, packets=2, inputs=2))
                r.poll(0.05)
            assert np.array_equal(part, first.data[1, :, 3:7])

    steady(body)


def test_poll_stop_and_close(observe, settled, rng):
    o = observe(antennas=1)
    r = DigitizerReceiver(o, chunk_packets=4)
    began = time.monotonic()
    assert r.poll(0.1) is None and not r.ended
    assert time.monotonic() - began >= 0.1
    slow(o).send(chunk(rng, o, 5, packets=2, inputs=2))
    settled(r, o.digitizer_endpoints(0)[0])
    threading.Timer(0.2, r.stop).start()
    (got,) = list(r)  # blocks until stopped, then yields the chunk that was being filled
    assert got.timestamp == 4 * 1024
    assert got.present.tolist() == [[0, 1, 1, 0]] * 2
    assert r.ended and r.poll(0) is None
    assert (r.account().expected, r.account().missing) == (4, 0)  # between the first and the last that arrived
    r.stop()
    r.close()
    DigitizerReceiver(o).close()  # the ports are free again


def test_stop_from_a_signal_handler(observe):
    o = observe(antennas=1)
    with DigitizerReceiver(o) as r:
        before = signal.signal(signal.SIGALRM, lambda *_: r.stop())
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            assert list(r) == []
        finally:
            signal.signal(signal.SIGALRM, before)


def test_early_stop_of_one_digitizer_ends_nothing(observe, wire, steady, rng):
    def body():
        o = observe()
        with DigitizerReceiver(o, chunk_packets=4, end_after=6) as r:
            slow(o, [0]).end()
            sender = slow(o)
            sent = chunk(rng, o, 8, packets=8)
            sender.send(sent)
            got = [r.poll(0.5)]
            assert not r.ended
            sender.end()
            got = [c for c in (*got, *r) if c is not None]
        assert np.array_equal(np.concatenate([c.data for c in got], axis=1), sent.data)

    steady(body)


def test_bad_chunks_are_refused(observe, rng):
    o = observe()
    sender = slow(o)
    with pytest.raises(ValueError, match=r"4 inputs .* 6 inputs"):
        sender.send(chunk(rng, o, 0, inputs=4))
    c = chunk(rng, o, 0)
    c.timestamp = 5
    with pytest.raises(ValueError, match="timestamp 5 must be a multiple of 1024"):
        sender.send(c)


def test_port_taken(observe):
    o = observe(antennas=1)
    with DigitizerReceiver(o), pytest.raises(OSError, match=str(o.network.digitizers.port)):
        DigitizerReceiver(o)


def test_nobody_listens(observe, rng):
    """Packets to a port that nobody has are lost, as on any network; the sender goes on."""
    o = observe(antennas=1)
    sender = slow(o)
    for k in range(3):
        sender.send(chunk(rng, o, 8 * k, inputs=2))
        time.sleep(0.02)  # for the ICMP message that says so
    sender.end()


def test_fuzzed_packets_harm_nothing(observe, settled, wire, steady, rng):
    """Random bytes anywhere in a packet: no crash, the equations hold, and the good packets arrive."""

    def body():
        o = observe(antennas=1)
        e = o.digitizer_endpoints(0)[0]
        queues = LocalQueues([e])
        with DigitizerReceiver(o, chunk_packets=32, window=2) as r:
            good = [packet(s, t * 1024, bytes(1280), heap=2 * t + s) for t in range(64, 96) for s in (0, 1)]
            for g in good:
                wire.sendto(g, (e.host, e.port))
            for k in range(1500):
                bad = bytearray(good[k % len(good)])
                for at in rng.integers(0, 80, rng.integers(1, 4)):
                    bad[at] = rng.integers(256)
                wire.sendto(bad, (e.host, e.port))
                if k % 20 == 19:
                    queues.wait()
                    while r.poll(0) is not None:
                        pass
            settled(r, *o.digitizer_endpoints(range(len(o.antennas))))
            r.stop()
            for _ in r:
                pass
        account = r.account()
        assert account.datagrams == 64 + 1500
        assert account.placed >= 64 and account.balanced()

    steady(body)


def test_full_speed_waits_for_the_receiver(observe, steady, rng):
    """Without a rate of its own, a sender goes as fast as its receiver, here a slow one with a small socket buffer."""

    def body():
        o = changed(observe(antennas=1), network={"receive_buffer": 256 << 10})
        sent = chunk(rng, o, 0, packets=1024, inputs=2)
        with DigitizerReceiver(o, chunk_packets=64, window=2, spare=1, end_after=2) as r:
            sender = DigitizerSender(o, speed=0)
            sending = threading.Thread(target=lambda: (sender.send(sent), sender.end()))
            sending.start()
            got = []
            for c in r:
                got.append(c)
                time.sleep(0.02)
            sending.join()
        assert r.account().missing == 0 and r.account().placed == 2048
        assert np.array_equal(np.concatenate([c.data for c in got], axis=1), sent.data)

    steady(body)
