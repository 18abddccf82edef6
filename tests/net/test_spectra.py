"""F-heaps: what is on the wire, and the K-blocks that come of it, packets missing or not."""

import math
import socket
import struct
import threading

import numpy as np
import pytest

from faulty_link import FaultyLink
from ryle.chunk import BLOCK, rows_from_parts
from ryle.config import changed
from ryle.config.simulation import FaultsTable
from ryle.net._native import to_kblocks
from ryle.net.spectra import SpectraReceiver, SpectraSender, packet_bytes

RATE = 20e6


def values(rng, o, heaps, antennas=None):
    shape = (antennas or len(o.antennas), heaps, o.fengine.channels, o.fengine.spectra_per_heap, o.pols)
    if o.value_bytes == 2:
        return rng.integers(-128, 128, (*shape, 2), dtype=np.int8)
    return rng.integers(0, 256, shape, dtype=np.uint8)


def reference(o, heaps, valid, substream):
    """K-blocks by fancy indexing: complex int8 [channel][block][input][128] and bits, invalid values zeroed.

    valid: bool [antenna][heap][channel group][spectrum][pol]
    """
    channels = slice(substream * o.substream_channels, (substream + 1) * o.substream_channels)
    h = heaps[:, :, channels]
    if o.value_bytes == 1:
        nibbles = np.stack([h >> 4, h & 15], axis=-1).astype(np.int16)
        h = ((nibbles + 8 & 15) - 8).astype(np.int8)
    v = np.repeat(valid, o.packet_channels, axis=2)
    h = h * v[..., None]
    antennas, count, c, spectra, pols, _ = h.shape
    blocks = count * spectra // BLOCK
    parts = h.transpose(2, 0, 4, 1, 3, 5).reshape(c, antennas * pols, blocks, BLOCK, 2)
    data = rows_from_parts(parts.swapaxes(1, 2))
    bits = valid.transpose(2, 0, 4, 1, 3).reshape(o.groups, antennas * pols, blocks, BLOCK).transpose(0, 2, 1, 3)
    words = (bits.astype(np.uint64) << np.arange(BLOCK, dtype=np.uint64)).sum(axis=-1, dtype=np.uint64)
    return data, words


def whole(o, heaps):
    return np.ones((len(o.antennas), heaps, o.groups, o.fengine.spectra_per_heap, o.pols), bool)


def by_packet(o, valid, heaps):
    """Valid [input][spectrum] as the reference wants it."""
    v = valid.reshape(len(o.antennas), o.pols, heaps, o.fengine.spectra_per_heap).transpose(0, 2, 3, 1)
    return np.repeat(v[:, :, None], o.groups, axis=2)


def joined(chunks):
    return np.concatenate([c.data for c in chunks], axis=1), np.concatenate([c.valid for c in chunks], axis=1)


def poison(receiver):
    """Fill memory that will be handed out with what must never be seen."""
    for pool in (receiver._data, receiver._valid):
        arrays = [pool.take() for _ in range(4)]
        for a in arrays:
            a.view(np.uint8)[...] = 0x5A
        del arrays


def receive(o, sending, first_heap, heaps, **kwargs):
    """All substreams' chunks and accounts, while `sending` runs in a thread."""
    receivers = [SpectraReceiver(o, s, end_after=len(o.antennas), **kwargs) for s in range(o.substreams)]
    thread = threading.Thread(target=sending)
    got = [[] for _ in receivers]
    takers = []
    for r, g in zip(receivers, got, strict=True):
        poison(r)
        takers.append(threading.Thread(target=lambda r=r, g=g: g.extend(r)))
    for t in (*takers, thread):
        t.start()
    for t in (thread, *takers):
        t.join(60)
    for r, g in zip(receivers, got, strict=True):
        assert r.ended
        r.close()
        first = g[0].first_spectrum
        assert [c.first_spectrum for c in g] == [first + i * g[0].spectra for i in range(len(g))]
        assert first == first_heap * o.fengine.spectra_per_heap
        assert sum(c.spectra for c in g) == heaps * o.fengine.spectra_per_heap
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
    def body():
        o = observe(**what)
        spectra = o.fengine.spectra_per_heap
        heaps = 3 * o.batch_spectra // spectra
        data = values(rng, o, heaps)
        valid = np.ones((o.n_inputs, heaps * spectra), bool)
        valid[:, spectra * 1 : spectra * 2] = rng.random((o.n_inputs, spectra)) > 0.3  # a heap with a tail
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
        for s, chunks in enumerate(got):
            d, v = joined(chunks)
            wanted, words = reference(o, data, by_packet(o, valid, heaps), s)
            assert np.array_equal(v, words)
            assert np.array_equal(d, wanted)
            account = receivers[s].account()
            assert (account.missing, account.late, account.duplicate, account.malformed) == (0, 0, 0, 0)
            assert account.foreign == len(o.antennas)
            assert account.expected * o.substreams == sender.packets
            assert account.balanced()
        assert sender.flagged > 0

    steady(body)


def by_hand(heap_id, timestamp, antenna, first_channel, payload, packet, tail=b""):
    """The packets of an F-heap put together from MeerKAT's packet definition (and ours, with `tail`)."""
    total = len(payload) + len(tail)
    out = []
    for at in [*range(0, len(payload), packet), *([len(payload)] if tail else [])]:
        part = (payload[at : at + packet] if at < len(payload) else b"") or tail
        items = [(1, heap_id), (2, total), (3, at), (4, len(part)), (0x1600, timestamp), (0x4101, antenna)]
        items.append((0x4103, first_channel))
        pointers = [(1 << 63) | (i << 48) | v for i, v in items] + [0x4300 << 48]
        if tail:
            pointers.append(0x4301 << 48 | len(payload))
        out.append(b"\x53\x04\x02\x06\0\0" + struct.pack(f">H{len(pointers)}Q", len(pointers), *pointers) + part)
    return out


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
    def body():
        o = observe(sub=64)
        data = values(rng, o, 4)
        valid = np.ones((6, 256), bool)
        valid[2:4, 64:128] = False  # all of antenna 1's second heap
        valid[0, 128:192] = False  # one polarization: still sent
        sender = SpectraSender(o, rate=RATE)

        def sending():
            sender.send(data, valid, 0)
            sender.end()

        got, (r,) = receive(o, sending, 0, 4)
        d, v = joined(got[0])
        wanted, words = reference(o, data, by_packet(o, valid, 4), 0)
        assert np.array_equal(v, words) and np.array_equal(d, wanted)
        assert sender.withheld == 1
        account = r.account()
        assert account.missing == o.groups and account.balanced()

    steady(body)


def test_nothing_of_an_earlier_chunk(observe, steady, rng):
    """Memory goes round many times; a heap that does not come shows nothing of the one that stood there before."""

    def body():
        o = observe(antennas=2, channels=32, sub=32)
        heaps = 60
        data = values(rng, o, heaps)
        valid = np.ones((4, heaps * 64), bool)
        valid[:, 5::64] = False  # first every heap has a tail
        valid[:, 64 * 30 :] = True
        valid[2:, 64 * 30 :] = False  # then the second antenna is silent
        sender = SpectraSender(o, rate=4e6)

        def sending():
            for h in range(heaps):
                sender.send(data[:, h : h + 1], valid[:, 64 * h : 64 * h + 64], 64 * h)
            sender.end()

        got, (r,) = receive(o, sending, 0, heaps, window=1, spare=1)
        d, v = joined(got[0])
        wanted, words = reference(o, data, by_packet(o, valid, heaps), 0)
        assert np.array_equal(v, words) and np.array_equal(d, wanted)
        account = r.account()
        assert account.placed == sender.packets == 2 * 30 * (o.groups + 1) + 30 * o.groups
        assert (account.missing, account.late) == (30 * o.groups, 0)

    steady(body)


def test_faulty_link(observe, ports, steady, rng):
    """A lost packet costs its channel group; a lost tail costs its heap; nothing else is touched."""

    def body():
        o = observe(channels=128, sub=128, packet=2048)
        there = changed(o, network={"spectra": o.network.spectra.model_copy(update={"port": ports(1)})})
        heaps, antennas = 24, 3
        data = values(rng, o, heaps)
        valid = np.ones((6, heaps * 64), bool)
        valid[:, 64 * 8 : 64 * 16] = rng.random((6, 64 * 8)) > 0.1
        faults = FaultsTable(
            loss=0.04, duplicate=0.05, reorder=0.1, reorder_distance=20, corrupt=0.05, seed=int(rng.integers(1 << 30))
        )
        link = FaultyLink([(o.spectra_endpoint(0), there.spectra_endpoint(0))], faults)
        sender = SpectraSender(o, rate=5e6)

        def sending():
            sender.send(data, valid, 64 * 100)
            sender.end()

        with link:
            got, (r,) = receive(there, sending, 100, heaps, batches=2)
        account, counts = r.account(), link.counts
        assert min(counts[k] for k in ("lost", "corrupted", "duplicated", "delayed")) > 5
        arrived = by_packet(o, valid, heaps)
        flagged = ~np.array(valid.reshape(antennas, 2, heaps, 64)).all(axis=(1, 3))
        for f in link.faults:
            if f.kind in ("lost", "corrupted"):
                a, h = f.items[0x4101], f.items[0x1600] // (256 * 64) - 100
                group = f.items[3] // packet_bytes(o)
                if group == o.groups:
                    assert flagged[a, h]
                    arrived[a, h] = False
                else:
                    arrived[a, h, group] = False
        d, v = joined(got[0])
        wanted, words = reference(o, data, arrived, 0)
        assert np.array_equal(v, words)
        assert np.array_equal(d, wanted)
        gone = counts["lost"] + counts["corrupted"]
        assert account.placed == sender.packets - gone
        assert account.malformed == counts["corrupted"]
        assert account.foreign == 3
        assert account.unplaced == counts["corrupted"] + counts["duplicated"] + 3
        assert account.late is None and account.duplicate is None  # spead2 does not tell them apart
        assert account.balanced()
        # A heap of which nothing arrived may have been one with a tail: it is expected as one without.
        assert gone - 24 <= account.missing <= gone

    steady(body)


def test_foreign_and_malformed_heaps(observe, settled, steady, rng):
    def body():
        o = observe(antennas=2, sub=64)
        assert o.groups > 1
        size, packet = o.spectra_heap_bytes, packet_bytes(o)
        payload = rng.bytes(size)
        e = o.spectra_endpoint(0)
        with SpectraReceiver(o, 0, window=2) as r, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:

            def send(*args, **kwargs):
                packets = by_hand(*args, **kwargs)
                for p in packets:
                    s.sendto(p, (e.host, e.port))
                return len(packets)

            t = 64 * 128
            good = sum(send(h * 2 + a, h * t, a, 0, payload, packet) for h in range(10, 16) for a in (0, 1))
            bad = send(101, 15 * t, 2, 0, payload, packet)  # no such antenna
            bad += send(102, 15 * t, 0, 32, payload, packet)  # another substream
            bad += send(103, 15 * t + 1, 0, 0, payload, packet)  # between heaps
            bad += send(104, 15 * t, 0, 0, payload[:-8], packet)  # wrong length
            bad += send(105, 15 * t, 0, 0, payload, packet // 2)  # other packets
            bad += send(106, 10 * t, 0, 0, payload, packet)  # late
            settled(r, e)
            r.stop()
            got = list(r)
        d, v = joined(got)
        assert len(got) == 6 and (v == 2**64 - 1).all()
        wanted, _ = reference(o, np.frombuffer(payload * 12, np.int8).reshape(2, 6, 64, 64, 2, 2), whole(o, 6), 0)
        assert np.array_equal(d, wanted)
        assert r.refused_heaps == {"late": 1, "malformed": 3, "foreign": 2}
        account = r.account()
        assert (account.placed, account.unplaced, account.missing) == (good, bad, 0)
        assert (account.late, account.foreign, account.malformed) == (None, None, None)
        assert account.balanced()

    steady(body)


@pytest.mark.parametrize("pols", [1, 2])
@pytest.mark.parametrize("value_bytes", [1, 2])
@pytest.mark.parametrize("spectra", [8, 24, 64, 72, 320])
def test_kblocks(rng, pols, value_bytes, spectra):
    """Transposition of random presence and validity, into memory full of rubbish, against plain indexing."""

    class Sizes:  # what `reference` reads of an observation
        def __init__(self):
            self.pols, self.value_bytes, self.groups, self.packet_channels = pols, value_bytes, 3, 2
            self.substream_channels, self.batch_spectra = 6, math.lcm(64, spectra)

    o, antennas = Sizes(), 3
    heaps = 2 * o.batch_spectra // spectra
    payload, tail = 6 * spectra * pols * value_bytes, pols * spectra // 8
    slot = payload + tail + 5
    raw = rng.integers(0, 256, (antennas, heaps, slot), dtype=np.uint8)
    present = (rng.random((antennas, heaps, 4)) > 0.3).astype(np.uint8)
    kind = rng.integers(1, 3, (antennas, heaps), dtype=np.uint8)
    mask = rng.random((antennas, heaps, pols, spectra)) > 0.2
    raw[:, :, payload : payload + tail] = np.packbits(mask, axis=-1, bitorder="little").reshape(antennas, heaps, tail)
    data = np.full((6, heaps * spectra // 64, antennas * pols, 128), 0x5A, np.int8)
    valid = np.full((3, heaps * spectra // 64, antennas * pols), 0x5A5A, np.uint64)
    to_kblocks(raw, present, kind, spectra, pols, value_bytes, data, valid)
    shape = (antennas, heaps, 6, spectra, pols) + (2,) * (value_bytes == 2)
    values = raw[:, :, :payload].reshape(shape)
    flagged = (kind == 2)[..., None, None, None]
    known = np.where(flagged, mask.transpose(0, 1, 3, 2)[:, :, None] & (present[:, :, 3:, None, None] == 1), True)
    arrived = (present[:, :, :3, None, None] == 1) & known
    wanted, words = reference(o, values.view(np.int8) if value_bytes == 2 else values, arrived, 0)
    assert np.array_equal(valid, words)
    assert np.array_equal(data, wanted)


def test_kblocks_refuses_wrong_shapes():
    with pytest.raises(ValueError, match="shapes do not fit"):
        to_kblocks(
            np.zeros((1, 1, 500), np.uint8), np.zeros((1, 1, 2), np.uint8), np.zeros((1, 1), np.uint8), 64, 1, 2,
            np.zeros((4, 1, 1, 128), np.int8), np.zeros((1, 1, 1), np.uint64),
        )  # fmt: skip


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
    with pytest.raises(ValueError, match="substream 2 must be from 0 to 1"):
        SpectraReceiver(o, 2)
