"""The benchmark of recordings on a Ray cluster, on a small one: what it finds, and that it compares files."""

import importlib.util
import json
import sys

import h5py
import pytest

if importlib.util.find_spec("ray") is None:  # imported, it aborts this process at its end, after many other tests
    pytest.skip("needs Ray: pip install ryle[ray]", allow_module_level=True)

from ryle.bench import offline_ray
from ryle.bench.same_file import differing


@pytest.mark.long
def test_measures_and_leaves_nothing(tmp_path, monkeypatch):
    words = ["--workers", "0", "1", "--cores", "1", "--gigabytes", "0.06", "--turns", "1", "--directory", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["offline_ray", *words, "--json", str(tmp_path / "found.json")])
    offline_ray.main()
    process, worker = json.loads((tmp_path / "found.json").read_text())["results"]
    assert (process["case"], process["workers"], worker["case"], worker["workers"]) == ("one process", 0, "workers", 1)
    assert process["value"] > 0 and worker["of_one_process"] == pytest.approx(worker["value"] / process["value"], 1e-3)
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]


def test_more_workers_than_cores_are_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"9 workers of 999 cores need 8991, at least 1; \d+ are here"):
        offline_ray.measure(tmp_path, [1, 9], 999, 1e6, 1, offline_ray.wide_console())


def test_a_file_that_differs_is_told(tmp_path):
    for name, value in (("a", 1.0), ("b", 1.0), ("c", 2.0)):
        with h5py.File(tmp_path / name, "w") as file:
            file["Data/visdata"] = [value, 3.0]
            file["Data/names"] = ["x", "y"]
            file["Header/history"] = name
            if name == "c":
                file["Header/more"] = 1
    a, b, c = (tmp_path / name for name in "abc")
    assert differing(a, a) == [] and differing(a, b) == ["Header/history"]
    assert differing(a, b, {"Header/history"}) == []
    want = ["Data/visdata", "Header/history", "Header/more"]
    assert differing(a, c) == want and differing(c, a) == want
