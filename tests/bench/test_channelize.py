"""What the GPU benchmark says of its own measurements; how fast anything is, is no matter of tests."""

import json
import time

import numpy as np
import pytest

from emulation import EmulatedGpu
from ryle.bench import channelize, cufft, cufftdx, gpu_timing, measured
from ryle.bench.ahead import compile_ahead
from ryle.bench.channelize import (
    Arena,
    ThreeKernelsMeasured,
    case_rows,
    delays_of,
    form_of,
    form_rows,
    gains_of,
)
from ryle.bench.gpu_timing import Budget, Times, interleave, record
from ryle.bench.measured import Case, Prepared, forms, long_launch, many_streams, matrix
from ryle.bench.results import Row, as_json, table
from ryle.bench.three_kernels import Tuning
from ryle.gpu import GpuUnavailable, gpu_problem, open_gpu


class NumpyTransforms:
    name = "numpy"

    def plan(self, size, batch):
        return lambda source, result, stream: result.set(np.fft.fft(source.get()).astype(np.complex64))


class Twice:
    """Stands for the fused form: launches the three kernels two times."""

    name = "fused"

    def __init__(self, gpu, arena):
        self.baseline = ThreeKernelsMeasured(gpu, arena)
        self.variants = self.baseline.variants

    def prepare(self, case):
        prepared = self.baseline.prepare(case)

        def launch(stream):
            prepared.launch(stream)
            prepared.launch(stream)

        return prepared and Prepared(launch)


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(channelize, "Cufft", NumpyTransforms)
    return EmulatedGpu()


class Clock:
    """A stream whose time passes as the work says."""

    handle = 0

    def __init__(self):
        self.now, self.calls = 0.0, []

    def record(self):
        event = Clock.Event()
        event.at = self.now
        return event

    def synchronize(self):
        pass

    class Event:
        def seconds_since(self, earlier):
            return self.at - earlier.at

    def work(self, name, seconds):
        def launch(stream):
            self.calls.append(name)
            self.now += seconds

        return launch

    def stream(self):
        return self


def test_work_takes_turns_for_the_time_given():
    clock = Clock()
    work = {"a": clock.work("a", 0.25), "b": clock.work("b", 0.0625)}
    times = interleave(work, clock, seconds=3.0, rounds=3, recorded=False)
    assert clock.calls[:4] == ["a", "a", "b", "b"]
    assert clock.calls[4:] == (["a"] * 2 + ["b"] * 8) * 3  # half a second each in each round
    assert times["a"].median == 0.25
    assert times["b"].quartiles == (0.0625, 0.0625)
    assert [times[name].repeats for name in "ab"] == [2, 8]
    slow = interleave({"c": clock.work("c", 5.0)}, clock, seconds=0.0, rounds=5, recorded=False)
    assert slow["c"].seconds == [5.0] * 5


def test_short_launches_are_recorded_together(monkeypatch):
    clock, recorded = Clock(), []

    def record(launch, stream, times=1):
        recorded.append(times)
        return lambda stream: [launch(stream) for _ in range(times)]

    monkeypatch.setattr(gpu_timing, "record", record)
    work = {
        "short": clock.work("short", 2.0**-13),
        "tiny": clock.work("tiny", 2.0**-20),
        "long": clock.work("long", 0.5),
    }
    times = interleave(work, clock, seconds=6.0, rounds=2)
    assert recorded == [1, 9, 1, 64, 1]  # of a millisecond together, but no more than 64
    assert [times[name].median for name in work] == [2.0**-13, 2.0**-20, 0.5]
    assert [times[name].repeats for name in ("short", "long")] == [9 * 910, 2]


def test_quartiles_are_not_those_of_a_smooth_curve():
    assert Times([1.0, 2.0, 9.0], 1).quartiles == (1.0, 9.0)
    low, high = Times([1.0, 2.0, 3.0, 4.0, 9.0], 1).quartiles
    assert 1 < low < 3 < high < 9


def test_what_cannot_be_recorded_is_launched():
    """No emulated stream can be recorded, and a machine without a driver has none to record with."""
    clock = Clock()
    launch = clock.work("a", 1.0)
    found = record(launch, clock)
    before = clock.now
    found(clock)
    assert clock.now == before + 1


def test_time_that_is_left_over_goes_to_the_rest(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    budget = Budget(10.0, 4.0)
    assert budget.take(1.0) == pytest.approx(2.5)
    now[0] += 1  # it took less
    assert budget.take(1.0) == pytest.approx(3.0)
    now[0] += 6  # and this more
    assert budget.take(1.0) == pytest.approx(1.5)
    now[0] += 60
    assert budget.take(1.0) == 0


def test_a_case_counts_its_samples_and_bytes():
    case = Case(1024, 16, 10, streams=2, spectra=128)
    assert case.samples == 2 * 128 * 2048
    assert (case.bytes_in, case.bytes_out) == (case.samples * 10 // 8, case.samples)
    assert case.floor == 2.25
    used = (128 + 15) * 2048 + 2 * 1024  # windows and the greatest coarse delay
    assert case.stream_bytes * 8 >= used * 10
    assert case.stream_bytes % (4096 * 10 // 8) == 0
    for bits in measured.BITS:
        assert Case(64, 4, bits).stream_bytes % 4 == 0


def test_the_matrix_is_that_of_the_issue():
    cases = matrix()
    assert len(cases) == len({str(case) for case in cases}) == 4 * 23
    everything = {
        (c.channels, c.taps, c.bits) for c in [*cases, *(f for n in measured.CHANNELS for f in forms(n).values())]
    }
    assert everything == {(n, t, b) for n in measured.CHANNELS for t in measured.TAPS for b in measured.BITS}
    assert all(case.samples == measured.LONG for case in cases)
    assert {case.channels for case in matrix(full=True)} == {1 << k for k in range(6, 17)}
    many = many_streams(4096)
    assert (many.streams, many.spectra * 8192) == (512, 1 << 21)
    assert many_streams(32768).spectra == 128
    assert forms(1024)["short launch"].spectra * 2048 == 1 << 20
    assert set(forms(4096)) == {*forms(8192), "short launch", "two short streams"}
    for form, (other, _) in measured.KEPT.items():
        assert {form, other} <= set(forms(1024))


def test_random_samples_come_out_at_thirty_levels(gpu):
    """Or the measured form would quantize zeros, or saturate."""
    case = Case(64, 4, 10, streams=2, spectra=128)
    arena = Arena(gpu, [case])
    stream = gpu.stream()
    ThreeKernelsMeasured(gpu, arena).prepare(case).launch(stream)
    values = arena.out(case).get(stream=stream).astype(float)
    assert values.shape == (64, 2, 2, 128)
    assert 25 < values[1:].std() < 35
    assert gains_of(case).shape == (2, 64)
    delays = delays_of(case)
    assert delays.coarse.max() <= 0
    assert -delays.coarse.min() + (case.spectra + case.taps - 1) * 128 <= case.stream_bytes * 8 // case.bits


def test_rows_of_a_case(gpu, monkeypatch):
    monkeypatch.setattr(measured, "LONG", 1 << 14)
    case = long_launch(64, 1)
    assert case.spectra == 64
    arena = Arena(gpu, [case])
    seconds = {"fused": [1e-6, 2e-6, 4e-6], "three kernels": [3e-6, 8e-6, 16e-6]}
    other = [1e-6, 1e-6, 1e-6]
    monkeypatch.setattr(
        channelize,
        "interleave",
        lambda work, *_, **__: {name: Times(seconds.get(name, other), 5) for name in work},
    )
    rows = {r.case: r for r in case_rows(gpu, case, Twice(gpu, arena), ThreeKernelsMeasured(gpu, arena), 0.0)}
    assert list(rows) == ["fused", *(f"three kernels{part}" for part in ("", ": FIR", ": FFT", ": rest"))]
    fused = rows["fused"]
    assert (fused.unit, fused.baseline, fused.ratio) == ("Gsample/s", "three kernels", 4.0)
    assert fused.value == pytest.approx(case.samples / 2e-6 / 1e9)
    assert fused.baseline_value == pytest.approx(case.samples / 8e-6 / 1e9)
    assert fused.spread == pytest.approx((case.samples / 4e-6 / 1e9, case.samples / 1e-6 / 1e9))
    assert fused.more["seconds"] == pytest.approx(7e-6 * 5)
    assert rows["three kernels: FIR"].more["bytes"] == 5.25
    assert rows["three kernels"].more["streams"] == 2


def test_forms_are_held_against_each_other(gpu, monkeypatch):
    """Rates are of a case's own samples; a form of the fused one is compared with the three kernels and with another."""
    monkeypatch.setattr(measured, "LONG", 1 << 15)
    monkeypatch.setattr(measured, "SHORT", 1 << 13)
    monkeypatch.setattr(measured, "MANY", 8)
    group = forms(64)
    arena = Arena(gpu, group.values())
    assert group[""].samples == 1 << 15 and group["many streams"].samples == 1 << 17

    class Fused(Twice):
        def prepare(self, case):
            return super().prepare(case) or Prepared(lambda stream: None)  # packets

    def interleave(work, *_, **__):
        return {
            (name, form): Times([1e-6 if name == "fused" and form != "packet table" else 2e-6] * 3, 5)
            for name, form in work
        }

    monkeypatch.setattr(channelize, "interleave", interleave)
    found = form_rows(gpu, group, Fused(gpu, arena), ThreeKernelsMeasured(gpu, arena), 0.0)
    fused = [r for r in found if r.case == "fused"]
    plain = fused[0]
    assert (plain.ratio, plain.baseline, plain.target) == (2.0, "three kernels", None)
    assert {r.case for r in found} == {
        "fused",
        "three kernels",
        *(f"three kernels: {p}" for p in ("FIR", "FFT", "rest")),
    }
    kept = {(r.baseline, r.more["streams"], r.more["policy"], r.more["layout"], r.size["bits"]): r for r in fused}
    table = kept["fused, plain", 2, "table", "blocks", 10]
    assert (table.ratio, table.least, table.baseline_value) == (0.5, 0.85, plain.value)
    assert not any(r.more["policy"] == "table" and r.baseline == "three kernels" for r in fused)
    many = kept["fused, one stream", 8, "flat", "blocks", 10]
    assert (many.ratio, many.least) == (4.0, 0.9)  # four times the samples in the same time
    assert many.value == pytest.approx(131072 / 1e-6 / 1e9)
    assert kept["fused, plain", 2, "flat", "blocks", 8].least == 1.0
    assert kept["fused, plain", 2, "flat", "interleaved", 10].least is None
    assert kept["three kernels", 2, "flat", "interleaved", 10].ratio == 2.0


@pytest.fixture(params=["emulated", "real"])
def any_gpu(request):
    if request.param == "emulated":
        return request.getfixturevalue("gpu")
    if problem := gpu_problem() or cufft.cufft_problem():
        pytest.skip(f"needs an NVIDIA GPU: {problem}")
    return open_gpu()


@pytest.mark.parametrize("quick", [False, True])
def test_everything_runs(any_gpu, monkeypatch, quick):
    gpu = any_gpu
    for name, value in {
        "CHANNELS": (64,),
        "TAPS": (1,),
        "BITS": (8,),
        "LONG": 1 << 14,
        "SHORT": 1 << 13,
        "MANY": 4,
    }.items():
        monkeypatch.setattr(measured, name, value)
    monkeypatch.setattr(channelize, "KINDS", {} if isinstance(gpu, EmulatedGpu) else cufft.KINDS)
    told = []
    rows = channelize.measure(
        gpu, Twice, seconds=0.0, quick=quick, channels=(64,), compiled_ahead=False, progress=told.append
    )
    assert [r.case for r in rows[:2]] == ["HBM copy", "HBM copy: kernel"]
    assert rows[0].value == max(r.value for r in rows[1:3])
    assert {r.case for r in rows} >= {"fused", "three kernels"}
    assert any("1 taps" in text for text in told) != quick
    assert any(r.more.get("streams") == 4 for r in rows)
    assert any(r.more.get("layout") == "interleaved" for r in rows)
    assert all(r.value > 0 for r in rows)


def test_shapes_of_chunks_can_be_chosen(gpu):
    case = Case(64, 1, 8, streams=4, spectra=128)
    seen = []

    def tuning(case):
        seen.append(case)
        return Tuning(chunk_samples=128 * 128 * 2, lanes=2)

    prepared = ThreeKernelsMeasured(gpu, Arena(gpu, [case]), tuning).prepare(case)
    assert seen == [case]
    assert list(prepared.parts) == ["FIR", "FFT", "rest"]


def test_the_file_and_the_table():
    rows = [
        Row(
            "fused",
            301.23456,
            "Gsample/s",
            {"channels": 1024, "taps": 16, "bits": 10},
            baseline="three kernels",
            baseline_value=150.0,
            ratio=2.0,
            target=275.0,
            least=3.0,
        ),
        Row(
            "three kernels",
            90.0,
            "Gsample/s",
            {"channels": 8},
            spread=(89.0, 91.0),
            target=100.0,
            more={"streams": 512},
        ),
    ]
    saved = json.loads(as_json({"gpu": "some"}, rows))
    assert saved["machine"] == {"gpu": "some"}
    assert saved["results"][0]["value"] == 301.23
    assert {"case", "channels", "taps", "bits", "value", "unit", "baseline", "ratio"} <= set(saved["results"][0])
    assert saved["results"][1]["streams"] == 512
    assert (saved["results"][1]["channels"], saved["results"][1]["taps"]) == (8, None)  # all rows have the same keys
    shown = {column.header: list(column.cells) for column in table(rows, {"form": form_of}).columns}
    assert shown["target"] == ["[green]≥ 275[/]", "[red]≥ 100, missed[/]"]
    assert (shown["ratio"], shown["ratio's target"]) == (["2.000", ""], ["[red]≥ 3, missed[/]", ""])
    assert (shown["taps"], shown["form"]) == (["16", ""], ["", "512 streams"])
    assert "ratios" not in shown  # nothing to say


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setattr(cufft.ctypes, "CDLL", lambda name: (_ for _ in ()).throw(OSError(name)))
    cufft._library.cache_clear()
    try:
        assert "pip install 'ryle[bench]'" in cufft.cufft_problem()
    finally:
        cufft._library.cache_clear()


def test_transforms_compiled_beforehand(tmp_path, monkeypatch):
    monkeypatch.setattr(cufftdx, "_compiled", lambda size, arch: f"{size} {arch}".encode())
    told = []
    cufftdx.compile_all(tmp_path, "sm_90a", [64, 256], told.append)
    cufftdx.compile_all(tmp_path, "sm_90a", [64, 512], told.append)
    assert len(told) == 3
    assert cufftdx.compiled_sizes(tmp_path, "sm_90a") == [64, 256, 512]
    assert cufftdx.compiled_sizes(tmp_path, "sm_80") == []


def test_missing_headers_are_named(monkeypatch):
    monkeypatch.setattr(cufftdx.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(GpuUnavailable, match="pip install nvidia-mathdx"):
        cufftdx._headers()


def test_kernels_are_compiled_ahead(tmp_path, monkeypatch):
    monkeypatch.setenv("RYLE_CACHE_DIR", str(tmp_path))
    measured = ThreeKernelsMeasured(EmulatedGpu(), None)
    cases = [Case(64, 1, 8), Case(64, 1, 8, streams=3), Case(64, 2, 8), Case(64, 2, 8, policy="table")]
    assert compile_ahead([v for case in cases for v in measured.variants(case)], "sm_90a", processes=1) == 2
    assert len(list((tmp_path / "kernels").glob("three_kernels-sm_90a-*"))) == 2
