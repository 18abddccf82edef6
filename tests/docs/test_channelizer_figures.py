"""The pictures of the channelizer's speed can be drawn of any complete file of results."""

import importlib.util
import json
from pathlib import Path

import pytest

from ryle.bench.measured import CHANNELS, forms, matrix
from ryle.bench.results import Row, as_json

FIGURES = Path(__file__).parents[2] / "docs" / "figures" / "channelizer.py"


@pytest.fixture(scope="module")
def figures():
    spec = importlib.util.spec_from_file_location("channelizer_figures", FIGURES)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def saved(fused, quick=False):
    """Make a file of results in which every rate says of which case it is."""
    rows = [Row(name, 4000.0, "GB/s") for name in ("HBM copy", "HBM copy: kernel")]
    rows += [Row("cuFFT c2c", 200.0, "Gvalue/s", {"channels": 1 << k}, more={"bytes": 16}) for k in range(6, 10)]
    for case in [*([] if quick else matrix()), *(form for n in CHANNELS for form in forms(n).values())]:
        more = {name: getattr(case, name) for name in ("streams", "spectra", "layout", "policy")}
        rate = case.channels + case.taps / 100 + case.bits / 10000
        if case.layout != "blocks" or case.policy != "flat" or case.samples < 1 << 28:
            rate = 1.0
        shape = "Gsample/s", {"channels": case.channels, "taps": case.taps, "bits": case.bits}
        if fused:
            rows.append(Row("fused", 2 * rate, *shape, baseline="three kernels", ratio=2.0, more=more))
        rows.append(Row("three kernels", rate, *shape, more=more))
        rows.append(Row("three kernels: FIR", 3 * rate, *shape, more=more))
        rows.append(Row("three kernels: rest", 4 * rate, *shape, more=more))
    shape = {"channels": 1024, "taps": 16, "bits": 10}
    if fused:
        rows.append(Row("fused", 3.0, "J/Gsample", shape, baseline="three kernels", ratio=0.67))
    rows.append(Row("three kernels", 4.5, "J/Gsample", shape))
    about = {"gpu": "none", "date": "never", "commit": "0", "multiprocessors": 132}
    return json.loads(as_json(about, rows))


@pytest.mark.parametrize(("fused", "quick"), [(False, False), (True, False), (True, True)])
def test_all_are_drawn(figures, tmp_path, fused, quick):
    speeds = figures.Speeds(saved(fused, quick))
    assert speeds.channels == list(CHANNELS)
    assert speeds.forms == (["fused"] if fused else []) + ["three kernels"]
    for name, draw in figures.DRAWINGS.items():
        draw(speeds, tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000


def test_rates_are_those_of_long_plain_launches(figures):
    speeds = figures.Speeds(saved(True))
    assert speeds.taps == [4, 8, 12, 16, 32]
    assert speeds.channels == [1024, 4096, 8192, 32768]
    for n in speeds.channels:
        assert speeds.value("fused", n, 16, 10) == pytest.approx(2 * (n + 0.161), rel=1e-4)
    wanted = 4e12 * 51e9 / 1.25 / (1024.161e9) + 51e9 / 1.25 * 2.25
    assert figures.needed_bandwidth(speeds, "three kernels", 1024, 16, 10) == pytest.approx(wanted, rel=1e-4)


def test_the_table_has_every_form(figures):
    speeds = figures.Speeds(saved(True))
    kept = next(r for r in speeds.rows if r["case"] == "fused" and r.get("policy") == "table")
    speeds.rows.append(kept | {"baseline": "fused, plain", "ratio": 0.91, "least": 0.85})
    rows = {line.split("|")[1].strip(): line for line in figures.rates_table(speeds).splitlines()}
    for form in ("", ", 8 bit", ", interleaved", ", packet table", ", one stream", ", 2 streams of 2^20 samples"):
        assert f"fused{form}, Gsample/s" in rows
    assert "2.05e+03" in rows["fused, Gsample/s"] and "2.00" in rows["fused / three kernels"]
    assert "0.67" in rows["fused, energy / three kernels"]
    assert "0.91" in rows["fused, packet table / fused, plain (to keep: 0.85)"]
    assert {"fused, 512 streams of 2^20 samples, Gsample/s", "three kernels, J/Gsample"} <= set(rows)
