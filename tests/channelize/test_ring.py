"""The fused kernel, whose halves pass tiles through rings, against the two kernels: to the bit, on a GPU and emulated."""

from dataclasses import replace

import numpy as np
import pytest

from ryle.channelize import Blocks, ChannelizerConfig, Heaps, Rows
from ryle.channelize.cuda_plan import make_plan, with_ring
from ryle.wire.samples import SAMPLE_BITS

EMULATED = "cuda/emulated"
SHARED = 232448


def results(tested, case, layout):
    """All that a call gives."""
    got = tested.process(case.chunk, case.first, case.spectra, case.delays, layout)
    return [got.data, got.valid, got.input_power, got.input_samples, tested.saturated, tested.output_power]


@pytest.mark.parametrize("channels", [256, 512, 1024, 2048, 4096, 8192, 16384, 32768])
@pytest.mark.parametrize("kind", ["blocks", "rows", "heaps", "floats"])
def test_it_equals_two_kernels(cases, cuda_form, rng, channels, kind):
    """With lost packets, steps of the coarse delay in a tile and between tiles, more units than marches and fewer."""
    emulated = cuda_form == EMULATED
    if emulated and channels > 512:
        pytest.skip("would take minutes in emulation; a GPU runs it")
    shape = {
        "channels": channels,
        "taps": int(rng.integers(1, 17)),
        "bits": int(rng.choice([b for b in SAMPLE_BITS if b <= 12])),
        "output_bits": int(rng.choice([8, 8, 4])) if kind in ("heaps", "floats") else 8,
        "complex_input": bool(rng.random() < 0.3),
        "dither": str(rng.choice(["uniform", "none"])),
    }
    inputs, pols = int(rng.choice([2, 4, 6])), int(rng.choice([1, 2, 2]))
    layouts = {"blocks": Blocks(), "rows": Rows(pols), "heaps": Heaps(int(rng.choice([16, 48, 24])), pols)}
    layout = layouts.get(kind, Blocks())
    unit = layout.spectra if isinstance(layout, Heaps) else 64
    spectra = unit * int(rng.integers(1, 1 + 512 // unit))
    case = cases.make(
        int(rng.integers(1 << 62)), spectra=spectra, unit=unit, inputs=inputs, loss=float(rng.choice([0, 2])),
        margin=int(rng.choice([0, 300])), conjugated=(1,) if shape["complex_input"] else (), **shape,
    )  # fmt: skip
    case.chunk.present[0, : int(rng.integers(0, 3))] = 0
    plan = make_plan(case.config, SHARED)
    if channels == 512:  # long rows, as of 8192 channels, or a pass between the halves, as of more
        plan = replace(plan, **rng.choice([{}, {"passes": (8, 16)}, {"passes": (8, 8), "middle": 2}]))
    ring = int(rng.integers(2 if plan.middle == 1 else 4, 7))
    if channels > 8192:
        plan = with_ring(plan, case.config, SHARED, 132, ring)  # has other radices
        plan = replace(plan, ring=0, filter_blocks=512 // plan.filter_threads)
    two = cases.form(case.config, cuda_form, plan)
    if plan.passes == (8, 16):
        plan = replace(plan, side=8)
    if emulated:  # as many blocks as there are strips of columns, or more
        two.gpu.multiprocessors = int(rng.integers(channels // min(128, plan.transform_threads), 17))
    one = cases.form(case.config, cuda_form, with_ring(plan, case.config, SHARED, two.gpu.multiprocessors, ring))
    print(shape, layout, f"{inputs} inputs, {spectra} spectra, {two.gpu.multiprocessors} blocks, {one.plan}")
    for channelizer in (one, two):
        channelizer.set_gains(case.gains)
    if kind == "floats":
        floats = [c.spectra_float(case.chunk, case.first, case.spectra, case.delays) for c in (two, one)]
        for wanted, found in zip(*floats, strict=True):
            np.testing.assert_array_equal(found, wanted)
        return
    for _ in range(1 if emulated else 5):
        for wanted, found in zip(results(two, case, layout), results(one, case, layout), strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("channels", "taps", "multiprocessors", "ring", "why"),
    [
        (4096, 16, 132, 1, "ring is 1; give at least 2 tiles"),
        (32768, 16, 132, 3, "with a pass between the halves give at least 4 tiles"),
        (65536, 16, 132, 4, "the pass between the halves is of radix 16; 8 fit the registers"),
        (2048, 16, 132, 4, "bytes of shared memory a block; this device has 166912"),
        (1024, 32, 132, 4, "32 taps need more registers"),
        (4096, 16, 15, 4, "16 strips of columns at the same time; 15 multiprocessors have room for 15"),
    ],
)
def test_what_it_cannot_do_it_refuses(channels, taps, multiprocessors, ring, why):
    config = ChannelizerConfig(2, channels, taps=taps)
    with pytest.raises(ValueError, match=why):
        with_ring(make_plan(config, SHARED), config, 166912 if "166912" in why else SHARED, multiprocessors, ring)
