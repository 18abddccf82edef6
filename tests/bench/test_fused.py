"""The adapter by which the CUDA channelizer is timed."""

import numpy as np
import pytest

from emulation import EmulatedGpu
from ryle.bench.channelize import Arena, config_of, delays_of, gains_of
from ryle.bench.fused import FusedMeasured
from ryle.bench.measured import PACKET, Case
from ryle.channelize import Blocks, make_channelizer
from ryle.chunk import SampleChunk, parts_from_rows


@pytest.fixture
def gpu():
    return EmulatedGpu()


def test_it_times_the_operation_and_nothing_else(gpu):
    """What it launches makes the spectra of the case's samples, delays and gains; packets at addresses the same bits."""
    cases = [Case(64, streams=2, spectra=128, policy=policy) for policy in ("flat", "table")]
    arena = Arena(gpu, cases)
    fused = FusedMeasured(gpu, arena)
    results = []
    for case in cases:
        arena.out(case).fill(0x55)
        fused.prepare(case).launch(gpu.default_stream)
        results.append(arena.out(case).get().reshape(64, 2, 2, 128))
    assert np.array_equal(*results)
    case, config = cases[0], config_of(cases[0])
    oracle = make_channelizer(config, "reference")
    oracle.set_gains(gains_of(case))
    packed = arena.samples(case).get().reshape(2, -1, PACKET * 10 // 8)
    chunk = SampleChunk(0, packed, np.ones(packed.shape[:2], np.uint8), PACKET)
    wanted = oracle.process(chunk, 0, 128, delays_of(case), Blocks()).data
    difference = np.abs(parts_from_rows(wanted).astype(int) - parts_from_rows(results[0]))
    assert difference.max() <= 1
    assert np.count_nonzero(difference) <= 5


def test_interleaved_spectra_are_the_same_ones(gpu):
    cases = [Case(64, streams=2, spectra=128, layout=layout) for layout in ("blocks", "interleaved")]
    arena = Arena(gpu, cases)
    fused = FusedMeasured(gpu, arena)
    results = []
    for case in cases:
        arena.out(case).fill(0x55)
        fused.prepare(case).launch(gpu.default_stream)
        results.append(arena.out(case).get().reshape(-1))
    blocks = parts_from_rows(results[0].reshape(64, 2, 2, 128))  # channel, block, input, spectrum, part
    heaps = results[1].reshape(1, 2, 64, 64, 2, 2)  # antenna, heap, channel, spectrum, polarization, part
    difference = np.abs(heaps[0].transpose(1, 0, 3, 2, 4) - blocks.astype(int))
    # Blocks are made by one kernel, heaps by two, whose sums differ in their last bits: of 8 million values one by a step.
    assert difference.max() <= 1 and np.count_nonzero(difference) <= 2
