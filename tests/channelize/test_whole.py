"""The kernel that does all of 1024 channels in one block, against the two kernels: no more than rounding differs."""

import numpy as np
import pytest

from ryle.channelize import Blocks, ChannelizerConfig, Heaps, Rows
from ryle.channelize.cuda_plan import make_plan, with_one_kernel

SHARED = 232448


@pytest.mark.parametrize("kind", ["blocks", "rows", "heaps", "floats"])
def test_it_is_what_two_kernels_make(cases, cuda_form, rng, kind):
    shape = {
        "channels": 1024, "taps": int(rng.integers(1, 17)), "bits": int(rng.integers(1, 11)),
        "output_bits": int(rng.choice([8, 4])) if kind in ("heaps", "floats") else 8,
        "complex_input": bool(rng.random() < 0.3), "dither": str(rng.choice(["uniform", "none"])),
    }  # fmt: skip
    layout = {"rows": Rows(2), "heaps": Heaps(int(rng.choice([16, 48, 24])), 2)}.get(kind, Blocks())
    unit = layout.spectra if isinstance(layout, Heaps) else 64
    spectra = unit * int(rng.integers(1, 1 + 192 // unit))
    case = cases.make(
        int(rng.integers(1 << 62)), spectra=spectra, unit=unit, inputs=2, loss=float(rng.choice([0, 2])),
        margin=int(rng.choice([0, 300])), conjugated=(1,) if shape["complex_input"] else (), **shape,
    )  # fmt: skip
    plan = make_plan(case.config, SHARED)
    two, one = (cases.form(case.config, cuda_form, p) for p in (plan, with_one_kernel(plan, case.config, SHARED)))
    print(shape, layout, spectra)
    for channelizer in (one, two):
        channelizer.set_gains(case.gains)
    if kind == "floats":
        (wanted, valid), (found, same) = (
            c.spectra_float(case.chunk, case.first, case.spectra, case.delays) for c in (two, one)
        )
        np.testing.assert_array_equal(same, valid)
        scale = np.sqrt(np.mean(np.abs(wanted) ** 2)) or 1.0
        print("largest difference of the rms", np.abs(found - wanted).max() / scale)
        assert np.abs(found - wanted).max() < 1e-5 * scale
        return
    wanted, found = (c.process(case.chunk, case.first, case.spectra, case.delays, layout) for c in (two, one))
    np.testing.assert_array_equal(found.valid, wanted.valid)
    np.testing.assert_array_equal(found.input_power, wanted.input_power)
    np.testing.assert_array_equal(found.input_samples, wanted.input_samples)
    a, b = (
        np.asarray(x.data).view(np.int8 if shape["output_bits"] == 8 else np.uint8).astype(int) for x in (found, wanted)
    )
    differ = a != b
    print("differ", differ.mean())
    assert differ.mean() < 1e-4
    if shape["output_bits"] == 8:
        assert np.abs(a - b).max() <= 1
    assert abs(one.output_power - two.output_power).sum() <= 400 * differ.sum()
    assert abs(one.saturated - two.saturated).sum() <= differ.sum()


@pytest.mark.parametrize(
    ("shape", "shared", "why"),
    [
        (
            {"channels": 512},
            SHARED,
            "512 channels, 16 taps, 10 bits in one block: it does 1024 channels of up to 16 taps",
        ),
        ({"taps": 17}, SHARED, "17 taps"),
        ({"bits": 12}, SHARED, "12 bits"),
        ({}, 166912, "need 230608 bytes of shared memory; this device has 166912"),
    ],
)
def test_what_it_cannot_do_it_refuses(shape, shared, why):
    config = ChannelizerConfig(2, **({"channels": 1024} | shape))
    with pytest.raises(ValueError, match=why):
        with_one_kernel(make_plan(config, shared), config, shared)
