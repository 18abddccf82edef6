"""The catcher: packets of X-heaps to integrations of the whole band in a file, whatever is missing, in any order."""

import threading
import time
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from ryle.chunk import Exposure, Integration, joined
from ryle.engines.write_file import WriteFile
from ryle.products.observed import metadata
from ryle.products.uvh5 import UVH5Writer
from ryle.receive.entrance import MappedEntrance
from ryle.receive.sums import SumMap
from ryle.stream.engine import Engine
from ryle.wire.build import build_heap

SUBSTREAMS = 3


class Fed:
    """A source of packets that a test has, handed over one by one by a thread, no faster than blocks are used."""

    kernel_drops = None

    def __init__(self, assembler, packets):
        self._assembler, self._packets = assembler, packets
        self._thread = threading.Thread(target=self._feed)
        self.running = True

    def start(self):
        self._thread.start()

    def _feed(self):
        for packet in self._packets:
            while (counts := self._assembler.counts()).ready + counts.taken > 0:
                time.sleep(1e-4)
            self._assembler.take([packet])
        self.running = False

    def stop(self):
        """It ends by itself."""

    def join(self):
        self._thread.join()
        return True


class Written:
    """A file that only remembers."""

    def __init__(self):
        self.got, self.closed = [], False

    def append(self, pieces):
        self.got.append(joined(pieces))
        return len(self.got)

    @property
    def integrations(self):
        return len(self.got)

    def close(self):
        self.closed = True


@pytest.fixture
def o(observe):
    return observe(antennas=2, channels=96, sub=32, spectra=32, packet=512, heap_samples=256, integration_spectra=64)


def part(o, rng, index, substream):
    """One X-engine's integration; nothing contributed to some products of it."""
    channels, group = o.substream_channels, o.substream_channels // o.groups
    counts = (rng.integers(1, 65, (o.groups, o.products)) * (rng.random((o.groups, o.products)) > 0.1)).astype(
        np.uint32
    )
    sums = rng.integers(-(2**50), 2**50, (channels, o.products, 2)) * np.repeat(counts > 0, group, axis=0)[..., None]
    return Integration(index * o.integration_spectra, o.integration_spectra, substream * channels, sums, counts)


def packets_of(o, part):
    """The packets of an X-heap, in order."""
    m = SumMap(o)
    payload = part.visibilities.astype(">i8").tobytes() + part.counts.astype(">u4").tobytes()
    fields = {"timestamp": part.first_spectrum * o.step, "frequency": part.first_channel, "spectra": part.spectra}
    begin, end = (edge - part.first_spectrum for edge in part.exposed.span)
    fields |= {"xeng_counts": part.visibilities.nbytes, "begin": begin, "end": end}
    return build_heap(m.plan.format, fields, payload, o.network.packet_size)


def each(o, values, there):
    """Sums and counts of each channel of the whole band that packets (substream, packet) leave: plain indexing."""
    sums = np.concatenate([v.visibilities for v in values])
    counts = np.concatenate([v.counts for v in values])
    bytes_of_sums = values[0].visibilities.nbytes
    held = np.repeat(there, o.network.packet_size, axis=1)[:, : bytes_of_sums + values[0].counts.nbytes]
    whole = held[:, :bytes_of_sums].reshape(len(sums), o.products, 16).all(axis=2)
    whole &= np.repeat(
        held[:, bytes_of_sums:].reshape(len(counts), o.products, 4).all(axis=2),
        o.substream_channels // o.groups,
        axis=0,
    )
    return sums * whole[..., None], np.repeat(counts, o.substream_channels // o.groups, axis=0) * whole


def by_channel(o, integration):
    """Counts of each channel, whatever they are given of."""
    return np.repeat(integration.counts, o.fengine.channels // len(integration.counts), axis=0)


def caught(o, packets, spectra=None, **told):
    """Run a catcher on packets; give what is in its file, the step, and the counts."""
    m, file = SumMap(o), Written()
    opened = []

    def open_file():
        opened.append(True)
        return file

    entrance = MappedEntrance(
        o, "catcher", m, [], source=lambda assembler: Fed(assembler, packets), name="visibilities"
    )
    write = WriteFile(entrance.reader(), m.given, open_file, spectra or o.integration_spectra, **told)
    with Engine([entrance], [write]) as engine:
        engine.start()
        assert engine.wait(60)
    assert len(opened) == bool(file.got) == file.closed == (write.integrations > 0)
    return file.got, write, entrance.assembler.counts()


def heaps(o, rng, indices):
    return {k: [part(o, rng, k, s) for s in range(SUBSTREAMS)] for k in indices}


def indices(o, got):
    return [i.first_spectrum // o.integration_spectra for i in got]


def assert_whole(o, got, values):
    assert (got.first_spectrum, got.spectra, got.first_channel) == (values[0].first_spectrum, values[0].spectra, 0)
    assert np.array_equal(got.visibilities, np.concatenate([v.visibilities for v in values]))
    assert np.array_equal(got.counts, np.concatenate([v.counts for v in values]))


def test_joins_the_band_in_any_order(o, rng):
    """Packets of an integration's X-engines mixed up; each X-engine a little ahead of others, too."""
    sent = heaps(o, rng, range(5, 15))
    packets = []
    for s in range(SUBSTREAMS):
        when = np.sort(np.arange(10) + rng.uniform(0, 0.9, 10))
        for at, values in zip(when, sent.values(), strict=True):
            packets += [(at + rng.uniform(0, 0.3), p) for p in packets_of(o, values[s])]
    got, _, counts = caught(o, [p for _, p in sorted(packets)])
    assert indices(o, got) == list(sent)
    for i in got:
        assert_whole(o, i, sent[i.first_spectrum // o.integration_spectra])
    assert (counts.late, counts.missing, counts.duplicate) == (0, 0, 0)


@pytest.mark.parametrize(
    ("said", "span"),
    [
        ([(3, 40), (2, 39), (3, 41)], (2, 41)),  # what all of them have
        ([(3, 40), None, (3, 40)], (3, 40)),  # one did not come
        ([(0, 64)] * 3, (0, 64)),
        ([(0, 0)] * 3, (0, 64)),  # nobody knows
        ([(3, 40), (0, 65), (7, 7)], (3, 40)),  # what cannot be
        ([(3, 12)] * 3, (0, 64)),  # less than was counted
    ],
)
def test_exposure_is_what_x_engines_say(o, said, span):
    m, begin, end = SumMap(o), *span
    bytes_of_sums = 16 * o.substream_channels * o.products
    data = np.zeros((SUBSTREAMS, bytes_of_sums + 4 * o.groups * o.products), np.uint8)
    data[:, bytes_of_sums:].view(">u4")[...] = 30
    notes = np.array([(0, 0) if s is None else s for s in said], np.uint64).reshape(SUBSTREAMS, 1, 2)
    present = np.repeat([[s is not None] for s in said], len(m.plan.parts), axis=1).astype(np.uint8)
    block = SimpleNamespace(data=data, planes={"present": present, "notes": notes}, start=5 * 64 * o.step)
    ((got, *_),) = m.given(block)
    assert got.exposed.span == (320 + begin, 320 + end)


def test_spans_travel_to_the_catcher(o, rng):
    """In every packet, so that one is enough."""
    sent = heaps(o, rng, (4, 5))
    for value in sent[5]:
        value.counts = np.minimum(value.counts, 20)
        value.exposure = Exposure.of(5 * 64 + 11, 5 * 64 + 31)
    packets = [p for values in sent.values() for v in values for p in packets_of(o, v)]
    got, _, _ = caught(o, packets[:-2])
    assert [i.exposed.span for i in got] == [(256, 320), (331, 351)]


def test_an_x_engine_that_is_missing(o, rng):
    """Its channels have counts of 0; the others are written."""
    sent = heaps(o, rng, range(3, 12))
    packets = [p for k, values in sent.items() for s in (0, 1, 2) if s != 1 or k < 6 for p in packets_of(o, values[s])]
    got, write, _ = caught(o, packets)
    assert indices(o, got) == list(sent) and write.position == 12 * o.integration_spectra
    for k, i in zip(sent, got, strict=True):
        there = np.ones((SUBSTREAMS, len(SumMap(o).plan.parts)), bool)
        there[1] = k < 6
        sums, counts = each(o, sent[k], there)
        assert np.array_equal(i.visibilities, sums) and np.array_equal(by_channel(o, i), counts)


def test_gaps_are_not_written(o, rng):
    sent = heaps(o, rng, (5, 6, 9, 10, 14))
    got, _, counts = caught(o, [p for values in sent.values() for v in values for p in packets_of(o, v)])
    assert indices(o, got) == list(sent) and counts.voids == 2 + 3
    for k, i in zip(sent, got, strict=True):
        assert_whole(o, i, sent[k])


def test_nothing_is_opened_before_something_came(o):
    """Not for packets that are of nobody, either; and nothing is told at the end."""
    told = []
    got, write, counts = caught(o, [b"SPEAD", bytes(600)], at_end=told.append)
    assert (got, told, write.position, counts.malformed) == ([], [], 0, 2)


def test_what_is_told(o, rng):
    sent, told = heaps(o, rng, (2, 3, 4)), []
    ends = []
    got, _, _ = caught(
        o,
        [p for values in sent.values() for v in values for p in packets_of(o, v)],
        written=lambda number, i: told.append((number, i.first_spectrum)),
        at_end=ends.append,
    )
    assert told == [(n + 1, k * o.integration_spectra) for n, k in enumerate((2, 3, 4))]
    assert len(ends) == 1 and ends[0].got == got


@pytest.mark.parametrize("together", [1, 4])
def test_sums_with_lost_packets(o, rng, together):
    """Integrations of the file are the sums of what came, product by product; those of which nothing came are left out."""
    sent = heaps(o, rng, range(6, 31))
    parts = len(SumMap(o).plan.parts)
    there = {k: rng.random((SUBSTREAMS, parts)) > 0.03 for k in sent}
    for k in (12, 13, 14, 15, 22):  # a file's integration, and one of four
        there[k][:] = False
    packets = [
        p
        for k, values in sent.items()
        for s, v in enumerate(values)
        for p, came in zip(packets_of(o, v), there[k][s], strict=True)
        if came
    ]
    got, _, counts = caught(o, packets, together * o.integration_spectra)
    wanted = {}
    for k, values in sent.items():
        if there[k].any():
            sums, count = each(o, values, there[k])
            total = wanted.setdefault(k // together * together, [0, 0])
            total[0], total[1] = total[0] + sums, total[1] + count
    assert indices(o, got) == list(wanted)
    for i, (sums, count) in zip(got, wanted.values(), strict=True):
        assert i.spectra == together * o.integration_spectra
        assert np.array_equal(i.visibilities, sums) and np.array_equal(by_channel(o, i), count)
    assert counts.placed == sum(t.sum() for t in there.values()) == len(packets) and counts.late == 0


def test_x_engines_that_are_behind_are_waited_for(o, rng):
    """As far as the plan says that they may be apart, nothing is late."""
    m = SumMap(o)
    ahead = m.plan.skew // m.plan.step
    assert ahead >= 2
    sent = heaps(o, rng, range(ahead))
    order = [values[0] for values in sent.values()] + [v for values in sent.values() for v in values[1:]]
    got, _, counts = caught(o, [p for v in order for p in packets_of(o, v)])
    assert indices(o, got) == list(sent)
    for k, i in zip(sent, got, strict=True):
        assert_whole(o, i, sent[k])
    assert (counts.late, counts.missing) == (0, 0)


def test_the_files_values(o, rng, tmp_path):
    """A real file: averages, nsamples of 0 where packets were lost, and flags where less than half was there."""
    sent = heaps(o, rng, (4, 5))
    parts = len(SumMap(o).plan.parts)
    there = {k: rng.random((SUBSTREAMS, parts)) > 0.2 for k in sent}
    packets = [
        p for k, vs in sent.items() for s, v in enumerate(vs) for i, p in enumerate(packets_of(o, v)) if there[k][s, i]
    ]
    m = SumMap(o)
    entrance = MappedEntrance(o, "catcher", m, [], source=lambda a: Fed(a, packets), name="visibilities")
    path = tmp_path / "caught.uvh5"
    write = WriteFile(entrance.reader(), m.given, lambda: UVH5Writer(path, metadata(o)), o.integration_spectra)
    with Engine([entrance], [write]) as engine:
        engine.start()
        assert engine.wait(60) and write.integrations == 2
    with h5py.File(path) as file:
        samples, flags = file["Data/nsamples"][...], file["Data/flags"][...]
    assert np.array_equal(flags, np.rint(samples * o.integration_spectra) < o.integration_spectra / 2)
    for k, ours in zip(sent, samples.reshape(2, -1, *samples.shape[1:]), strict=True):
        _, counts = each(o, sent[k], there[k])
        assert np.isclose(np.sort(ours.ravel()), np.sort(np.ravel(counts) / o.integration_spectra)).all()
