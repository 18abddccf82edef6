"""Long rows without a kernel between the two, against plans with one: no more than rounding differs."""

import pytest

from ryle.channelize import Blocks, ChannelizerConfig, Heaps, Rows
from ryle.channelize.cuda_plan import faster_plan, make_plan, suits, with_long_rows

SHARED = 232448


@pytest.mark.parametrize(
    ("channels", "kind"),
    [
        (16384, "blocks"),
        (32768, "rows"),
        *(
            pytest.param(channels, kind, marks=pytest.mark.long)
            for channels, kinds in ((16384, ("rows", "heaps", "floats")), (32768, ("blocks", "heaps", "floats")))
            for kind in kinds
        ),
    ],
)
def test_they_are_what_three_kernels_make(cases, cuda_form, rng, kind, channels):
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
    three, two = (cases.form(case.config, cuda_form, p) for p in (plan, with_long_rows(plan, case.config, SHARED)))
    print(shape, layout)
    cases.check_alike(case, None if kind == "floats" else layout, two, three)


@pytest.mark.parametrize(
    ("shape", "shared", "why"),
    [
        ({"channels": 8192}, SHARED, "8192 channels, 16 taps without a kernel between the two: 16384 and 32768"),
        ({"taps": 17}, SHARED, "32768 channels, 17 taps without"),
        ({}, 166912, "need 215056 bytes of shared memory; this device has 166912"),
    ],
)
def test_what_cannot_be_done_is_refused(shape, shared, why):
    config = ChannelizerConfig(2, **({"channels": 32768} | shape))
    with pytest.raises(ValueError, match=why):
        with_long_rows(make_plan(config, shared), config, shared)


@pytest.mark.parametrize("channels", [1024, 16384, 32768])
def test_they_are_taken_on_hopper_but_for_heaps(channels):
    config = ChannelizerConfig(2, channels)
    faster = faster_plan(config, SHARED, "sm_90a")
    assert faster.whole == (channels == 1024) and faster.middle == 1
    assert make_plan(config, SHARED).middle == channels // 1024
    for table in (False, True):
        assert (
            suits(faster, Rows(2), table=table) == suits(faster, None, table=table) == (not table or not faster.whole)
        )
        assert not suits(faster, Heaps(256), table=table)
    assert faster_plan(config, SHARED, "sm_100") is None
    assert faster_plan(ChannelizerConfig(2, 8192), SHARED, "sm_90a") is None
