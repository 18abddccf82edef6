"""The benchmark of the X-engine on GPUs, on an emulated one: that it checks, counts and compares; not how fast."""

import json

import numpy as np
import pytest

from emulation import EmulatedGpu
from ryle.bench import correlate as bench
from ryle.bench import correlations, cublaslt
from ryle.bench.correlate import COPY, GEMM, SHOWN, Timed, figures, measure
from ryle.bench.correlations import Case, all_cases, check, exact_sums, headline_cases, in_form, useful_operations
from ryle.bench.gpu_timing import Sustained
from ryle.bench.results import as_json, table
from ryle.chunk import BLOCK, rows_from_parts
from ryle.correlate.reference import correlate
from ryle.gpu import GpuUnavailable


def no_product(*_):
    raise GpuUnavailable("cuBLASLt is not here")


def test_exact_sums(rng):
    parts = rng.integers(-127, 128, (2, 6, BLOCK, 2), dtype=np.int8)
    valid = np.full((1, 2, 6), 2**64 - 1, np.uint64)
    wanted = correlate(rows_from_parts(parts)[np.newaxis], valid, 2)[0][0]
    np.testing.assert_array_equal(exact_sums(parts, 2), wanted)


@pytest.mark.parametrize("kernel", ["portable", "hopper"])
@pytest.mark.parametrize("form", ["K-blocks", "packed", "time-major", "heaps"])
@pytest.mark.parametrize("inputs", [3, 20])
def test_every_form_is_checked(kernel, form, inputs):
    """All are right; and with samples in another order than is said, none is."""
    gpu, case = EmulatedGpu(), Case(kernel, inputs, 128, form)
    check(gpu, case, channels=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(correlations, "in_form", lambda parts, form: np.roll(in_form(parts, form), 1))
        with pytest.raises(ArithmeticError, match=rf"{kernel} kernel.*, {inputs} inputs: .* sums are wrong"):
            check(gpu, case, channels=2)


def test_everything_runs(monkeypatch):
    monkeypatch.setattr(bench, "MatrixProduct", no_product)
    cases = [Case("portable", 6, 128), Case("portable", 6, 128, "packed"), Case("portable", 16, 64, "time-major")]
    told = []
    found = measure(EmulatedGpu(), cases, turns=2, seconds=0.01, nbytes=1 << 16, progress=told.append)
    names = [COPY, f"{COPY}: kernel", f"{COPY}: driver", *(case.name for case in cases)]
    assert [f.case for f in found] == names
    for figure in found:
        assert figure.spread[0] <= figure.value <= figure.spread[1]
        assert figure.value > 0
    assert found[0].value == max(found[1].value, found[2].value)
    assert "without the matrix product: cuBLASLt is not here" in told
    assert found[3].ratio is None and found[3].baseline == ""  # there is nothing to compare with
    saved = json.loads(as_json({"gpu": "none"}, found))["results"]
    assert all({"case", "inputs", "times", "value", "unit", "baseline", "ratio"} <= set(row) for row in saved)
    assert table(found, SHOWN).row_count == 6


def test_figures_compare_by_turns():
    plain, short, portable = Case("hopper", 64), Case("hopper", 64, 1024), Case("portable", 64)
    nibbles = Case("hopper", 64, form="packed")

    def timed(name, case, operations, *seconds):
        turns = [Sustained(s, 350 * s, 1.5e9) for s in seconds]
        return Timed(name, None, operations, 4e9, case, turns)

    found = figures(
        [
            timed(f"{COPY}: kernel", None, 0, 1e-3, 1e-3, 1e-3),
            timed(f"{COPY}: driver", None, 0, 2e-3, 2e-3, 2e-3),
            timed(GEMM, None, 1e12, 1e-3, 1e-3, 2e-3),
            timed(plain.name, plain, 1e12, 2e-3, 2e-3, 4e-3),
            timed(short.name, short, 1e12, 4e-3, 2e-3, 4e-3),
            timed(nibbles.name, nibbles, 1e12, 2e-3, 2e-3, 4e-3),
            timed(portable.name, portable, 1e12, 8e-3, 8e-3, 16e-3),
        ],
        2000e12,
    )
    copy, _, driver, product, first, second, packed, last = found
    assert (copy.value, copy.unit, driver.ratio) == (4.0, "TB/s", 0.5)
    assert (product.value, product.spread) == (1000.0, (500.0, 1000.0))
    assert (first.value, first.ratio, first.baseline, first.target) == (500.0, 0.5, GEMM, 490.0)
    assert first.more == {
        "memory": 0.5, "watts": 350.0, "sm_clock": 1.5e9, "peak": 0.25, "product": 0.5, "portable": 4.0,
        "joules": pytest.approx(8 * 350 * 2e-3),
    }  # fmt: skip
    assert (second.ratio, second.baseline, second.target) == (1.0, "hopper kernel, 4096 times", 0.9 * 490)
    assert (packed.target, packed.least) == (None, 0.95)
    assert (last.ratio, last.target) == (0.125, None)


def test_cases_are_those_that_targets_name():
    for cases in (all_cases("hopper"), headline_cases("hopper")):
        assert len(cases) == len(set(cases))
        plain = {(c.kernel, c.inputs) for c in cases if c == c.plain}
        assert plain >= {(kernel, n) for kernel, targets in bench.TARGETS.items() for n in targets}
        assert {c.inputs for c in cases if c.form == "packed"} >= {144, 1024}
        assert all((c.kernel, c.inputs) in plain for c in cases)  # what each is compared with
    assert not any(c.kernel == "hopper" for c in all_cases("portable"))


def test_kernels_can_be_compiled_beforehand():
    """What is listed is what a case then asks for."""
    gpu, asked = EmulatedGpu(), []
    monkeypatch = pytest.MonkeyPatch()
    real = gpu.kernel
    monkeypatch.setattr(gpu, "kernel", lambda *a: asked.append((a[0], dict(a[2]))) or real(*a))
    for case in (Case("portable", 20, 64), Case("hopper", 20, 64, "packed")):
        check(gpu, case, channels=1)
        source, macros = case.variant(gpu)
        assert (source, dict(macros)) in asked


def test_useful_operations():
    assert useful_operations(2, 10) == 3 * 8 * 10


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setattr(cublaslt.ctypes, "CDLL", lambda name: (_ for _ in ()).throw(OSError(name)))
    cublaslt._library.cache_clear()
    try:
        with pytest.raises(GpuUnavailable, match=r"ryle\[bench\]"):
            cublaslt._library()
    finally:
        cublaslt._library.cache_clear()
