"""F and X spread over several GPUs: the sums of one, whatever is lost and however antennas and channels divide."""

import copy

import numpy as np
import pytest

import fresh
from emulation import EmulatedGpu
from emulation.deferred import DeferredGpu
from feeding import Given, blocks_of, in_pieces, run, through
from ryle.bench.fx import OneThread
from ryle.channelize import Blocks, cuda
from ryle.config import changed
from ryle.correlate import cuda as correlate_cuda
from ryle.correlate.correlator import CorrelatorConfig
from ryle.correlate.spread import SpreadCorrelator, shares
from ryle.engines import gpus
from ryle.engines.exchange import Exchange, Rooms, Slabs
from ryle.engines.f import FEngine
from ryle.engines.fx import fx_steps
from ryle.engines.steering import Steering
from ryle.gpu import gpu_problem, open_gpu
from ryle.simulate import VoltageSimulator
from ryle.stream.block import Block
from ryle.stream.engine import Engine
from ryle.stream.ring import Ring
from ryle.wire.statistics import NUMBERS


@pytest.fixture(params=["late", "real"])
def opened(request, monkeypatch):
    """Opens GPUs: emulated ones whose streams take turns together; or real ones, the first as often as is asked."""
    if request.param == "real" and (problem := gpu_problem()):
        pytest.skip(f"needs an NVIDIA GPU: {problem}")
    first = DeferredGpu(fresh.seed()) if request.param == "late" else open_gpu()
    made = {0: first}

    def give(number=0):
        if request.param == "real":
            return open_gpu(0 if gpu_problem(number) else number)
        return made.setdefault(number, DeferredGpu(fresh.seed(), beside=first))

    single = EmulatedGpu if request.param == "late" else lambda: first
    monkeypatch.setattr(gpus, "open_gpu", give)
    monkeypatch.setattr(cuda, "open_gpu", single)
    monkeypatch.setattr(correlate_cuda, "open_gpu", single)
    return give


def spread_over(observe, antennas, numbers, **more):
    small = observe(antennas=antennas, bits=10, heap_samples=512, integration_spectra=192, sends="rows", sub=64, **more)
    return changed(small, fx={"backend": "cuda", "gpus": numbers}, fengine={"batch": 128, "gain": 1.3})


def with_losses(o):
    """Samples in uneven pieces with holes, a gap, a jump and an antenna that is not there at all."""
    made = VoltageSimulator(o).chunk(0, 120 * 512)
    present = (fresh.rng().random(made.present.shape) > 0.05).astype(np.uint8)
    present[o.pols : 2 * o.pols] = 0
    return in_pieces(made, present, 5, 3)


@pytest.mark.parametrize(
    ("antennas", "numbers", "more"),
    [(3, [0, 1], {}), (5, [2, 0, 1], {"pols": ("x",)}), (2, [0, 0], {})],
    ids=["two", "three, which share nothing evenly", "one, twice"],
)
def test_sums_are_those_of_one_gpu(opened, observe, antennas, numbers, more):
    o = spread_over(observe, antennas, numbers, **more)
    pieces, opened_here = with_losses(o), [opened(n) for n in numbers]
    gains = o.gains * np.exp(1j * fresh.rng().random(o.gains.shape))
    o.__dict__["gains"] = gains.astype(np.complex64)  # each input's and channel's own
    one = changed_back(o)
    thread = OneThread(one)
    thread.f = FEngine(one, range(antennas), Blocks(), steered(one))
    wanted = run(thread, pieces)
    assert len(wanted) > 2 and any(i.visibilities.any() for i in wanted)
    ring, feed = blocks_of(opened(0), pieces)
    *steps, write = fx_steps(o, ring, Given(), lambda: None, opened_here, steered(o))
    record = write._at_end
    sums, got = steps[-1].outputs[0], []
    sums._readers.clear()
    through(steps, feed, sums, lambda b: got.append(copy.deepcopy(b.data)))
    assert [i.first_spectrum for i in got] == [i.first_spectrum for i in wanted]
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a.visibilities, b.visibilities)
        np.testing.assert_array_equal(a.counts, b.counts)
        assert (a.exposure, a.first_channel, a.spectra) == (b.exposure, 0, b.spectra)
    recorded = {}
    record(type("File", (), {"record": staticmethod(recorded.__setitem__)}))
    here = np.ones(o.n_inputs, bool)
    here[o.pols : 2 * o.pols] = False
    np.testing.assert_array_equal(recorded["adc_histogram"].sum(axis=1) > 0, here)
    numbers = thread.f.totals()[:, -len(NUMBERS) :].T  # of every input, in order
    np.testing.assert_array_equal([*recorded.values()][-len(NUMBERS) :], numbers)


def changed_back(o):
    """The same on one GPU."""
    one = changed(o, fx={"backend": "cuda", "gpus": []})
    one.__dict__["gains"] = o.gains
    return one


def steered(o):
    """Gains that change while samples flow, of every input."""
    found = Steering(o, range(len(o.antennas)))
    assert found.gains.set(o.gains * np.linspace(0.5, 2, o.n_inputs)[:, np.newaxis], 200) == 256
    return found


def test_each_gpu_gets_the_rows_that_are_its(opened, observe):
    """What the exchange gives is what was made, wherever it lay; and nothing is written that is still read."""
    o = spread_over(observe, 5, [0, 1, 2])
    several, slabs, random = [opened(n) for n in range(3)], Slabs(o, 3, 128), fresh.rng()
    rows = random.integers(-127, 128, (6, 2, 5, o.fengine.channels, o.pols, 128), dtype=np.int8)
    assert sum(slabs.nbytes(s, d) for s in range(3) for d in range(3)) == rows[0].nbytes
    rings = [
        Ring("made", lambda g=gpu, a=some: Block(g.empty((2, len(a), *rows.shape[3:]), np.int8)), 2, device_writer=True)
        for gpu, some in zip(several, slabs.antennas, strict=True)
    ]
    streams = [gpu.stream() for gpu in several]
    rooms = Rooms(several, slabs)
    exchange = Exchange(several, rooms, [ring.reader() for ring in rings])
    reader = exchange.out.reader()
    with Engine([], [exchange]) as engine:
        engine.start()
        for i, batch in enumerate(rows):
            for part, (ring, stream, some) in enumerate(zip(rings, streams, slabs.antennas, strict=True)):
                block = ring.room()
                block.free_on(stream)
                block.data.set(np.ascontiguousarray(batch[:, some.start : some.stop]), stream)
                rooms.place(part, 128 * i, stream)  # where the channelizer writes what is its own
                slabs.move(part, block.data, part, rooms._open[128 * i][0].data[part], stream)
                block.ready, block.start = stream.record(), 128 * i
                block.planes["valid"] = np.full((len(some) * o.pols, 128), i % 2 == 0)
                ring.put(block)
            got = reader.get(30)
            assert got.start == 128 * i and (got.planes["valid"] == (i % 2 == 0)).all()
            for gpu, data, ready, of in zip(several, got.data, got.ready.events, slabs.channels, strict=True):
                stream = gpu.stream()
                stream.wait(ready)
                np.testing.assert_array_equal(data.get(stream=stream), batch[:, :, of.start : of.stop])
            got.release()
        for ring in rings:
            ring.close()
        engine.wait(30)


def test_batches_that_differ_end_the_engine(opened, observe):
    o = spread_over(observe, 2, [0, 0])
    several = [opened(0)] * 2
    rings = [Ring("made", lambda: Block(None), 2) for _ in several]
    exchange = Exchange(several, Rooms(several, Slabs(o, 2, 128)), [ring.reader() for ring in rings])
    with Engine([], [exchange]) as engine, pytest.raises(RuntimeError, match="different batches"):
        engine.start()
        for i, ring in enumerate(rings):
            block = ring.room()
            block.start = 128 * i
            ring.put(block)
        engine.wait(30)


def test_what_cannot_be_spread():
    assert [len(part) for part in shares(7, 3)] == [2, 2, 3] and shares(7, 3)[-1].stop == 7
    with pytest.raises(ValueError, match="64 channels in 2 groups on 2 GPUs"):
        SpreadCorrelator(CorrelatorConfig(4, 64, 2, 2), [None, None])
