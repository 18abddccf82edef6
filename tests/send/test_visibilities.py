"""X-heaps: exact sums and counts through a socket, MeerKAT's export, lost packets, forged heaps."""

import socket
import struct
import threading
import time

import numpy as np
import pytest

import received
import spead2_oracle
from received import RecordedLink
from ryle.chunk import Exposure, Integration
from ryle.config import changed, example, load
from ryle.config.simulation import FaultsTable
from ryle.receive.sums import SumMap
from ryle.send.visibilities import VisibilitySender, meerkat_values


def integration(rng, o, index, substream):
    """Sums and counts of a substream; nothing contributed to some of them."""
    sums = rng.integers(-(2**62), 2**62, (o.substream_channels, o.products, 2))
    counts = rng.integers(1, 2**32, (o.groups, o.products), dtype=np.uint32) * (
        rng.random((o.groups, o.products)) > 0.1
    )
    counts = counts.astype(np.uint32)
    sums[np.repeat(counts == 0, o.substream_channels // o.groups, axis=0)] = 0
    first = substream * o.substream_channels
    return Integration(index * o.integration_spectra, o.integration_spectra, first, sums, counts)


def arrived(o, sent, lost=()):
    """What a block holds of a time's heaps, (substream, byte of the heap, bytes) of which were lost, by plain indexing."""
    channels, products, groups = o.substream_channels, o.products, o.groups
    group = channels // groups
    sums = np.concatenate([i.visibilities for i in sent])
    counts = np.concatenate([i.counts for i in sent])
    if not lost:
        return sums, counts
    there = np.ones((len(sent), 16 * channels * products + 4 * groups * products), bool)
    for substream, first, size in lost:
        there[substream, first : first + size] = False
    held = there[:, : 16 * channels * products].reshape(len(sums), products, 16).all(axis=2)
    counted = there[:, 16 * channels * products :].reshape(len(counts), products, 4).all(axis=2)
    held &= np.repeat(counted, group, axis=0)
    return sums * held[..., None], np.repeat(counts, group, axis=0) * held


def assert_holds(block, o, sent, lost=()):
    got, (sums, counts) = block.given, arrived(o, sent, lost)
    assert (got.first_spectrum, got.spectra, got.first_channel) == (sent[0].first_spectrum, sent[0].spectra, 0)
    assert block.start == got.first_spectrum * o.step
    assert got.visibilities.dtype == np.int64 and got.counts.dtype == np.uint32
    assert np.array_equal(got.visibilities, sums)
    assert np.array_equal(got.counts, counts)


def test_round_trip(observe, steady, rng):
    """Integrations of the whole band, none left out; each packet that comes twice is a duplicate."""

    def body():
        o = observe(antennas=8)
        m = SumMap(o)
        parts = len(m.plan.parts)
        sent = {k: [integration(rng, o, k, s) for s in (0, 1)] for k in (5, 6, 9)}
        with received.visibilities(o, m) as r:
            senders = [VisibilitySender(o, s) for s in (0, 1)]
            for both in sent.values():
                for i in both:
                    senders[i.first_channel // 32].send(i)
            senders[0].send(sent[9][0])  # once more
            for s in senders:
                s.end()
            r.settle(o.network.visibilities)
        assert [b.given.first_spectrum // o.integration_spectra for b in r.blocks] == [5, 6, 7, 8, 9]
        assert [b.void for b in r.blocks] == [False, False, True, True, False]
        for b in r.blocks:
            if not b.void:
                assert_holds(b, o, sent[b.given.first_spectrum // o.integration_spectra])
            else:
                assert not b.given.counts.any() and not b.given.visibilities.any()
        counts = r.counts()
        assert (counts.placed, counts.duplicate, counts.foreign) == (6 * parts, parts, 2)
        assert (counts.expected, counts.missing) == (10 * parts, 4 * parts)

    steady(body)


def test_wire(observe, rng):
    o = observe(antennas=2, pols=["x"], channels=8, sub=4, spectra=8)
    i = integration(rng, o, 3, 1)
    i.exposure = Exposure.of(3 * o.integration_spectra + 8, 3 * o.integration_spectra + 40)
    for layout in ("native", "meerkat"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            e = o.network.visibilities
            s.bind((e.host, e.port))
            s.settimeout(60)
            VisibilitySender(o, 1, layout=layout).send(i)
            packet = s.recv(65536)
        if layout == "native":
            payload = i.visibilities.astype(">i8").tobytes() + i.counts.astype(">u4").tobytes()
            spectra = o.integration_spectra
            pointers = [(0x1600, 3 * spectra * o.step), (0x4103, 4), (0x4104, spectra), (0x4105, 8), (0x4106, 40)]
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


@pytest.mark.parametrize("packet", [8192, 1024, 1000])
def test_lost_packets(observe, ports, steady, rng, packet):
    """A lost packet costs the products that it held a part of, nothing else; heaps that spead2 finds whole are whole."""

    def body():
        o = observe(antennas=8, packet=packet, heap_samples=128)
        there = changed(o, network={"visibilities": o.network.visibilities.model_copy(update={"port": ports(1)})})
        # Of forty heaps some two dozen packets: never none.
        faults = FaultsTable(loss=0.6 / (80000 // packet), duplicate=0.1, reorder=0.1, seed=int(rng.integers(1 << 30)))
        m = SumMap(there)
        parts = len(m.plan.parts)
        sent = [[integration(rng, o, k, s) for s in (0, 1)] for k in range(20)]
        with received.visibilities(there, m) as r:
            with RecordedLink([(o.network.visibilities, there.network.visibilities)], faults) as link:
                senders = [VisibilitySender(o, s, rate=20e6) for s in (0, 1)]
                for both in sent:
                    for sender, i in zip(senders, both, strict=True):
                        sender.send(i)
                for s in senders:
                    s.end()
            r.settle(there.network.visibilities)
        lost = [f.items for f in link.faults if f.kind == "lost"]
        unit = o.integration_spectra * o.step
        assert lost and link.counts["duplicated"] and [b.start // unit for b in r.blocks] == list(range(20))
        for k, (b, both) in enumerate(zip(r.blocks, sent, strict=True)):
            gone = [(i[0x4103] // 32, i[3], i[4]) for i in lost if i[0x1600] == k * unit]
            assert int((b.present == 0).sum()) == len(gone)
            assert_holds(b, o, both, gone)
        counts = r.counts()
        assert (counts.placed, counts.late) == (40 * parts - len(lost), 0)
        assert (counts.duplicate, counts.foreign, counts.malformed) == (link.counts["duplicated"], 2, 0)
        assert (
            len(lost) - 2 * parts < counts.missing <= len(lost)
        )  # but what each lost before its first and after its last
        oracle = spead2_oracle.x_heaps(link.sent)
        broken = {(i[0x4103], i[0x1600]) for i in lost}
        assert set(oracle) == {(32 * s, k * unit) for k in range(20) for s in (0, 1)} - broken
        for (first, timestamp), (sums, count) in oracle.items():
            got = r.blocks[timestamp // unit].given
            each = len(got.counts) // 2 // o.groups  # counts are of each channel where others lost packets
            assert np.array_equal(got.visibilities[first : first + 32].reshape(-1), sums)
            mine = got.counts.reshape(2, -1, o.products)[first // 32]
            assert np.array_equal(mine, np.repeat(count.reshape(o.groups, o.products), each, axis=0))

    steady(body)


def heap(o, index, substream, value, length=None, without=()):
    """Packets of an X-heap whose sums are all `value`, put together by hand."""
    sums = np.full((o.substream_channels, o.products, 2), value, ">i8").tobytes()
    body = sums + np.full((o.groups, o.products), 7, ">u4").tobytes()
    for offset in range(0, len(body), o.network.packet_size):
        part = body[offset : offset + o.network.packet_size]
        words = [
            (1, substream + 2 * index), (2, length or len(body)), (3, offset), (4, len(part)),
            (0x1600, index * o.integration_spectra * o.step), (0x4103, substream * o.substream_channels),
            (0x4104, o.integration_spectra),
        ]  # fmt: skip
        words = [1 << 63 | i << 48 | v for i, v in words if i not in without] + [0x1801 << 48, 0x1802 << 48 | len(sums)]
        yield struct.pack(f">BBBBHH{len(words)}Q", 0x53, 4, 2, 6, 0, len(words), *words) + part


def is_whole(block, value):
    return (block.given.counts == 7).all() and (block.given.visibilities == value).all()


def send(o, link, *heaps):
    e = o.network.visibilities
    for packets in heaps:
        for packet in packets:
            link.sendto(packet, (e.host, e.port))


@pytest.mark.parametrize("forged", [0, 1])
def test_forged_heaps_cost_nothing(observe, steady, rng, forged):
    """Of one X-engine, again and again: 10^6 integrations ahead, of 2^39 bytes, without a time. All others are whole."""

    def body():
        o = observe(antennas=2, packet=512, heap_samples=128, spectra=32)
        m = SumMap(o)
        parts = len(m.plan.parts)
        assert parts >= 8  # enough packets in a row to move a clock, were there no others
        with received.visibilities(o, m) as r, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
            send(o, link, heap(o, 4, 0, 1), heap(o, 4, 1, 1))
            for k in range(5, 25):
                heaps = [
                    heap(o, 10**6 + 1000 * k, forged, 9),
                    heap(o, k, forged, 9, length=1 << 39),
                    heap(o, k, forged, 9, without=[0x1600]),
                    *(heap(o, k, s, 1) for s in (0, 1)),
                ]
                send(o, link, *(heaps[i] for i in rng.permutation(5)))
                time.sleep(0.02)  # not faster than the reader
            r.settle(o.network.visibilities)
        assert [b.start // m.plan.step for b in r.blocks] == list(range(4, 25))
        assert all(is_whole(b, 1) for b in r.blocks)
        assert r.faults() == {fault: 20 * parts for fault in ("heap", "item", "jump")}
        assert (r.counts().placed, r.counts().missing) == (42 * parts, 0)
        assert "heap.repeat_pointers = True" in r.entrance.advice

    steady(body)


@pytest.mark.parametrize("forged", [0, 1])
def test_a_forged_heap_before_all_others(observe, steady, forged):
    """Of the very first packets nobody can tell: they are an epoch, and of the next nothing is lost."""

    def body():
        o = observe(antennas=2, packet=512, heap_samples=128, spectra=32)
        m = SumMap(o)
        with received.visibilities(o, m) as r, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
            send(o, link, heap(o, 10**7, forged, 9))
            for k in range(5, 15):
                send(o, link, heap(o, k, 0, 1), heap(o, k, 1, 1))
                time.sleep(0.02)
            r.settle(o.network.visibilities)
        first, second, *blocks = r.blocks
        assert (first.start, second.start) == (10**7 * m.plan.step, 5 * m.plan.step)
        assert [b.start // m.plan.step for b in blocks] == list(range(6, 15)) and all(is_whole(b, 1) for b in blocks)
        assert is_whole(second, 1)

    steady(body)


@pytest.mark.parametrize("later", [4000, -4000])
def test_true_jump(observe, steady, later):
    """All X-engines go on at another time, in a new epoch: the packets that it took to believe it were kept."""

    def body():
        o = observe(antennas=2, packet=1024, heap_samples=128)
        m = SumMap(o)
        with received.visibilities(o, m) as r, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
            for k in [*range(5000, 5005), *range(5000 + later, 5010 + later)]:
                send(o, link, *zip(heap(o, k, 0, 1), heap(o, k, 1, 1), strict=True))
                time.sleep(0.02)  # not faster than the reader
            r.settle(o.network.visibilities)
        assert [b.epoch for b in r.blocks] == [0] * 5 + [1] * 10
        assert all(is_whole(b, 1) for b in r.blocks)
        counts = r.counts()
        assert counts.placed == counts.received and counts.resyncs == 1

    steady(body)


def test_one_x_engine_dies(observe, steady):
    """The others go on; what is missing counts nothing."""

    def body():
        o = observe(antennas=2, packet=1024, heap_samples=128)
        m = SumMap(o)
        with received.visibilities(o, m) as r, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
            for k in range(20):
                send(o, link, *[heap(o, k, s, 1) for s in ([0, 1] if k < 8 else [1])])
                time.sleep(0.15)
        sub = o.substream_channels
        assert len(r.blocks) == 20 and all(is_whole(b, 1) for b in r.blocks[:8])
        for b in r.blocks[8:]:
            assert b.present[1].all() and not b.present[0].any()
            assert (b.given.visibilities[sub:] == 1).all() and not b.given.visibilities[:sub].any()
        assert r.counts().ring_full == r.counts().late == 0

    steady(body)


def test_get_and_stop(observe):
    o = observe()
    r = received.visibilities(o, SumMap(o))
    r.entrance.start()
    assert r._reader.get(0.05) is None and not r._reader.ended
    threading.Timer(0.1, r.entrance.stop).start()
    assert list(r._reader) == []
    assert r._reader.ended


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


def test_an_integration_takes_half_of_the_time_in_which_the_next_comes():
    """Of a sky that is simulated slowly, that is longer: the catcher's host may be as slow."""
    o = load(example("paper128"))
    heap = 8320 * (64 * 16 + 4)  # products, by the sums of channels and a count
    for speed, share in ((1.0, 1.0), (0.5, 0.5), (2.0, 2.0)):
        sender = VisibilitySender(changed(o, simulate={"speed": speed}), 0)
        assert sender.rate == pytest.approx(share * 2 * heap / 1.34217728)
    assert VisibilitySender(changed(o, simulate={"speed": 0.001}), 0).rate == 5e6  # no slower


@pytest.mark.parametrize(
    ("size", "fault", "told"), [(384, "heap", "of another length"), (600, "part", "parts of heaps: ")]
)
def test_heaps_that_are_cut_otherwise_are_explained(observe, steady, capsys, size, fault, told):
    """An X-engine with another packet_size, of which its heaps' length depends too, or not: the catcher names the key."""

    def body():
        capsys.readouterr()
        o = observe(antennas=2, packet=512, heap_samples=128, spectra=32)
        other = changed(o, network={"packet_size": f"{size} B"})
        assert (other.groups == o.groups) == (fault == "part")
        with received.visibilities(o, SumMap(o)) as r, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
            for k in range(4, 8):
                send(o, link, heap(o, k, 0, 1), heap(other, k, 1, 1))
                time.sleep(0.02)
            r.settle(o.network.visibilities)
        assert r.faults()[fault] > 0 and r.counts().placed > 0
        assert told in r.entrance.advice and "network.packet_size is 512 B here" in r.entrance.advice
        assert r.entrance.advice in capsys.readouterr().err

    steady(body)
