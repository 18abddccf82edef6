"""The kernel that does all of 1024 channels in one block, against the two kernels: no more than rounding differs."""

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
    cases.check_alike(case, None if kind == "floats" else layout, one, two)


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
