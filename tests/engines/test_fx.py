"""The correlator in one process, over sockets, and chunk by chunk: the same integrations, bit for bit."""

import numpy as np
import pytest

from ryle.bench.fx import OneThread
from ryle.chunk import SampleChunk
from ryle.simulate import VoltageSimulator

VARIANTS = {
    "plain": {},
    "4-bit": {"output_bits": 4, "gain": 0.1},
    "one polarization": {"pols": ("x",)},
    "complex": {"complex_samples": True, "heap_samples": 512},
    "second Nyquist zone": {"zone": 2},
    "12 bits, heaps of 96 spectra": {"bits": 12, "spectra": 96, "integration_spectra": 192},
    "8 spectra a heap, four substreams": {"spectra": 8, "sub": 16, "packet": 1024},
}


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS.keys())
def case(request, observe):
    """An observation and samples for a bit more than three integrations, with holes."""
    o = observe(**request.param)
    heap = o.digitizer.heap_samples
    made = VoltageSimulator(o).chunk(0, int(3.3 * o.integration_spectra * o.step) // heap * heap)
    present = np.random.default_rng(7).random(made.present.shape) > 0.05
    return o, SampleChunk(0, made.data, present.astype(np.uint8), heap)


def in_process(o, pieces):
    engine = OneThread(o)
    got = [i for piece in pieces for i in engine.push(piece)]
    return got + list(engine.flush())


def cut(chunk, edges):
    for a, b in zip([0, *edges], [*edges, chunk.data.shape[1]], strict=True):
        if a < b:
            yield SampleChunk(
                chunk.timestamp + a * chunk.packet_samples,
                chunk.data[:, a:b].copy(),
                chunk.present[:, a:b].copy(),
                chunk.packet_samples,
            )


def assert_same(got, wanted):
    assert [i.first_spectrum for i in got] == [i.first_spectrum for i in wanted]
    for a, b in zip(got, wanted, strict=True):
        assert (a.spectra, a.first_channel) == (b.spectra, b.first_channel)
        assert np.array_equal(a.visibilities, b.visibilities)
        factor = len(a.counts) // len(b.counts)
        assert np.array_equal(a.counts, np.repeat(b.counts, factor, axis=0))


def test_over_udp_as_in_one_process(case, correlate_over_udp, steady):
    o, chunk = case
    wanted = in_process(o, [chunk])
    assert len(wanted) == 4 and all(i.counts.any() and i.visibilities.any() for i in wanted)
    whole = [i for i in wanted if i.counts.max() > 0.5 * o.integration_spectra]
    assert len(whole) == 3 and min(i.counts.min() for i in whole) < o.integration_spectra

    def body():
        run = correlate_over_udp(o, chunk, rate=4e6)
        assert_same(run.integrations, wanted)

    steady(body)


def test_how_the_samples_are_cut_does_not_matter(case, rng):
    o, chunk = case
    wanted = in_process(o, [chunk])
    packets = chunk.data.shape[1]
    edges = np.unique(rng.integers(1, packets, 12)).tolist()
    assert_same(in_process(o, cut(chunk, edges)), wanted)
    assert_same(in_process(o, cut(chunk, range(1, packets))), wanted)  # packet by packet


def test_start_in_the_middle(observe):
    """Packets that begin anywhere: integrations keep their place, and what came before is missing, no more."""
    o = observe()
    heap = o.digitizer.heap_samples
    made = VoltageSimulator(o).chunk(0, 4 * o.integration_spectra * o.step)
    wanted = in_process(o, [made])
    first = int(1.4 * o.integration_spectra * o.step) // heap
    (_, late) = cut(made, [first])
    got = in_process(o, [late])
    assert [i.first_spectrum for i in got] == [i.first_spectrum for i in wanted[1:]]
    assert 0 < got[0].counts.max() < 0.7 * o.integration_spectra
    assert_same(got[1:], wanted[2:])
