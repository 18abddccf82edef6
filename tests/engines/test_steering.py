"""Losses, delay steps and gain changes where hypothesis puts them: engines on a GPU, on a CPU, and one call at a time."""

import gc
import itertools
from dataclasses import astuple, dataclass, field

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fresh
from emulation import EmulatedGpu
from emulation.deferred import DeferredGpu
from feeding import Given, blocks_of, run, through
from ryle.array.delays import Delays, LinearDelayModel, window_centres
from ryle.array.observed import phase_centre, phase_tracker
from ryle.channelize import Blocks, cuda
from ryle.channelize.reference import ReferenceChannelizer
from ryle.chunk import SampleChunk, SpectraChunk, parts_from_rows, valid_words
from ryle.config import changed
from ryle.correlate import CorrelatorConfig, make_correlator
from ryle.correlate import cuda as correlate_cuda
from ryle.engines import gpus, steering
from ryle.engines.f import FEngine, f_steps
from ryle.engines.f_config import channelizer_config
from ryle.engines.fx import fx_steps
from ryle.engines.steering import Steering
from ryle.gpu import gpu_problem, open_gpu
from ryle.receive.windows import SampleBuffer, window_shape
from ryle.simulate import VoltageSimulator

HEAP, PACKETS, BATCH = 512, 96, 64


@pytest.fixture(params=["late", "real"])
def gpus_of_tests(request, monkeypatch):
    """Gives a GPU: one that does everything as late as it may, or a real one; engines find it."""
    if request.param == "real" and (problem := gpu_problem()):
        pytest.skip(f"needs an NVIDIA GPU: {problem}")

    made = []
    monkeypatch.setattr(gpus, "open_gpu", lambda number: made[0])
    for module in (cuda, correlate_cuda):
        monkeypatch.setattr(module, "open_gpu", EmulatedGpu if request.param == "late" else lambda: made[0])

    def make(seed):
        made[:] = []
        gc.collect()  # each array of an emulated GPU has pages of its own, and their number is limited
        made.append(DeferredGpu(seed) if request.param == "late" else open_gpu())
        return made[0]

    return make


@dataclass
class Stepping:
    """Delays that step, in place of geometry: for each input a delay from each packet on."""

    steps: list[list[tuple[int, float]]]
    rate: float
    segment: int = field(default=1 << 62)

    def check_max_delay(self, first, end):
        return 0.0

    def load(self, schedules, first, end):
        for schedule, steps in zip(schedules, self.steps, strict=True):
            if not schedule.models:
                schedule.extend(
                    [LinearDelayModel(p * HEAP, self.rate, d / self.rate, 1e-7, 0.3 * d, 50.0) for p, d in steps]
                )


@st.composite
def streams(draw):
    """Boundaries of chunks; which packets are lost, what delays and gains step to, at some of the boundaries."""
    edges = sorted({0, PACKETS, *draw(st.lists(st.integers(1, PACKETS - 1), max_size=5))})
    lost = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, PACKETS - 1)), max_size=8))
    gap = draw(st.sampled_from([0, 0, 1, 7, 1 << 12]))
    delay = st.floats(-100, 100, allow_nan=False)
    delays = [[(0, draw(delay)), *((e, draw(delay)) for e in edges[1:-1] if draw(st.booleans()))] for _ in range(4)]
    gains = [(e, draw(st.floats(0.02, 60.0)), draw(st.integers(0, 1 << 30))) for e in edges[:-1] if draw(st.booleans())]
    return edges, lost, gap, delays, gains


def pieces_of(made, edges, lost, gap):
    """Cut samples; behind the middle, `gap` packets are missing."""
    present = made.present.copy()
    for stream, packet in lost:
        present[stream, packet] = 0
    middle = edges[len(edges) // 2]
    return [
        SampleChunk((a + gap * (a >= middle)) * HEAP, made.data[:, a:b].copy(), present[:, a:b].copy(), HEAP)
        for a, b in itertools.pairwise(edges)
    ]


def steered(o, gains):
    """Give steering with gains that change with the first batch that begins at or after a packet."""
    found = Steering(o, range(2))
    shape = (o.n_inputs, o.fengine.channels)
    for packet, size, seed in gains:
        random = np.random.default_rng(seed)
        values = size * (random.normal(size=shape) + 1j * random.normal(size=shape))
        first = found.gains.set(values, -(-packet * HEAP // o.step))
        assert first % BATCH == 0 and first * o.step >= packet * HEAP > (first - BATCH) * o.step
    return found


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(streams(), st.integers(0, 1 << 30))
def test_steps_and_losses_at_any_boundary(gpus_of_tests, monkeypatch, observe, stream, seed):
    edges, lost, gap, delays, gains = stream
    gpu = gpus_of_tests(seed)
    o = observe(antennas=2, bits=10, heap_samples=HEAP, integration_spectra=192)
    o = changed(o, fengine={"backend": "cuda", "batch": BATCH}, xengine={"backend": "cuda"})
    stepping = Stepping(delays, float(o.sample_rate))
    monkeypatch.setattr(steering, "phase_tracker", lambda *_: stepping)
    random = np.random.default_rng(seed)
    made = VoltageSimulator(observe(antennas=2, bits=10, heap_samples=HEAP)).chunk(0, PACKETS * HEAP)
    made.data[...] = random.integers(0, 256, made.data.shape)  # ADCs that clip, too
    pieces = pieces_of(made, edges, lost, gap)

    on_cpu = changed(o, fengine={"backend": "cpu"}, xengine={"backend": "cpu"})
    wanted = run(FEngine(on_cpu, range(2), Blocks(), steered(on_cpu, gains)), pieces)
    assert any(s.valid.any() for s in wanted)

    ring, feed = blocks_of(gpu, pieces)
    _, steps, out = f_steps(o, range(2), Blocks(), ring.reader(), Given(), gpu, steering=steered(o, gains))
    got = []
    through(steps, feed, out, lambda b: got.append((b.start, b.planes["valid"].copy(), np.array(b.data))))
    differ = values = 0
    for (first, valid, data), b in zip(got, wanted, strict=True):
        assert first == b.first_spectrum
        np.testing.assert_array_equal(valid, b.valid)
        here = np.broadcast_to(valid.reshape(len(valid), -1, 64).transpose(1, 0, 2), (*data.shape[:3], 64))
        difference = (parts_from_rows(data).astype(int) - parts_from_rows(b.data))[here]
        assert np.abs(difference).max(initial=0) <= 1
        differ, values = differ + np.count_nonzero(difference), values + difference.size
    assert differ <= max(5, 1e-4 * values)

    # Of the spectra that the GPU made, a CPU's sums are the same integers.
    x = make_correlator(CorrelatorConfig(4, o.fengine.channels, 2, 1), "cpu")
    ring, feed = blocks_of(gpu, pieces)
    *steps, _ = fx_steps(o, ring, Given(), lambda: None, [gpu], steered(o, gains))
    sums, integrations = steps[-1].outputs[0], {}
    sums._readers.clear()

    def keep(block):
        one = block.data
        integrations[one.first_spectrum] = (one.visibilities.copy(), one.counts.copy())

    through(steps, feed, sums, keep)
    by_number = {}
    for first, valid, data in got:
        by_number.setdefault(first // 192 * 192, []).append((first, valid, data))
    for number, batches in by_number.items():
        x.reset()
        for first, valid, data in batches:
            words = np.ascontiguousarray(valid_words(valid).T[np.newaxis])
            x.accumulate(SpectraChunk(first // 64, data, words), 0, BATCH // 64)
        if not any(valid.any() for _, valid, _ in batches):
            assert number not in integrations
            continue
        reading = x.start_read(number, 192, 0)
        reading.wait()
        np.testing.assert_array_equal(integrations[number][0], reading.integration.visibilities)
        np.testing.assert_array_equal(integrations[number][1], reading.integration.counts)


def test_gains_change_with_a_batch_and_only_those_that_fit(observe):
    o = changed(observe(antennas=2), fengine={"batch": BATCH})
    s = Steering(o, range(1, 2))
    shape = 2, o.fengine.channels
    np.testing.assert_array_equal(s.new_gains(0), o.gains[2:])
    assert s.new_gains(BATCH) is None
    assert s.gains.set(2.0, 0) == 2 * BATCH  # the batch before has been begun
    assert s.gains.set(3.0, 5 * BATCH - 1) == 5 * BATCH
    assert s.gains.set(4.0, 3 * BATCH + 1) == 4 * BATCH  # what was queued behind it is forgotten
    for bad, told in ((np.nan, "finite"), (np.ones(3), "do not fit")):
        with pytest.raises(ValueError, match=told):
            s.gains.set(bad)
    found = [s.new_gains(i * BATCH) for i in range(2, 7)]
    assert [None if g is None else g[0, 0].real for g in found] == [2.0, None, 4.0, None, None]
    assert found[0].shape == shape


def test_engines_that_share_gains_change_them_with_the_same_batch(observe):
    """However far one of them has come; each gets its own inputs' gains."""
    o = changed(observe(antennas=3), fengine={"batch": BATCH})
    whole = Steering(o, range(3))
    parts = [whole.part(range(1)), whole.part(range(1, 3))]
    for part, first in zip(parts, (0, 2), strict=True):
        np.testing.assert_array_equal(part.new_gains(0), o.gains[first : first + len(part.delays(0).fine)])
    assert [parts[0].new_gains(n * BATCH) for n in range(1, 4)] == [None] * 3  # the other is at batch 0
    new = np.arange(6 * o.fengine.channels).reshape(6, -1) + 1j
    assert whole.gains.set(new, BATCH) == 4 * BATCH
    assert [parts[1].new_gains(n * BATCH) for n in range(1, 4)] == [None] * 3
    np.testing.assert_array_equal(parts[1].new_gains(4 * BATCH), new[2:].astype(np.complex64))
    np.testing.assert_array_equal(parts[0].new_gains(4 * BATCH), new[:2].astype(np.complex64))
    assert parts[0].new_gains(0) is None  # a sender that has started again


def test_delays_that_others_set_replace_geometry_where_they_begin(observe):
    """Of that input only, whoever of those that share the antennas is told; geometry does not come back."""
    o = observe(antennas=3, max_delay=1e-5)
    rate, geometry = float(o.sample_rate), Steering(o, range(3))
    whole = Steering(o, range(3))
    part = whole.part(range(1, 3))
    change = 10 * BATCH * o.step
    assert whole.set_delay(3, LinearDelayModel(change, rate, 3.25 / rate, 0.0, 1.5, 0.0)) == change
    for first in (0, 10 * BATCH, 10**7 * BATCH):  # the last lies far beyond what was loaded first
        got, wanted = part.delays(first), geometry.delays(first)
        centres = window_centres(first, got.fine.shape[1], o.fengine.channels, o.fengine.taps)
        set_there = centres - centres[0] + first * o.step >= change
        np.testing.assert_array_equal(got.phase[1], np.where(set_there, 1.5, wanted.phase[3]))
        total = np.where(set_there, 3.25, wanted.coarse[3] + wanted.fine[3])
        np.testing.assert_allclose(got.coarse[1] + got.fine[1], total, rtol=0, atol=1e-9)
        for i in (0, 2, 3):
            np.testing.assert_array_equal(got.phase[i], wanted.phase[2 + i])
    with pytest.raises(ValueError, match=r"beyond fengine\.max_delay"):
        whole.set_delay(0, LinearDelayModel(0, rate, 1.1e-5))


def test_geometry_holds_until_what_others_set_begins(observe):
    """However far ahead that is: also where geometry is loaded after it was set."""
    o = observe(antennas=2)
    geometry, steering = Steering(o, range(2)), Steering(o, range(2))
    rate, batch = float(o.sample_rate), window_shape(o).batch
    (tracking,) = steering._tracking.values()
    far = 10 * tracking.loaded[1] // o.step // batch * batch
    told = [
        steering.set_delay(1, LinearDelayModel(0, rate, d, 1e-9), sample=far * o.step + extra)
        for d, extra in ((2e-9, 0), (1e-9, 64 * o.step - 1))
    ]
    assert told == [far * o.step, (far + 64) * o.step]
    for first in (0, batch, far - batch, far):
        got, wanted = steering.delays(first), geometry.delays(first)
        if first < far:
            np.testing.assert_array_equal(got.fine, wanted.fine)
            np.testing.assert_array_equal(got.phase, wanted.phase)
            continue
        centres = window_centres(first, batch, o.fengine.channels, o.fengine.taps)
        base = np.where(np.arange(batch) < 64, 2e-9, 1e-9)
        np.testing.assert_allclose(got.coarse[1] + got.fine[1], base * rate + 1e-9 * centres, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(got.fine[[0, 2, 3]], wanted.fine[[0, 2, 3]])
    assert steering.next == (far + batch) * o.step
    assert steering.set_delay(0, LinearDelayModel(0, rate)) == (far + batch) * o.step  # as soon as it can
    np.testing.assert_allclose(steering.now(), (got.coarse[:, -1] + got.fine[:, -1]) / rate, rtol=1e-12, atol=0)


def test_gains_of_some_inputs(observe):
    """Each input keeps its own from when on; later ones of the same input are forgotten, others' are not."""
    o = changed(observe(antennas=2), fengine={"batch": BATCH})
    s = Steering(o, range(2))
    s.new_gains(0)
    assert s.gains.set(2.0, 4 * BATCH, [1]) == 4 * BATCH
    assert s.gains.set(3.0, 2 * BATCH, [0, 1]) == 2 * BATCH
    assert s.gains.set(4.0, 2 * BATCH, [3]) == 2 * BATCH
    assert s.gains.set(5.0, 4 * BATCH, [0]) == 4 * BATCH
    for bad in ([4], [-1]):
        with pytest.raises(ValueError, match="there is no input"):
            s.gains.set(1.0, 0, bad)
    old = o.gains[2, 0]
    found = [s.new_gains(i * BATCH) for i in range(1, 6)]
    assert [g is None for g in found] == [True, False, True, False, True]
    np.testing.assert_allclose(found[1][:, 0], [3, 3, old, 4])
    np.testing.assert_allclose(found[3][:, 0], [5, 3, old, 4])
    assert s.gains.next == 6 * BATCH


def test_many_delays_are_forgotten_when_they_have_passed(observe):
    o = observe(antennas=2)
    steering = Steering(o, range(2))
    for i in range(1, 1000):
        steering.set_delay(i % 4, LinearDelayModel(i * o.step, float(o.sample_rate), 1e-8))
        steering.delays(i // 64 * 64)
    assert max(len(schedule.models) for p in steering._shared.periods for schedule in p.schedules) < 100


def elsewhere(o, ra=200.0):
    return changed(o, phase_centre={"ra": ra, "dec": -31.0, "name": "elsewhere"})


def assert_delays(got, wanted, spectra=slice(None), inputs=slice(None)):
    for name in ("coarse", "fine", "phase"):
        np.testing.assert_array_equal(
            getattr(got, name)[inputs, spectra], getattr(wanted, name)[inputs, spectra], err_msg=name
        )


@pytest.mark.parametrize("far", [False, True])
def test_another_phase_centre_from_a_spectrum_on(observe, far):
    """To the last bit as if it had always been tracked, in the middle of a batch too, and before it nothing changes."""
    o = changed(observe(antennas=3), fengine={"batch": 4 * BATCH, "max_delay": 1e-5})
    batch, wanted = window_shape(o).batch, elsewhere(o)
    assert batch == 4 * BATCH
    old, new, whole = Steering(o, range(3)), Steering(wanted, range(3)), Steering(o, range(3))
    parts = [whole.part(range(1)), whole.part(range(1, 3))]
    rate = float(o.sample_rate)
    whole.set_delay(3, LinearDelayModel(0, rate, 1e-7))  # until then
    change = (10_000 if far else 3) * batch + 128
    assert whole.set_phase_centre(phase_centre(wanted), change - 63) == change
    for first in (0, batch, change - 128, change - 128 + batch, change - 128 + 7 * batch):
        before, after = old.delays(first), new.delays(first)
        assert (before.phase != after.phase).any()
        cut = min(max(change - first, 0), batch)
        for part, inputs in zip(parts, (slice(0, 2), slice(2, 6)), strict=True):
            room = Delays.zero(inputs.stop - inputs.start, batch) if inputs.start else None
            got = part.delays(first, room)
            assert room is None or got is room
            for i in range(inputs.start, inputs.stop):
                if i != 3:
                    assert_delays(got, Delays(*(a[inputs] for a in astuple(before))), slice(cut), i - inputs.start)
                elif cut:
                    np.testing.assert_allclose(got.fine[1, :cut] + got.coarse[1, :cut], 1e-7 * rate)
            assert_delays(got, Delays(*(a[inputs] for a in astuple(after))), slice(cut, None))
    assert len(whole._shared.periods) == 1  # what has passed for all is forgotten
    np.testing.assert_allclose(whole.now(), (after.coarse[:, -1] + after.fine[:, -1]) / rate, rtol=1e-12)


def test_phase_centres_are_queued_and_replaced_by_their_times(observe):
    """As models are: what was queued for the time of another, or later, is dropped. Units are kept."""
    o = changed(observe(antennas=2), fengine={"batch": BATCH, "max_delay": 1e-5})
    s, rate = Steering(o, range(2)), float(o.sample_rate)
    directions = {ra: phase_centre(elsewhere(o, ra)) for ra in (200.0, 210.0, 220.0)}
    assert s.set_phase_centre(directions[200.0], 300, 192) == 384
    assert s.set_phase_centre(directions[210.0], 900, 192) == 960
    assert s.set_delay(1, LinearDelayModel(0, rate, 2e-7), sample=640 * o.step) == 640 * o.step
    assert s.set_phase_centre(directions[220.0], 800) == 832
    wanted = {ra: Steering(elsewhere(o, ra), range(2)) for ra in directions}
    for first in range(0, 1152, BATCH):
        got = s.delays(first)
        for ra, begin, end in ((200.0, 384, 832), (220.0, 832, 1152)):
            if begin <= first < end:
                ours = [0, 2, 3] if 640 <= first < 832 else slice(None)
                assert_delays(got, wanted[ra].delays(first), inputs=ours)
        if 640 <= first < 832:
            np.testing.assert_allclose(got.fine[1] + got.coarse[1], 2e-7 * rate)
    assert s.set_phase_centre(None, 0) == 1152  # as soon as it can
    got = s.delays(1152)
    assert (np.ptp(got.phase, axis=1) == 0).all() and (np.ptp(wanted[220.0].delays(1152).phase, axis=1) > 0).any()


def test_a_phase_centre_beyond_the_reach_of_delays_is_refused(observe):
    o = changed(observe(antennas=2), fengine={"max_delay": 1e-5})
    near, far = sorted(
        (o, elsewhere(o)), key=lambda o: phase_tracker(o, phase_centre(o)).check_max_delay(0, o.end_sample)
    )
    least = phase_tracker(near, phase_centre(near)).check_max_delay(0, near.end_sample)
    narrow = changed(near, fengine={"max_delay": least + 2e-9})
    s = Steering(narrow, range(2))
    with pytest.raises(ValueError, match="exceeds max_delay"):
        s.set_phase_centre(phase_centre(far), 1000)
    assert_delays(s.delays(1024), Steering(near, range(2)).delays(1024))
    assert s.set_phase_centre(phase_centre(near), 0) == 1024 + len(s.delays(0).fine[0])


def test_gains_at_a_batch_are_those_of_the_reference(observe):
    """Spectra before and after a change are what float64 makes with the old gains and with the new ones."""
    o = changed(observe(antennas=2), fengine={"batch": BATCH})
    shape, config = window_shape(o), channelizer_config(o, range(2))
    steered_one, again = Steering(o, range(2)), Steering(o, range(2))
    new = np.exp(2j * np.pi * fresh.rng().random((config.inputs, config.channels))) * 2
    made = VoltageSimulator(o).chunk(0, PACKETS * o.digitizer.heap_samples)
    change = steered_one.gains.set(new, 100)
    engine, reference, buffer = (
        FEngine(o, range(2), Blocks(), steered_one),
        ReferenceChannelizer(config),
        SampleBuffer(shape),
    )
    spectra = run(engine, [made])
    assert change == 128 and spectra[-1].first_spectrum > change
    windows = [*buffer.push(made), *buffer.flush()]
    for got, (first, window) in zip(spectra, windows, strict=True):
        reference.set_gains(new if first >= change else o.gains)
        wanted = reference.process(window.gathered(), first, BATCH, again.delays(first), Blocks())
        np.testing.assert_array_equal(got.valid, wanted.valid)
        assert np.abs(got.data.astype(int) - wanted.data).max() <= 1
        assert np.count_nonzero(got.data != wanted.data) <= max(5, 1e-3 * got.data.size)
