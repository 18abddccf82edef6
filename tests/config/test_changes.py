"""Observations made of others."""

from fractions import Fraction
from functools import cached_property

import numpy as np
import pytest

from ryle.config import Observation, at_leisure, example, load, recorded, simulated

CHANGES = {
    "recorded": lambda o: recorded(o, lo=Fraction(10**9), sideband="lower", complex_samples=True, packet_samples=64),
    "simulated": simulated,
    "at leisure": lambda o: at_leisure(o, 8),
}
DERIVED = [n for base in Observation.__mro__ for n, v in vars(base).items() if isinstance(v, cached_property)]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["demo", "vdif2", "paper128"])
def test_what_was_derived_before_a_change_does_not_outlive_it(change, name):
    asked = load(example(name))
    for key in DERIVED:
        getattr(asked, key)
    found = CHANGES[change](asked)
    fresh = found.model_copy()
    for key in set(fresh.__dict__) - set(Observation.model_fields):
        del fresh.__dict__[key]
    assert "sky_frequencies" in DERIVED and found.levels is None
    assert type(found.packets) is type(fresh.packets)  # layouts are not compared otherwise
    for key in set(DERIVED) - {"levels", "packets"}:
        got, wanted = getattr(found, key), getattr(fresh, key)
        assert np.array_equal(got, wanted) if isinstance(wanted, np.ndarray) else got == wanted, key
