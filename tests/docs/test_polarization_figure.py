"""The figure of feeds on the sky shows what exports do."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

FIGURE = Path(__file__).parents[2] / "docs" / "figures" / "polarization.py"


@pytest.fixture(scope="module")
def figure():
    spec = importlib.util.spec_from_file_location("polarization_figure", FIGURE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_drawn_with_north_up_and_east_left(figure, tmp_path):
    assert figure.draw(tmp_path).stat().st_size > 10_000
    assert figure.towards(0.0, 1.0) == pytest.approx((0, 1)) and figure.towards(np.pi / 2, 1.0) == pytest.approx(
        (-1, 0)
    )


def test_what_x_and_y_are_made_of(figure):
    made = {degrees: figure.placed(degrees) for degrees in figure.ARRAYS.values()}
    assert made[90, 0] == (["y", "x"], pytest.approx([0, np.pi / 2]))
    assert made[0, 90] == (["x", "y"], pytest.approx([0, np.pi / 2]))
    assert made[45, -45] == (["x", "−y"], pytest.approx(np.radians([45, 135])))
    assert made[100, 10] == (["y", "x"], pytest.approx(np.radians([10, 100])))
