"""The kernel that does all of 1024 channels in one block, as its bench runs it, in emulation."""

import numpy as np
import pytest

from emulation import EmulatedGpu
from ryle.bench.channelize import Arena
from ryle.bench.fused import FusedMeasured
from ryle.bench.measured import Case
from ryle.bench.one_block import rows_of


@pytest.mark.parametrize("layout", ["blocks", "interleaved"])
def test_both_forms_are_timed(layout):
    gpu = EmulatedGpu(multiprocessors=2)
    case = Case(1024, taps=1, bits=8, streams=2, spectra=64, layout=layout)
    rows = rows_of(gpu, Arena(gpu, [case]), case, 0.01, 0.0)
    assert [row.case for row in rows] == ["fused", "one block"]
    assert all(row.value > 0 for row in rows) and [row.baseline for row in rows] == ["", "fused"]


def test_packets_at_addresses_give_the_same_spectra():
    """But for a few roundings: compilers contract products and sums of one form as they like."""
    gpu = EmulatedGpu(multiprocessors=3)
    cases = [Case(1024, streams=2, spectra=64, policy=policy) for policy in ("flat", "table")]
    arena = Arena(gpu, cases)
    one, results = FusedMeasured(gpu, arena, one_block=True), []
    for case in cases:
        arena.out(case).fill(0x55)
        one.prepare(case).launch(gpu.default_stream)
        results.append(arena.out(case).get())
    difference = np.abs(results[0].astype(int) - results[1])
    assert difference.max() <= 1 and np.count_nonzero(difference) <= 20
    assert np.unique(results[0]).size > 50
