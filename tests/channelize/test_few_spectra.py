"""Transforms of fewer than 16 spectra at a time, of long rows too, against plans of 16: no more than rounding differs."""

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
    cases.check_alike(case, None if kind == "floats" else layout, few_at_a_time, whole)


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
