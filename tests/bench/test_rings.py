"""The bench of the fused kernel, in emulation: that it measures each form, not how fast."""

import pytest

from emulation import EmulatedGpu
from ryle.bench.channelize import Arena
from ryle.bench.measured import Case
from ryle.bench.rings import rows_of


@pytest.mark.parametrize("layout", ["blocks", "interleaved"])
def test_each_form_is_timed_beside_two_kernels(layout):
    gpu = EmulatedGpu(multiprocessors=8, optimization="-O0")
    case = Case(256, taps=2, bits=8, streams=2, spectra=64, layout=layout)
    rows = rows_of(gpu, Arena(gpu, [case]), case, [1, 2, 5], 0.01, 0.0)
    assert [row.case for row in rows] == ["fused", "ring of 2", "ring of 5"]
    assert all(row.value > 0 for row in rows) and [row.baseline for row in rows] == ["", "fused", "fused"]
