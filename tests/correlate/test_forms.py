"""Forms of sums that leave the GPU: equal to those that the host makes of exact ones."""

import numpy as np
import pytest

import fresh
from emulation import EmulatedGpu
from ryle.chunk import Integration, SpectraChunk
from ryle.correlate import CorrelatorConfig
from ryle.correlate.cuda import CudaCorrelator
from ryle.correlate.forms import Forms
from ryle.gpu import gpu_problem, open_gpu
from ryle.send.visibilities import meerkat_values


@pytest.fixture(params=["emulated", "cuda"])
def gpu(request):
    if request.param == "cuda":
        if (reason := gpu_problem()) is not None:
            pytest.skip(f"no GPU: {reason}")
        return open_gpu()
    return EmulatedGpu(seed=fresh.seed())


def normalized(sums, counts):
    """One rounding from float64, as files are written."""
    counts = counts.repeat(sums.shape[0] // counts.shape[0], axis=0)[..., np.newaxis]
    return (sums * (1.0 / np.maximum(counts, 1) * (counts > 0))).astype(np.float32)


@pytest.mark.parametrize(("inputs", "pols", "groups"), [(1, 1, 1), (6, 2, 3), (40, 1, 2)])
def test_forms(gpu, rng, inputs, pols, groups):
    """Sums of any size, those at the bounds among them, some without contributions."""
    config = CorrelatorConfig(inputs, 6, pols, groups)
    sums = rng.integers(-(2**40), 2**40, (6, config.products, 2)) >> rng.integers(0, 30, (6, config.products, 2))
    edges = np.array([2**31 - 1, 2**31, -(2**31) + 1, -(2**31), -(2**31) - 1, 0])
    sums.ravel()[: len(edges)] = edges[: sums.size]
    counts = rng.integers(1, 2**32, (groups, config.products), dtype=np.uint32)
    counts[rng.random(counts.shape) < 0.3] = 0
    forms, on_gpu = Forms(gpu, config), (gpu.array(sums), gpu.array(counts))
    np.testing.assert_array_equal(
        forms.make("int32", *on_gpu).get(), meerkat_values(Integration(0, 64, 0, sums, counts))
    )
    single = forms.make("float32", *on_gpu).get()
    np.testing.assert_array_equal(single, normalized(sums, counts))
    assert single.dtype == np.float32
    with pytest.raises(ValueError, match="form is 'int16'; it must be one of 'int32', 'float32'"):
        forms.make("int16", *on_gpu)
    with pytest.raises(ValueError, match="sums and counts have shapes"):
        forms.make("int32", *on_gpu[::-1])


def test_sums_leave_in_a_form(gpu, rng):
    """As they were when asked for, whatever is added after."""
    config = CorrelatorConfig(8, 4, 2, 2)
    valid = rng.integers(0, 2**64, (2, 3, 8), dtype=np.uint64)
    valid[0, :, 5] = 0
    chunk = SpectraChunk(0, rng.integers(-127, 128, (4, 3, 8, 128), dtype=np.int8), valid)
    correlator = CudaCorrelator(config, gpu=gpu, kernel="portable")
    correlator.accumulate(chunk)
    exact = correlator.read(0, 192, 0)
    reading = {form: correlator.start_read_as(form) for form in ("int32", "float32")}
    correlator.accumulate(chunk)
    correlator.reset()
    for form, expected in (
        ("int32", meerkat_values(exact)),
        ("float32", normalized(exact.visibilities, exact.counts)),
    ):
        values, counts = reading[form].wait()
        np.testing.assert_array_equal(values, expected)
        np.testing.assert_array_equal(counts, exact.counts)
    assert (exact.counts == 0).any()
