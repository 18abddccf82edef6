"""The benchmark of engines on a GPU runs, on the emulated one, and says whose rate is whose."""

import pytest

from ryle.bench.gpu_engine import CASES, Case, measure, over, tiny


@pytest.mark.parametrize("kind, fed", [("f", "memory"), ("fx", "memory"), ("fx", "ring"), ("x", "memory")])
def test_a_case(kind, fed, monkeypatch, steady):
    monkeypatch.setenv("PYTHONPATH", "tests")
    case = tiny(Case(kind, fed, "copies", 0.9, 8, 4096))

    def body():
        row = measure(case, 1.0, 1, emulated=True)
        assert row.value > 0 and row.baseline_value > row.value and row.more["kernels_alone"] > 0
        assert 0 < row.ratio < 1 and row.more["cores"] > 0.02  # of a machine that others use too
        assert row.size["inputs"] == 2

    steady(body)


def test_several_gpus_beside_one(monkeypatch, steady):
    monkeypatch.setenv("PYTHONPATH", "tests")
    for fed, limit in (("ring", "one"), ("table", "one"), ("memory", "copies")):
        (case,) = [c for c in over([0, 0]) if c.fed == fed and c.bits == (8 if fed != "memory" else 10)]
        assert case.limit == limit and case.name.endswith("2 shares on 1 GPU") and case.size["batch"] >= 1024

    def body():
        row = measure(tiny(case), 2.0, 1, emulated=True)
        assert row.size["inputs"] == 4 and row.baseline == "copies alone" and row.baseline_value > row.value > 0
        assert row.more["exchange_alone"] > row.value and row.more["one_alone"] > 0

    steady(body)


def test_what_is_measured_is_what_was_asked():
    assert {c.kind for c in CASES} == {"f", "fx", "x"} and {c.fed for c in CASES} == {"memory", "ring", "table"}
    assert any(c.engines == 4 for c in CASES)
