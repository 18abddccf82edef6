"""The shipped examples load, and are what they say they are."""

import numpy as np
import pytest

from ryle.config import example, example_names, load

NAMES = example_names()


def test_names():
    assert {"demo", "meerkat_extension", "paper128", "alma72", "vdif2", "troubled"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_loads(name):
    o = load(example(name))
    assert o.observation.name == name
    assert o.gains.shape == (o.n_inputs, o.fengine.channels)
    assert len(o.streams) == o.n_inputs


def positions(name):
    return np.array([a.enu for a in load(example(name)).antennas])


@pytest.mark.parametrize(
    ("name", "antennas", "closest", "longest"),
    [("meerkat_extension", 80, 29, 17000), ("paper128", 64, 4, 220), ("alma72", 72, 9, 2000)],
)
def test_layouts(name, antennas, closest, longest):
    p = positions(name)
    assert p.shape == (antennas, 3)
    distances = np.linalg.norm((p[:, None] - p)[..., :2], axis=-1)[np.triu_indices(antennas, 1)]
    assert distances.min() >= closest - 1e-9
    assert distances.max() <= longest


def test_vdif_bands_and_clock():
    o = load(example("vdif2"))
    assert [float(b.lo) for b in o.vdif.bands] == [1642e6, 1658e6]
    assert {i.antenna: i.clock_offset for i in o.vdif.inputs} == {"JB": 0.0, "PI": 1.25e-6}
    assert o.observation.duration // o.xengine.integration == 4 and o.integration_time == 0.256
