"""F-heaps: what is on the wire, and the K-blocks that come of it, packets missing or not."""

import itertools
import socket
import struct
import time

import numpy as np
import pytest
import spead2
import spead2.send

import received
import spead2_oracle
from f_heaps import by_hand, by_packet, reference, rows_of, values, whole
from received import RecordedLink
from ryle.config import changed
from ryle.config.simulation import FaultsTable
from ryle.receive.heaps import HeapMap
from ryle.send.spectra import SpectraSender, packet_bytes
from ryle.wire import spead

RATE = 20e6


def joined(blocks):
    """K-blocks and their validity, of blocks that follow one another."""
    for a, b in itertools.pairwise(blocks):
        assert (b.epoch, b.start) == (a.epoch, a.start + a.span)
    chunks = [b.given for b in blocks]
    assert [c.first_block for c in chunks] == [chunks[0].first_block + k * c.blocks for k, c in enumerate(chunks)]
    return np.concatenate([rows_of(c) for c in chunks], axis=1), np.concatenate([c.valid for c in chunks], axis=1)


def receive(o, sending, first_heap, heaps, batches=1):
    """All substreams' blocks and receivers, while `sending` runs."""
    receivers = [received.spectra(o, HeapMap(o, s, batches), s) for s in range(o.substreams)]
    for r in receivers:
        r.__enter__()
    try:
        sending()
        for s, r in enumerate(receivers):
            r.settle(o.spectra_endpoint(s))
    finally:
        got = [r.stop() for r in receivers]
    for blocks in got:
        assert blocks[0].start == first_heap * o.fengine.spectra_per_heap * o.step
        assert sum(b.span for b in blocks) == heaps * o.fengine.spectra_per_heap * o.step
    return got, receivers


@pytest.mark.parametrize(
    "what",
    [
        {},
        {"pols": ["x"]},
        {"bits": 4},
        {"bits": 4, "pols": ["x"], "spectra": 8, "packet": 256, "heap_samples": 128},
        {"spectra": 24, "antennas": 2},
        {"spectra": 256, "packet": 4096},
        {"spectra": 96, "pols": ["y"], "antennas": 1},
        {"multicast": True},
        {"channels": 48, "sub": 48, "spectra": 8},
    ],
    ids=str,
)
def test_round_trip(observe, steady, rng, what):
    """K-blocks as sent, with and without tails; the stop heaps are foreign."""

    def body():
        o = observe(**what)
        spectra = o.fengine.spectra_per_heap
        heaps = 3 * o.batch_spectra // spectra
        data = values(rng, o, heaps)
        valid = np.ones((o.n_inputs, heaps * spectra), bool)
        valid[:, spectra * 1 : spectra * 2] = rng.random((o.n_inputs, spectra)) > 0.3  # a heap with a tail
        valid[:, spectra] = True  # of one without any that is valid nothing is sent
        valid[0, -1] = False
        sender = SpectraSender(o, rate=RATE)
        first_heap = 7 * o.batch_spectra // spectra

        def sending():
            half = heaps // 2
            at = half * spectra
            sender.send(data[:, :half], valid[:, :at], first_heap * spectra)
            sender.send(data[:, half:], valid[:, at:], first_heap * spectra + at)
            sender.end()

        got, receivers = receive(o, sending, first_heap, heaps)
        for s, blocks in enumerate(got):
            d, v = joined(blocks)
            wanted, words = reference(o, data, by_packet(o, valid, heaps), s)
            assert np.array_equal(v, words)
            assert np.array_equal(d, wanted)
            counts = receivers[s].counts()
            assert (counts.missing, counts.late, counts.duplicate, counts.malformed) == (0, 0, 0, 0)
            assert counts.foreign == len(o.antennas)
            assert counts.expected * o.substreams == sender.packets
        assert sender.flagged > 0

    steady(body)


@pytest.mark.parametrize("bits", [8, 4])
def test_wire_is_meerkats(observe, rng, bits):
    o = observe(bits=bits, packet=2048)
    assert o.groups > 1
    first_heap, spectra = 5, 64
    data = values(rng, o, 2, antennas=2)
    valid = np.ones((4, 128), bool)
    valid[2, 64 + 3] = False  # antenna 2, first polarization, second heap
    wanted = []
    for h in range(2):
        for s in range(2):
            for a in (0, 1):
                payload = data[a, h, 32 * s : 32 * s + 32].tobytes()
                tail = b"\xf7" + b"\xff" * 15 if (a, h) == (1, 1) else b""
                heap_id = a + 1 + 3 * (first_heap + h)
                packets = by_hand(heap_id, (first_heap + h) * 64 * 128, a + 1, 32 * s, payload, packet_bytes(o), tail)
                wanted.append((s, bool(tail) and h == 1, packets))
    sockets = []
    for s in range(2):
        sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        e = o.spectra_endpoint(s)
        sockets[-1].bind((e.host, e.port))
        sockets[-1].settimeout(60)
    sender = SpectraSender(o, antennas=[1, 2], rate=RATE)
    sender.send(data, valid, first_heap * spectra)
    for s, link in enumerate(sockets):
        packets = [p for sub, tail, ps in wanted if sub == s for p in ps]
        assert [link.recv(65536) for _ in packets] == packets
        link.setblocking(False)
        with pytest.raises(BlockingIOError):
            link.recv(65536)
        link.close()
    assert (sender.sent, sender.flagged, sender.withheld) == (8, 2, 0)


def test_nothing_valid_is_withheld(observe, steady, rng):
    """A heap without a valid spectrum is not sent: its packets are missing."""

    def body():
        o = observe(sub=64)
        data = values(rng, o, 4)
        valid = np.ones((6, 256), bool)
        valid[2:4, 64:128] = False  # all of antenna 1's second heap
        valid[0, 128:192] = False  # one polarization: still sent
        sender = SpectraSender(o, rate=RATE)
        got, (r,) = receive(o, lambda: sender.send(data, valid, 0), 0, 4)
        d, v = joined(got[0])
        wanted, words = reference(o, data, by_packet(o, valid, 4), 0)
        assert np.array_equal(v, words) and np.array_equal(d, wanted)
        assert sender.withheld == 1
        assert r.counts().missing == o.groups

    steady(body)


def test_nothing_of_an_earlier_block(observe, steady, rng):
    """Memory goes round several times; what does not come shows nothing of what stood there before, void blocks neither."""

    def body():
        o = observe(antennas=3, channels=32, sub=32)
        heaps = 2 * HeapMap(o, 0, 1).plan.chunks + 60
        data = values(rng, o, heaps)
        valid = np.ones((6, heaps * 64), bool)
        valid[:, 5::64] = False  # first every heap has a tail
        valid[:, 64 * (heaps // 2) :] = True
        silent = slice(heaps // 2, heaps - 10)
        valid[2:4, 64 * silent.start : 64 * silent.stop] = False  # then the second antenna is silent
        valid[:, 64 * (heaps - 20) : 64 * (heaps - 18)] = False  # and once all are
        sender = SpectraSender(o, rate=RATE)

        def sending():
            for h in range(heaps):
                sender.send(data[:, h : h + 1], valid[:, 64 * h : 64 * h + 64], 64 * h)

        got, (r,) = receive(o, sending, 0, heaps)
        d, v = joined(got[0])
        wanted, words = reference(o, data, by_packet(o, valid, heaps), 0)
        assert np.array_equal(v, words) and np.array_equal(d, wanted)
        assert [k for k, b in enumerate(got[0]) if b.void] == [heaps - 20, heaps - 19]
        counts = r.counts()
        quiet = silent.stop - silent.start
        assert counts.placed == sender.packets == 3 * (heaps // 2) + (3 * heaps - quiet - 4) * o.groups
        assert (counts.missing, counts.late) == ((quiet + 4) * o.groups, 0)

    steady(body)


def test_faulty_link(observe, ports, steady, rng):
    """A lost packet costs its channel group; a lost tail costs its heap; nothing else. spead2 finds the same whole heaps."""

    def body():
        o = observe(channels=128, sub=128, packet=2048)
        there = changed(o, network={"spectra": o.network.spectra.model_copy(update={"port": ports(1)})})
        heaps, antennas, first = 24, 3, 100
        data = values(rng, o, heaps)
        valid = np.ones((6, heaps * 64), bool)
        valid[:, 64 * 8 : 64 * 16] = rng.random((6, 64 * 8)) > 0.1
        faults = FaultsTable(
            loss=0.04, duplicate=0.05, reorder=0.1, reorder_distance=20, corrupt=0.05, seed=int(rng.integers(1 << 30))
        )
        sender = SpectraSender(o, rate=5e6)
        links = []

        def sending():
            with RecordedLink([(o.spectra_endpoint(0), there.spectra_endpoint(0))], faults) as link:
                links.append(link)
                sender.send(data, valid, 64 * first)
                sender.end()

        got, (r,) = receive(there, sending, first, heaps, batches=2)
        (link,) = links
        counts, done = r.counts(), link.counts
        assert min(done[k] for k in ("lost", "corrupted", "duplicated", "delayed")) > 5
        flagged = ~np.array(valid.reshape(antennas, 2, heaps, 64)).all(axis=(1, 3))
        here = np.ones((antennas, heaps, o.groups + 1), bool)
        here[~flagged, o.groups] = False
        for f in link.faults:
            if f.kind in ("lost", "corrupted"):
                a, h, group = f.items[0x4101], f.items[0x1600] // (256 * 64) - first, f.items[3] // packet_bytes(o)
                assert here[a, h, group]
                here[a, h, group] = False
        assert np.array_equal(np.concatenate([b.present for b in got[0]], axis=1) == 1, here)
        told = here[..., :-1] & (here[..., -1] | ~flagged)[..., None]
        d, v = joined(got[0])
        wanted, words = reference(o, data, by_packet(o, valid, heaps) & told[..., None, None], 0)
        assert np.array_equal(v, words)
        assert np.array_equal(d, wanted)
        # Every class is exact, also where heaps came in part.
        assert counts.placed == here.sum() == sender.packets - done["lost"] - done["corrupted"]
        assert (counts.malformed, counts.duplicate) == (done["corrupted"], done["duplicated"])
        assert (counts.late, counts.foreign) == (0, 3)
        # A heap is expected without a tail: nobody misses one that is lost.
        spans = [np.flatnonzero(row.any(axis=1)) for row in here]
        assert counts.missing == sum(
            int((~row[s[0] : s[-1] + 1, :-1]).sum()) for row, s in zip(here, spans, strict=True)
        )
        oracle = spead2_oracle.f_heaps(link.sent)
        complete = here[..., :-1].all(axis=2) & (here[..., -1] | ~flagged)
        assert set(oracle) == {(int(a), 0, (first + int(h)) * 64 * 256) for a, h in np.argwhere(complete)}
        for (a, _, timestamp), (raw, tail) in oracle.items():
            h = timestamp // (64 * 256) - first
            assert raw == data[a, h].tobytes()
            bits = np.packbits(valid[2 * a : 2 * a + 2, 64 * h : 64 * h + 64], axis=1, bitorder="little").tobytes()
            assert tail == (bits if flagged[a, h] else None)
            word = np.frombuffer(bits, "<u8")
            assert (v[:, h, 2 * a : 2 * a + 2] == word).all()

    steady(body)


def test_foreign_and_malformed_heaps(observe, steady, rng):
    """What is not a heap of this receiver, counted packet by packet; what spead2 would allocate for is not believed."""

    def body():
        o = observe(antennas=2, sub=64)
        assert o.groups > 1
        size, packet, n = o.spectra_heap_bytes, packet_bytes(o), o.groups
        payload = rng.bytes(size)
        e = o.spectra_endpoint(0)
        t = 64 * 128
        good = [p for h in range(10, 16) for a in (0, 1) for p in by_hand(h * 2 + a, h * t, a, 0, payload, packet)]
        foreign = by_hand(101, 15 * t, 2, 0, payload, packet) + by_hand(102, 15 * t, 0, 32, payload, packet)
        bad = {
            "off_step": by_hand(103, 15 * t + 1, 0, 0, payload, packet),
            "heap": by_hand(104, 15 * t, 0, 0, payload[:-8], packet) + huge(good[0]),
            "part": by_hand(105, 15 * t, 0, 0, payload, packet // 2),  # cut otherwise
            "item": [without(p, 0xC101) for p in good[-n:]],
            "stated_length": [good[-1] + b"\0", good[-1][:-1]],
        }
        late = by_hand(106, 10 * t, 0, 0, payload, packet)

        def sending():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                for p in [*good, *foreign, *(p for ps in bad.values() for p in ps), *late, *good[-n:]]:
                    s.sendto(p, (e.host, e.port))

        got, (r,) = receive(o, sending, 10, 6)
        d, v = joined(got[0])
        assert len(got[0]) == 6 and (v == 2**64 - 1).all()
        wanted, _ = reference(o, np.frombuffer(payload * 12, np.int8).reshape(2, 6, 64, 64, 2, 2), whole(o, 6), 0)
        assert np.array_equal(d, wanted)
        assert r.faults() == {fault: len(ps) for fault, ps in bad.items()}
        counts = r.counts()
        assert (counts.placed, counts.foreign, counts.late, counts.duplicate) == (12 * n, 2 * n, n, n)
        assert counts.missing == 0

    steady(body)


def huge(packet):
    """Copies of a packet that claim heaps of 2^39 and of 2^48 - 1 bytes."""
    at = packet.index(b"\x80\x02")
    return [packet[:at] + struct.pack(">Q", 0x8002 << 48 | n) + packet[at + 8 :] for n in (1 << 39, (1 << 48) - 1)]


def without(packet, key):
    """A packet without one of its items."""
    items = struct.unpack_from(">H", packet, 6)[0]
    kept = [w for w in (packet[8 + 8 * i : 16 + 8 * i] for i in range(items)) if int.from_bytes(w[:2], "big") != key]
    return packet[:6] + struct.pack(">H", len(kept)) + b"".join(kept) + packet[8 + 8 * items :]


def test_a_sender_that_does_not_repeat_items_is_told_what_to_do(observe, steady, rng, capsys):
    """Its packets are malformed but for the first of a heap; that is said once, and the others' data are whole."""

    def body():
        o = observe(antennas=2, sub=64, packet=2048)
        e, heaps = o.spectra_endpoint(0), 8
        data, valid = values(rng, o, heaps), np.ones((2, heaps * 64), bool)
        sender = SpectraSender(o, antennas=[0], rate=RATE)
        other = spead2.send.UdpStream(
            spead2.ThreadPool(), [(e.host, e.port)], spead2.send.StreamConfig(max_packet_size=2048, rate=RATE)
        )

        def sending():
            sender.send(data[:1], valid, 0)
            for h in range(heaps):
                numbers = [(spead.TIMESTAMP, h * 64 * 128), (spead.FENG_ID, 1), (spead.FREQUENCY, 0)]
                items = [spead.immediate(name, np.array(value, ">u8")) for name, value in numbers]
                heap = spead.heap([*items, spead.array(spead.FENG_RAW, data[1, h])])
                heap.repeat_pointers = False
                other.send_heap(heap)

        capsys.readouterr()
        got, (r,) = receive(o, sending, 0, heaps)
        d, v = joined(got[0])
        wanted, _ = reference(o, data, whole(o, heaps), 0)
        assert (v[..., :2] == 2**64 - 1).all() and np.array_equal(d[:, :, :2], wanted[:, :, :2])
        assert r.faults()["item"] >= 8 * (o.groups - 1) and r.counts().lacking == "timestamp"
        told = (
            "without item 0x9600, timestamp: the sender puts it into the first packet of a heap only; with spead2, set "
        )
        assert told + "heap.repeat_pointers = True" in r.entrance.advice
        assert capsys.readouterr().err == f"spectra: {r.entrance.advice}\n"

    steady(body)


@pytest.mark.parametrize("back", [-40_000, 40_000])
def test_f_engines_that_start_again(observe, steady, rng, back):
    """All at another time: a new epoch, of which no packet is missing."""

    def body():
        o = observe(antennas=2, sub=64)
        heaps = 4
        data, valid = values(rng, o, heaps), np.ones((4, heaps * 64), bool)
        sender = SpectraSender(o, rate=RATE)
        r = received.spectra(o, HeapMap(o, 0, 1), 0)
        with r:
            for first in (50_000, 50_000 + back):
                sender.send(data, valid, 64 * first)
                time.sleep(0.05)  # to start again takes longer than to forge a packet
            r.settle(o.spectra_endpoint(0))
        wanted, _ = reference(o, data, whole(o, heaps), 0)
        before, after = ([b for b in r.blocks if b.epoch == epoch] for epoch in (0, 1))
        counts = r.counts()
        assert counts.resyncs == 1 and counts.placed == sender.packets
        for blocks in (before, after):
            d, v = joined(blocks)
            assert len(blocks) == 4 and (v == 2**64 - 1).all() and np.array_equal(d, wanted)

    steady(body)


def test_bad_arguments(observe, rng):
    o = observe()
    sender = SpectraSender(o, rate=RATE)
    data, valid = values(rng, o, 1), np.ones((6, 64), bool)
    with pytest.raises(ValueError, match="heaps are int8"):
        sender.send(data[:, :, :-1], valid, 0)
    with pytest.raises(ValueError, match="valid has shape"):
        sender.send(data, valid[:, :-1], 0)
    with pytest.raises(ValueError, match="first_spectrum 5 must be a multiple of 64"):
        sender.send(data, valid, 5)
