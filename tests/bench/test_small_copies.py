"""The benchmark of small copies beside large ones: every way brings what was there, and the copies beside are counted."""

import json

import numpy as np
import pytest

from emulation import EmulatedGpu
from ryle.bench import small_copies
from ryle.gpu import fetch


def test_all_ways_are_measured(tmp_path):
    path = tmp_path / "found.json"
    words = ["--pieces", "0", "0.25", "--sizes", "1", "32.4", "--seconds", "0.02", "--emulated", "--json", str(path)]
    small_copies.main(words)
    rows = json.loads(path.read_text())["results"]
    assert [(r["beside"], r["size"]) for r in rows[::3]] == [(p, s) for p in (0, 1 << 18) for s in (1024, 33176)]
    assert [r["case"] for r in rows[:3]] == ["copy engine", "16 blocks of threads", "132 blocks of threads"]
    for row in rows:
        low, high = row["spread"]
        assert 0 < low <= row["value"] <= high <= row["longest"] and row["copies"] >= 2
        assert (row["beside_gbps"] > 0) == (row["beside"] > 0)


def test_what_comes_wrong_is_an_error(monkeypatch):
    def spoilt(self, there, host, stream):
        there.set(host ^ np.uint8(1), stream)

    monkeypatch.setattr(fetch.Fetch, "whole", spoilt)
    with pytest.raises(ArithmeticError, match="64 bytes that were fetched by 16 blocks"):
        small_copies.waits(EmulatedGpu(), 64, 16, 0.0)
