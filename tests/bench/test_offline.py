"""The benchmark of `ryle correlate` alone, on small recordings."""

import json
import sys

import pytest

from ryle.bench import offline


@pytest.mark.long
def test_measures_and_leaves_nothing(tmp_path, monkeypatch):
    words = ["--gigabytes", "0.02", "0.3", "--turns", "1", "--directory", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["offline", *words, "--json", str(tmp_path / "found.json")])
    offline.main()
    (row,) = json.loads((tmp_path / "found.json").read_text())["results"]
    short, long = row["gigabytes"]
    assert row["case"] == "ryle correlate, cpu" and row["baseline"] == "reading alone"
    assert (short, long) == (pytest.approx(0.02, rel=0.3), pytest.approx(0.3, rel=0.1))
    seconds = row["seconds"][1] - row["seconds"][0]
    assert row["value"] == pytest.approx((long - short) / seconds, rel=1e-2) and seconds > 0
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]


def test_the_longer_recording_comes_second(tmp_path):
    with pytest.raises(SystemExit, match="first the shorter, then the longer"):
        offline.measure(tmp_path, [2e9, 1e9], ["cpu"], 1, offline.wide_console())


def test_what_fails_says_why(tmp_path):
    file = offline.observed(tmp_path / "a.toml")
    with pytest.raises(RuntimeError, match=r"nothing\.chunks"):
        offline.correlate(file, [tmp_path / "nothing.chunks"], tmp_path / "out")
