"""Digitizer heaps: what is on the wire, what arrives in blocks of samples, and what every packet is counted as."""

import gc
import itertools
import os
import signal
import socket
import struct
import threading
import time

import numpy as np
import pytest

import spead2_oracle
from received import RecordedLink, samples
from ryle.chunk import SampleChunk
from ryle.config import changed
from ryle.config.endpoints import read_ranges
from ryle.config.simulation import FaultsTable
from ryle.receive.samples import SampleMap
from ryle.send.digitizer import DigitizerSender
from ryle.send.pacing import LocalQueues

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


def mapped(o, antennas=None, **kwargs):
    """Which packets an F-engine of some antennas gets, in blocks of 2 ms."""
    return SampleMap(o, range(len(o.antennas)) if antennas is None else antennas, 0, **kwargs)


def joined(blocks):
    """Timestamps [packet], presence and data [input][packet] of blocks that follow one another."""
    for a, b in itertools.pairwise(blocks):
        assert (b.epoch, b.start) == (a.epoch, a.start + a.span)  # within an epoch none is left out
    present = np.concatenate([b.present for b in blocks], axis=1) == 1
    data = np.concatenate([b.given[0] for b in blocks], axis=1)
    assert not data[~present].any()
    step = blocks[0].span // blocks[0].present.shape[1]
    return np.arange(present.shape[1]) * step + blocks[0].start, present, data


def assert_holds(blocks, sent):
    """Blocks hold what chunks sent, each packet in its place, and nothing else."""
    times, present, data = joined(blocks)
    wanted = np.zeros_like(present)
    for c in sent:
        first = int(np.flatnonzero(times == c.timestamp)[0])
        at = slice(first, first + c.data.shape[1])
        wanted[:, at] = c.present
        assert np.array_equal(data[:, at][c.present == 1], c.data[c.present == 1])
    assert np.array_equal(present, wanted)
    return present


def between(present):
    """Packets between each input's first and last that came."""
    return sum(int(np.ptp(np.flatnonzero(row))) + 1 for row in present)


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
    """Every packet in its place. Stop heaps are foreign: they end nothing."""

    def body():
        o = spread(observe(), ports(1)) if "spread" in how else observe(**how)
        with samples(o, mapped(o)) as r:
            sender = slow(o)
            sent = [chunk(rng, o, 8 * k, present=(rng.random((6, 8)) > 0.2).astype(np.uint8)) for k in (7, 8, 9, 10)]
            sent.append(chunk(rng, o, 88))
            for c in sent:
                sender.send(c, np.full((6, 8), 3))
            sender.end()
            r.settle(*o.digitizer_endpoints(range(3)))
        there = sum(int(c.present.sum()) for c in sent)
        present = assert_holds(r.blocks, sent)
        counts = r.counts()
        assert (counts.placed, sender.sent, sum(b.given[1] for b in r.blocks)) == (there, there, 3 * there)
        assert (counts.late, counts.duplicate, counts.malformed, counts.foreign) == (0, 0, 0, 6)
        assert (counts.datagrams, counts.expected) == (there + 6, between(present))

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


def test_every_class_of_the_account(observe, wire, steady):
    """One packet of each kind. Bytes behind a SPEAD payload make a packet malformed, as missing ones do."""

    def body():
        o = observe(antennas=1)
        size, n = o.digitizer_heap_bytes, o.digitizer.heap_samples
        end = o.digitizer_endpoints(0)[0]
        payload = bytes(range(256)) * (size // 256)
        with samples(o, mapped(o)) as r:
            good = [packet(s, t * n, payload, heap=100 + 2 * t + s) for t in range(160, 224) for s in (0, 1)]
            behind = good.pop(4)  # of stream 0 at 162
            others = [
                good[-1],  # duplicate
                good[-1],
                behind,  # late: its block closed when both streams were a block past its end
                packet(5, 210 * n, payload),  # foreign: no such stream
                packet(0, 210 * n, payload, control=0),  # foreign: stream control
            ]
            bad = {
                "off_step": [packet(0, 210 * n + 1, payload)],
                "heap": [
                    packet(0, 210 * n, payload[:-8]),  # a heap that cannot be
                    packet(0, 210 * n, payload, length=2 * size, heap=5),  # first part of a longer heap
                    packet(0, 210 * n, payload, length=1 << 39),
                ],
                "item": [packet(0, None, payload), packet(None, 210 * n, payload)],
                "jump": [packet(0, 1 << 45, payload)],  # wildly wrong time
                "short": [b"SP", b"", good[0][:4] + b"\xff\xff\xff\xff" + good[0][8:]],
                "field": [b"not SPEAD at all", bytes(2000)],
                "stated_length": [good[0][:-1], good[0] + b"\0"],
            }
            for d in [*good, *others, *(d for ds in bad.values() for d in ds)]:
                wire.sendto(d, (end.host, end.port))
            r.settle(end)
        times, present, data = joined(r.blocks)
        assert np.array_equal(times // n, np.arange(160, 224))
        assert np.argwhere(~present.astype(bool)).tolist() == [[0, 2]]
        assert (data[present.astype(bool)] == np.frombuffer(payload, np.uint8)).all()
        counts = r.counts()
        assert (counts.placed, counts.late, counts.duplicate, counts.foreign) == (127, 1, 2, 2)
        assert r.faults() == {fault: len(ds) for fault, ds in bad.items()}
        assert (counts.expected, counts.missing) == (128, 1)

    steady(body)


def test_blocks_lost_and_sender_restarted(observe, steady, rng):
    """Blocks of which nothing came are void, none is left out; another sender of the same streams goes on."""

    def body():
        o = observe()
        m = mapped(o, [1, 2])
        per = m.plan.packets
        with samples(o, m, [1, 2]) as r:
            sent = [chunk(rng, o, k * per, packets=per, inputs=4) for k in (2, 3, 8, 9)]
            ends = o.digitizer_endpoints([1, 2])
            for two in (sent[:2], sent[2:]):
                sender = slow(o, [1, 2])
                for c in two:
                    sender.send(c)
                r.settle(*ends)  # or one antenna's packets of the other sender may be read first
        assert_holds(r.blocks, sent)
        assert [b.void for b in r.blocks] == [k in (4, 5, 6, 7) for k in range(2, 10)]
        counts = r.counts()
        assert (counts.expected, counts.missing, counts.voids) == (4 * 8 * per, 4 * 4 * per, 4)

    steady(body)


@pytest.mark.parametrize("later", [100_000, -100_000])
def test_far_jump_is_believed_when_confirmed(observe, steady, rng, later):
    """Senders that come back at another time are followed, in a new epoch of which nothing is missing."""

    def body():
        o = observe(antennas=1)
        m = mapped(o)
        per = m.plan.packets
        with samples(o, m) as r:
            sender = slow(o)
            at = 400_000 // per * per
            before = chunk(rng, o, at, packets=2 * per, inputs=2)
            after = chunk(rng, o, at + later // per * per, packets=4 * per, inputs=2)
            sender.send(before)
            time.sleep(0.05)  # to come back takes longer than to forge a packet
            sender.send(after)
            r.settle(*o.digitizer_endpoints(0))
        counts = r.counts()
        assert [b.epoch for b in r.blocks] == [0, 0, 1, 1, 1, 1] and counts.resyncs == 1
        assert (counts.placed, counts.missing, counts.late, counts.malformed) == (12 * per, 0, 0, 0)
        assert_holds(r.blocks[:2], [before])
        assert_holds(r.blocks[2:], [after])

    steady(body)


def test_faulty_link(observe, ports, steady, rng):
    """Loss, duplication, disorder and corruption: every packet where it belongs and in the right class, as in spead2."""

    def body():
        o = observe(heap_samples=512)
        there = changed(o, network={"digitizers": o.network.digitizers.model_copy(update={"port": ports(3)})})
        faults = FaultsTable(
            loss=0.05, duplicate=0.05, reorder=0.2, reorder_distance=6, corrupt=0.05, seed=int(rng.integers(1 << 30))
        )
        routes = [(o.digitizer_endpoints(a)[0], there.digitizer_endpoints(a)[0]) for a in range(3)]
        sent = chunk(rng, o, 64, packets=256)
        with samples(there, mapped(there)) as r:
            with RecordedLink(routes, faults) as link:
                sender = slow(o, rate=8e6)
                sender.send(sent)
                sender.end()
            r.settle(*there.digitizer_endpoints(range(3)))
        counts, done = r.counts(), link.counts
        assert min(done[k] for k in ("lost", "corrupted", "duplicated", "delayed")) > 20
        gone = {(f.items[0x3101], f.items[0x1600]) for f in link.faults if f.kind in ("lost", "corrupted")}
        assert (counts.late, counts.foreign) == (0, 6)
        assert (counts.duplicate, counts.malformed) == (done["duplicated"], done["corrupted"])
        assert counts.placed == 6 * 256 - done["lost"] - done["corrupted"]
        times, present, data = joined(r.blocks)
        wanted = np.array([[(i, t) not in gone for t in times] for i in range(6)])
        wanted &= (times >= sent.timestamp) & (times < sent.timestamp + 256 * 512)
        assert np.array_equal(present, wanted) and counts.expected == between(present)
        oracle = spead2_oracle.digitizer_heaps(link.sent)
        assert oracle == {
            (int(i), int(times[p])): data[i, p].tobytes() for i, p in zip(*np.nonzero(present), strict=True)
        }
        assert all(oracle[i, t] == sent.data[i, (t - sent.timestamp) // 512].tobytes() for i, t in oracle)

    steady(body)


def test_late_beyond_the_window(observe, ports, steady, rng):
    """What comes when its block was given is late and changes nothing."""

    def body():
        o = observe(antennas=1)
        there = changed(o, network={"digitizers": o.network.digitizers.model_copy(update={"port": ports(1)})})
        faults = FaultsTable(reorder=0.1, reorder_distance=200, seed=int(rng.integers(1 << 30)))
        routes = [(o.digitizer_endpoints(0)[0], there.digitizer_endpoints(0)[0])]
        sent = chunk(rng, o, 0, packets=256, inputs=2)
        with samples(there, mapped(there)) as r:
            with RecordedLink(routes, faults) as link:
                slow(o, rate=8e6).send(sent)
            r.settle(there.digitizer_endpoints(0)[0])
        counts = r.counts()
        assert link.counts["delayed"] > 10 and counts.late > 0
        assert counts.datagrams == 512 == counts.placed + counts.late
        times, present, data = joined(r.blocks)
        assert times[0] == 0 and present.shape == (2, 256) and present.sum() == counts.placed
        assert np.array_equal(data[present], sent.data[present])
        assert counts.expected == counts.placed + counts.missing <= 512

    steady(body)


def test_blocks_are_on_loan(observe, steady, rng):
    """Blocks that are held are not written to, however much comes meanwhile; what finds no memory is counted, and void."""

    def body():
        o = observe(antennas=1)
        m = mapped(o)
        per, more = m.plan.packets, 6
        sent = chunk(rng, o, 0, packets=(m.plan.chunks + more) * per, inputs=2)
        r = samples(o, m)
        reader, entrance = r._reader, r.entrance
        entrance.start()
        slow(o).send(sent)
        r.settle(o.digitizer_endpoints(0)[0])
        entrance.stop()
        held = list(reader)
        counts = r.counts()
        assert [b.start for b in held] == [k * b.span for k, b in enumerate(held)]
        assert len(held) == m.plan.chunks + more
        for k, b in enumerate(held):
            there = k < m.plan.chunks
            assert (b.planes["present"] == there).all()
            assert np.array_equal(b.data, sent.data[:, k * per : (k + 1) * per] * there)
        assert (counts.ring_full, counts.missing, counts.placed) == (
            2 * more * per,
            2 * more * per,
            2 * per * m.plan.chunks,
        )
        for b in held:
            b.release()
        assert entrance.assembler.counts().free == m.plan.chunks

    steady(body)


def test_get_stop_and_close(observe, steady, rng):
    def body():
        o = observe(antennas=1)
        r = samples(o, mapped(o))
        reader, entrance = r._reader, r.entrance
        entrance.start()
        began = time.monotonic()
        assert reader.get(0.1) is None and not reader.ended
        assert time.monotonic() - began >= 0.1
        slow(o).send(chunk(rng, o, 5, packets=2, inputs=2))
        r.settle(o.digitizer_endpoints(0)[0])
        threading.Timer(0.2, entrance.stop).start()
        (got,) = list(reader)  # waits until stopped, then gives the block that was being filled
        assert got.start == 0
        assert got.planes["present"].nonzero()[1].tolist() == [5, 6] * 2
        assert reader.ended and reader.get(0) is None
        assert (r.counts().expected, r.counts().missing) == (4, 0)  # between the first and the last that came
        entrance.stop()
        entrance.close()
        del got, r, reader, entrance
        gc.collect()
        samples(o, mapped(o)).entrance.close()  # the ports are free again

    steady(body)


def test_stop_from_a_signal_handler(observe):
    o = observe(antennas=1)
    r = samples(o, mapped(o))
    r.entrance.start()
    before = signal.signal(signal.SIGALRM, lambda *_: r.entrance.stop())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        assert list(r._reader) == []
    finally:
        signal.signal(signal.SIGALRM, before)


def test_stop_heaps_of_one_digitizer_end_nothing(observe, steady, rng):
    def body():
        o = observe()
        with samples(o, mapped(o)) as r:
            slow(o, [0]).end()
            sender = slow(o)
            sent = chunk(rng, o, 8, packets=8)
            sender.send(sent)
            sender.end()
            r.settle(*o.digitizer_endpoints(range(3)))
            assert r.entrance.running
        assert_holds(r.blocks, [sent])
        assert r.counts().foreign == 2 + 6

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
    with samples(o, mapped(o)), pytest.raises(OSError, match=str(o.network.digitizers.port)):
        samples(o, mapped(o))


def test_nobody_listens(observe, rng):
    """Packets to a port that nobody has are lost, as on any network; the sender goes on."""
    o = observe(antennas=1)
    sender = slow(o)
    for k in range(3):
        sender.send(chunk(rng, o, 8 * k, inputs=2))
        time.sleep(0.02)  # for the ICMP message that says so
    sender.end()


def test_fuzzed_packets_harm_nothing(observe, wire, steady, rng):
    """Random bytes anywhere in a packet: no crash, the equations hold, and the good packets stay what they were."""

    def body():
        o = observe(antennas=1)
        e = o.digitizer_endpoints(0)[0]
        queues = LocalQueues([e])
        with samples(o, mapped(o)) as r:
            payload = bytes(range(256)) * 5
            good = [packet(s, t * 1024, payload, heap=2 * t + s) for t in range(64, 96) for s in (0, 1)]
            for g in good:
                wire.sendto(g, (e.host, e.port))
            for k in range(1500):
                bad = bytearray(good[k % len(good)])
                for at in rng.integers(0, 80, rng.integers(1, 4)):
                    bad[at] = rng.integers(256)
                wire.sendto(bad, (e.host, e.port))
                if k % 20 == 19:
                    queues.wait()
            r.settle(e)
        counts = r.counts()
        assert counts.datagrams == 64 + 1500 and counts.placed >= 64 and counts.malformed > 100
        held = {
            (i, b.start // 1024 + p): b.given[0][i, p] for b in r.blocks for i, p in np.argwhere(b.present).tolist()
        }
        assert all(held[i, t].tobytes() == payload for i in (0, 1) for t in range(64, 96))

    steady(body)


def test_full_speed_waits_for_the_entrance(observe, steady, rng):
    """At full speed nothing is lost: a slow reader holds the entrance up, and its full socket the sender."""

    def body():
        o = changed(observe(antennas=1), network={"receive_buffer": 256 << 10})
        m = mapped(o, waits=True, timed=False)
        sent = chunk(rng, o, 0, packets=64 * m.plan.packets, inputs=2)
        with samples(o, m, slow=0.01) as r:
            DigitizerSender(o, speed=0).send(sent)
            r.settle(o.digitizer_endpoints(0)[0])
        assert_holds(r.blocks, [sent])
        counts = r.counts()
        assert (counts.missing, counts.ring_full) == (0, 0) and counts.placed == sent.present.sum()

    steady(body)
