"""What the GPU form needs is said, and what a computer lacks is a doubt, not a mistake."""

from types import SimpleNamespace

import pytest

from emulation import EmulatedGpu
from ryle.channelize.cuda_kernels import compile_variants
from ryle.config import changed, example, load
from ryle.correlate import CorrelatorConfig
from ryle.correlate.cuda import CudaCorrelator
from ryle.engines import budget, gpus
from ryle.engines import devices as gpu
from ryle.engines.fx_engine import fx_engine


def cautions(o):
    return list(gpu.gpu_cautions(o))


SMALL = SimpleNamespace(name="Turing", arch="sm_75", shared_bytes=65536)
RTX = SimpleNamespace(name="RTX", arch="sm_89", shared_bytes=101376)


@pytest.fixture
def observed(monkeypatch):
    """Make an observation with the GPU form, on a computer with a GPU or without."""
    gpu._opened.cache_clear()

    def make(here, bits=8, **fengine):
        answer = (here, None) if here is not None else (None, "no driver")
        monkeypatch.setattr(gpu, "_opened", lambda: answer)
        o = load(example("paper128"))
        fengine = {"backend": "cuda", "taps": 16, **fengine}
        return changed(
            o, digitizer={"bits": bits, "heap_samples": 4096}, fengine=fengine, xengine={"channels_per_substream": None}
        )

    return make


def test_a_gpu_that_can(observed):
    o = observed(RTX, channels=8192)
    assert gpu.here(o) == ("RTX", None) and cautions(o) == []
    assert "any from Ampere on" in gpu.needs(o)


def test_a_gpu_that_cannot(observed):
    o = observed(SMALL, bits=10, channels=65536, taps=32)
    (caution,) = [c for c in cautions(o) if c.key == "fengine.backend"]
    assert "shared memory" in caution.remedy and "65536" in caution.remedy
    assert gpu.here(observed(RTX, bits=10, channels=65536, taps=32))[1] is None


def test_no_gpu(observed):
    o = observed(None)
    (caution,) = cautions(o)
    assert caution.key == "fengine.backend" and "no driver" in caution.remedy


def test_sums_that_the_gpu_cannot_hold(observed):
    """Of 128 inputs and 65536 channels 21.9 GB: too much for a GPU of 16 GB, and enough for one of 24 GB."""
    small, large = (SimpleNamespace(**vars(RTX), memory_bytes=size) for size in (16 * 10**9, 24 * 10**9))
    for here, said in ((small, True), (large, False)):
        o = changed(observed(here, channels=65536), xengine={"backend": "cuda"})
        found = [c.remedy for c in cautions(o) if c.key == "xengine.channels_per_substream"]
        assert len(found) == said and all("21.88 GB" in r and "16 GB" in r for r in found), found


def test_sums_are_what_a_correlator_holds(observe):
    o = observe(antennas=16, channels=64, sub=64)
    emulated = EmulatedGpu()
    correlator = CudaCorrelator(CorrelatorConfig(o.n_inputs, o.substream_channels, o.pols, o.groups), gpu=emulated)
    correlator.read(0, 64, 0)
    held = sum(memory.nbytes for memory in emulated.allocations.held())
    assert gpu.x_engine_sums(o) <= held < 1.01 * gpu.x_engine_sums(o)


def test_the_device_is_looked_for_without_raising(monkeypatch):
    def refuse():
        raise gpu.GpuUnavailable("none here")

    gpu._opened.cache_clear()
    monkeypatch.setattr(gpu, "open_gpu", refuse)
    assert gpu._opened() == (None, "none here")
    gpu._opened.cache_clear()


def test_devices_are_those_that_kernels_are_compiled_for():
    compiled = {
        arch for variant in compile_variants() for arch in variant.architectures if len(variant.architectures) == 1
    }
    assert {arch for arch, *_ in gpu.DEVICES} == compiled


def test_backends_on_gpus(monkeypatch):
    on_gpu = changed(load(example("paper128")), xengine={"backend": "cuda"})
    monkeypatch.setattr("ryle.engines.devices._opened", lambda: (None, "no driver; install it"))
    assert [str(p.key) for p in cautions(on_gpu)] == ["xengine.backend"]
    assert "no driver; install it" in cautions(on_gpu)[0].remedy
    monkeypatch.setattr("ryle.engines.devices._opened", lambda: (SimpleNamespace(memory_bytes=1 << 40), None))
    assert cautions(on_gpu) == []


def test_one_process_for_both(monkeypatch):
    """One caution for both halves; the GPU looked at is the one that [fx] names; sums that do not fit name what would."""
    o = changed(load(example("alma72")), fx={"gpus": [2]})
    asked = []
    monkeypatch.setattr(gpu, "_opened", lambda number: asked.append(number) or (None, "no driver; install it"))
    (caution,) = cautions(o)
    assert caution.key == "fx.backend" and caution.remedy.startswith("FX will not start on this computer: no driver")
    tiny = SimpleNamespace(**vars(RTX), memory_bytes=1 << 20)
    monkeypatch.setattr(gpu, "_opened", lambda number: asked.append(number) or (tiny, None))
    (caution,) = cautions(o)
    assert caution.key == "fengine.channels" and "makes FX take" in caution.remedy and "has 1.049 MB" in caution.remedy
    assert set(asked) == {2}
    answers = {0: (SimpleNamespace(**vars(RTX), memory_bytes=1 << 50), None), 7: (None, "there are 2")}
    monkeypatch.setattr(gpu, "_opened", answers.get)
    (caution,) = cautions(changed(o, fx={"gpus": [0, 7]}))  # each of several is looked at
    assert (caution.key, caution.value) == ("fx.gpus", 7) and "there are 2" in caution.remedy


@pytest.mark.parametrize(
    ("size", "shared"),
    [
        ({"antennas": 5, "channels": 256, "taps": 8}, []),
        ({"channels": 1024, "bits": 4}, []),
        ({"antennas": 4, "channels": 256, "taps": 8}, [0, 0]),
    ],
)
def test_one_process_takes_what_is_stated(observe, monkeypatch, size, shared):
    made = EmulatedGpu()
    monkeypatch.setattr(gpus, "open_gpu", lambda *number: made)
    o = observe(sends="rows", sub=size["channels"], **size)
    o = changed(o, fx={"backend": "cuda", "gpus": shared}, fengine={"batch": 512}, simulate={"speed": "max"})
    engine, _ = fx_engine(o, lambda: None)
    with engine:
        held = sum(memory.nbytes for memory in made.allocations.held())
    stated = o.fx_gpus * gpu.fx_bytes(o, made)
    assert stated <= held < 1.03 * stated
    assert [m.name.split(",")[0] for m in budget.memory(o)] == [
        "FX receive ring",
        "FX sums",
        "FX slabs of the file",
    ]
