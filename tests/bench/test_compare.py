"""The comparison of two runs: right about independent roundings, and it sees what is not rounding."""

import io

import h5py
import pytest
from rich.console import Console

import fresh
from emulation import EmulatedGpu
from ryle.bench.compare import CAPTURE, backends, compare
from ryle.chunk import SampleChunk
from ryle.config import changed, load
from ryle.engines.offline import correlate_samples
from ryle.simulate import VoltageSimulator

PACKET = (0, 50)  # antenna and packet that one of the runs lacks; all others have it
AROUND = (0, slice(40, 61))  # and what windows with it reach: without those nothing would be lost with it


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Correlate the same samples, some of them missing, with another seed, cable delay or gain; give the file."""
    o = changed(load(CAPTURE), fengine={"channels": 256})
    size = o.digitizer.heap_samples
    made = VoltageSimulator(o).chunk(0, 100 * size)
    made.present[:] = fresh.rng().random(made.present.shape) > 0.02
    made.present[AROUND] = 1
    folder = tmp_path_factory.mktemp("runs")

    def make(name, delay=0.0, lost=False, **fengine):
        antennas = [
            a.model_copy(update={"cable_delay": [d + (delay if i == 1 else 0.0) for d in a.cable_delay]})
            for i, a in enumerate(o.array.antennas)
        ]
        present = made.present.copy()
        if lost:
            present[PACKET] = 0
        here = changed(o, fengine=fengine, array={"antennas": antennas})
        chunk = SampleChunk(made.timestamp, made.data, present, made.packet_samples)
        band = (here, folder / f"{name}.uvh5", None)
        correlate_samples([band], lambda _: [(0, chunk)], lambda at: 1.0, Console(file=io.StringIO()), True)
        return folder / f"{name}.uvh5"

    make("one", seed=1)
    return make


def test_the_same_is_the_same(run):
    found = compare(run("a", seed=1), run("b", seed=1))
    assert (
        found.identical and found.agree and found.rms == 0 == found.as_if and found.equal == found.visibilities > 10000
    )
    assert "agree within quantization noise" in str(found)


def test_independent_roundings_have_the_standard_deviation_that_is_computed(run):
    found = compare(run("a", seed=1), run("b", seed=2))
    assert found.same_presence and found.agree and not found.identical
    # A fifth of the visibilities of a single spectrum are equal by chance, and losses may leave many of those.
    assert 0.95 < found.rms < 1.05 and found.equal < 0.5 * found.visibilities
    assert 0.2 < found.as_if < 0.5  # a part has an error of 1/6 in either run


def test_a_small_delay_gain_or_loss_is_seen(run):
    a = run("a", seed=1)
    late = compare(a, run("late", seed=2, delay=1.25e-9))  # a hundredth of a sample
    assert not late.agree and late.same_presence and late.largest_mean > late.mean_limit
    gain = compare(a, run("gain", seed=2, gain=1.001))
    assert not gain.agree and gain.largest < gain.limit
    lost = compare(a, run("lost", seed=1, lost=True))
    assert not lost.agree and not lost.same_presence


def test_other_observations_are_refused(run, tmp_path):
    a = run("a", seed=1)
    other = tmp_path / "other.uvh5"
    other.write_bytes(a.read_bytes())
    with h5py.File(other, "r+") as file:
        file["Header/time_array"][...] += 1
    with pytest.raises(ValueError, match="differ in antennas"):
        compare(a, other)


def test_the_x_engine_on_a_gpu_is_exact(tmp_path, monkeypatch):
    """From one capture, packets missing, on an emulated GPU; and a count that is off by one is seen."""
    monkeypatch.setattr("ryle.correlate.cuda.open_gpu", EmulatedGpu)
    o = changed(load(CAPTURE), fengine={"channels": 128}, observation={"duration": "0.03 s"})
    o = changed(o, xengine={"integration": "2.048 ms"}, simulate={"speed": "max"})
    found = backends(o, "xengine", tmp_path)
    assert found.identical and found.visibilities > 1000
    file = tmp_path / "xengine-cuda" / "capture.uvh5"
    with h5py.File(file, "r+") as written:
        assert written["Data/nsamples"][()].min() < written["Data/nsamples"][()].max()  # packets are missing
        written["Data/nsamples"][0, 0, 0] += 1
    assert not compare(tmp_path / "cpu" / "capture.uvh5", file).identical
