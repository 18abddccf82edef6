"""The pictures of the X-engine's speed can be drawn of any file of results, full or quick."""

import importlib.util
import json
from pathlib import Path

import pytest

from ryle.bench.correlate import COPY, GEMM, Timed, figures
from ryle.bench.correlations import all_cases, headline_cases
from ryle.bench.gpu_timing import Sustained
from ryle.bench.results import as_json

FIGURES = Path(__file__).parents[2] / "docs" / "figures" / "correlator.py"


@pytest.fixture(scope="module")
def drawn():
    spec = importlib.util.spec_from_file_location("correlator_figures", FIGURES)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def saved(cases, joules, product):
    """Make a file of results in which every rate says of how many inputs it is."""
    turns = [Sustained(1e-3, joules, 1.5e9)] * 3
    timed = [Timed(f"{COPY}: kernel", None, 0.0, 4e9, None, turns)]
    timed += [Timed(GEMM, None, 1e12, 1e9, None, turns)] if product else []
    timed += [Timed(case.name, None, case.inputs * 1e9 + case.times * 1e4, 1e9, case, turns) for case in cases]
    return json.loads(as_json({"gpu": "none", "date": "never", "commit": "0"}, figures(timed, 2000e12)))


@pytest.mark.parametrize("cases", [all_cases("hopper"), headline_cases("hopper"), all_cases("portable")])
@pytest.mark.parametrize(("joules", "product"), [(0.5, True), (float("nan"), False)])
def test_all_are_drawn(drawn, tmp_path, cases, joules, product):
    speeds = drawn.Speeds(saved(cases, joules, product))
    assert speeds.times == 4096
    for name, draw in drawn.DRAWINGS.items():
        draw(speeds, tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000


def test_the_table_has_every_row(drawn):
    cases = all_cases("hopper")
    table = drawn.rates_table(drawn.Speeds(saved(cases, 0.5, True))).splitlines()
    assert len(table) == 2 + 3 + len(cases)
    row = next(line for line in table if line.startswith("| hopper kernel, packed | 144 | 4096 |"))
    assert "1.00 (to keep: 0.95) | hopper kernel, 4096 times" in row
    assert "144 TOPS" in row and f"{8 * 0.5 / (144e9 + 4096e4) * 1e12:.2f}" in row
