"""Transforms of fewer than 16 spectra at a time, of long rows too, against plans of 16: no more than rounding differs."""

import numpy as np
import pytest

from ryle.channelize import Blocks, ChannelizerConfig, Heaps, Rows
from ryle.channelize.cuda_plan import make_plan, with_half_tiles, with_long_rows

SHARED = 232448


@pytest.mark.parametrize(
    ("channels", "kind"),
    [
        (4096, "blocks"),
        (8192, "rows"),
        (16384, "blocks"),
        pytest.param(32768, "rows", marks=pytest.mark.long),
        pytest.param(4096, "heaps", marks=pytest.mark.long),
        pytest.param(4096, "floats", marks=pytest.mark.long),
        pytest.param(8192, "blocks", marks=pytest.mark.long),
        pytest.param(8192, "heaps", marks=pytest.mark.long),
        pytest.param(16384, "rows", marks=pytest.mark.long),
        pytest.param(16384, "heaps", marks=pytest.mark.long),
        pytest.param(16384, "floats", marks=pytest.mark.long),
        pytest.param(32768, "blocks", marks=pytest.mark.long),
        pytest.param(32768, "heaps", marks=pytest.mark.long),
        pytest.param(32768, "floats", marks=pytest.mark.long),
    ],
)
def test_they_are_what_plans_of_16_make(cases, cuda_form, rng, kind, channels):
    shape = {
        "channels": channels, "taps": int(rng.integers(1, 5)), "bits": int(rng.integers(1, 11)),
        "complex_input": bool(rng.random() < 0.3), "dither": str(rng.choice(["uniform", "none"])),
    }  # fmt: skip
    layout = {"rows": Rows(2), "heaps": Heaps(int(rng.choice([16, 24])), 2)}.get(kind, Blocks())
    unit = layout.spectra if isinstance(layout, Heaps) else 64
    case = cases.make(
        int(rng.integers(1 << 62)), spectra=unit, unit=unit, inputs=2, loss=float(rng.choice([0, 2])),
        margin=int(rng.choice([0, 300])), conjugated=(1,) if shape["complex_input"] else (), **shape,
    )  # fmt: skip
    plan = make_plan(case.config, SHARED)
    few = with_half_tiles(plan) if channels <= 8192 else with_long_rows(plan, case.config, SHARED)
    whole, few_at_a_time = (cases.form(case.config, cuda_form, p) for p in (plan, few))
    print(shape, layout)
    for channelizer in (few_at_a_time, whole):
        channelizer.set_gains(case.gains)
    if kind == "floats":
        (wanted, valid), (found, same) = (
            c.spectra_float(case.chunk, case.first, case.spectra, case.delays) for c in (whole, few_at_a_time)
        )
        np.testing.assert_array_equal(same, valid)
        scale = np.sqrt(np.mean(np.abs(wanted) ** 2)) or 1.0
        print("largest difference of the rms", np.abs(found - wanted).max() / scale)
        assert np.abs(found - wanted).max() < 1e-5 * scale
        return
    wanted, found = (
        c.process(case.chunk, case.first, case.spectra, case.delays, layout) for c in (whole, few_at_a_time)
    )
    np.testing.assert_array_equal(found.valid, wanted.valid)
    np.testing.assert_array_equal(found.input_power, wanted.input_power)
    a, b = (np.asarray(x.data).view(np.int8).astype(int) for x in (found, wanted))
    differ = a != b
    print("differ", differ.mean())
    assert differ.mean() < 1e-4 and np.abs(a - b).max() <= 1
    assert abs(few_at_a_time.output_power - whole.output_power).sum() <= 400 * differ.sum()
    assert abs(few_at_a_time.saturated - whole.saturated).sum() <= differ.sum()


@pytest.mark.parametrize(
    ("shape", "shared", "why"),
    [
        ({"channels": 8192}, SHARED, "8192 channels without a kernel between the two: 16384 and 32768"),
        ({}, 166912, "need 230928 bytes of shared memory; this device has 166912"),
    ],
)
def test_what_cannot_be_done_is_refused(shape, shared, why):
    config = ChannelizerConfig(2, **({"channels": 32768} | shape))
    with pytest.raises(ValueError, match=why):
        with_long_rows(make_plan(config, shared), config, shared)
