"""The benchmark of the X-engine on GPUs, on an emulated one: that it checks, counts and compares; not how fast."""

import numpy as np
import pytest

from emulation import EmulatedGpu
from ryle.bench import correlate as bench
from ryle.chunk import BLOCK
from ryle.correlate.reference import correlate


def test_exact_sums():
    data = np.random.default_rng().integers(-127, 128, (2, 6, 2 * BLOCK), dtype=np.int8)
    valid = np.full((1, 2, 6), 2**64 - 1, np.uint64)
    np.testing.assert_array_equal(bench.exact_sums(data, 2), correlate(data[np.newaxis], valid, 2)[0][0])


def test_figures(monkeypatch):
    monkeypatch.setattr(bench, "matrix_product", lambda gpu, data: None)
    figures = bench.measure(EmulatedGpu(), inputs=(6, 16), times=(128, 64), turns=2, seconds=0.01, nbytes=1 << 16)
    assert [(f.case, f.inputs, f.times) for f in figures] == [
        ("portable kernel", 6, 128),
        ("portable kernel", 6, 64),
        ("portable kernel", 16, 128),
        ("portable kernel", 16, 64),
        (bench.COPY, 0, 0),
    ]
    for figure in figures:
        assert figure.spread[0] <= figure.value <= figure.spread[1]
        assert figure.value > 0
    assert figures[-1].ratio == figures[-1].notes["memory"] == 1
    assert np.isnan(figures[0].ratio)  # without the library there is nothing to compare with


def test_a_wrong_kernel_is_found():
    gpu = EmulatedGpu()

    class Wrong:
        name = "wrong"

        def __call__(self, data, sums, first_block, blocks):
            sums.fill(0)

    with pytest.raises(ArithmeticError, match=r"kernel wrong, 4 inputs: .* sums are wrong"):
        bench.check(gpu, Wrong(), 4, 2)


def test_useful_operations():
    assert bench.useful_operations(2, 10) == 3 * 8 * 10
