"""The IERS table that is kept on disk, beside the one that astropy reads."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from astropy.time import Time
from astropy.utils import iers

from ryle.array import earth_table
from ryle.array.earth import earth_orientation
from ryle.array.earth_table import installed_table, use_kept_table


@pytest.fixture
def forgotten(monkeypatch, tmp_path):
    """Let astropy have no table, in an empty folder."""

    def forget():
        monkeypatch.setattr(iers.IERS_Auto, "iers_table", None)

    monkeypatch.chdir(tmp_path)
    forget()
    return forget


def test_what_is_kept_is_what_was_read(forgotten, tmp_path, rng):
    folder = tmp_path / "kept"
    assert not use_kept_table(folder)
    read = installed_table(folder)
    forgotten()
    assert use_kept_table(folder)
    kept = installed_table(folder)
    assert kept is iers.earth_orientation_table.get() and kept is not read and len(kept) == len(read)
    # From before its first day to behind the last one: measured, predicted, and outside (of pole offsets NaN).
    times = Time(np.sort(rng.uniform(41000, 63000, 500)), format="mjd", scale="utc")
    for ask in ("ut1_utc", "pm_xy", "dcip_xy"):
        for one, other in zip(
            getattr(kept, ask)(times, return_status=True), getattr(read, ask)(times, return_status=True), strict=True
        ):
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
            assert getattr(one, "unit", None) == getattr(other, "unit", None)
    assert kept.meta["predictive_mjd"] == read.meta["predictive_mjd"]
    assert kept["MJD"][kept.meta["predictive_index"]] == read["MJD"][read.meta["predictive_index"]]
    assert len(list(folder.iterdir())) == 1  # and no temporary one


@pytest.mark.parametrize("how", ["empty", "cut", "other", "text"])
def test_one_that_is_damaged_is_read_anew(forgotten, tmp_path, how):
    times = Time([59000.5], format="mjd")
    expected = installed_table(tmp_path).ut1_utc(times)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    if how == "other":
        np.savez(path, about=np.array(json.dumps({"units": {}})), MJD=np.zeros(3))
    else:
        path.write_bytes({"empty": b"", "cut": whole[: len(whole) // 2], "text": b"no table"}[how])
    forgotten()
    assert not use_kept_table(tmp_path)
    assert installed_table(tmp_path).ut1_utc(times) == expected
    assert path.read_bytes() == whole  # mended


def test_nothing_is_kept_where_that_cannot_be(forgotten, tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert len(installed_table(tmp_path / "file" / "kept")) > 10_000


def test_a_table_in_the_current_directory_is_astropys_business(forgotten, tmp_path):
    installed_table(tmp_path / "kept")
    forgotten()
    (tmp_path / "finals2000A.all").write_text("")
    assert not use_kept_table(tmp_path / "kept")


def test_another_table_has_another_name(tmp_path, monkeypatch):
    names = {earth_table._path(tmp_path)}
    monkeypatch.setattr(earth_table.astropy, "__version__", "0.1")
    names.add(earth_table._path(tmp_path))
    newer = tmp_path / "finals"
    newer.write_text("newer")
    monkeypatch.setattr(earth_table.iers, "IERS_A_FILE", str(newer))
    names.add(earth_table._path(tmp_path))
    os.utime(newer, (1, 1))
    names.add(earth_table._path(tmp_path))
    assert len(names) == 4


def test_a_second_process_reads_no_text(tmp_path):
    program = """
import numpy as np
from astropy.time import Time
from astropy.utils import iers
from ryle.array.earth import earth_orientation
from pyuvdata.utils import get_lst_for_time
lst = get_lst_for_time(np.array([2459000.5]), latitude=-30.7, longitude=21.4, altitude=1051.0)
print(float(lst[0]), float(earth_orientation(Time([59000.5], format="mjd")).dut1[0]), iers.IERS_B.iers_table is None)
"""

    def said():
        environment = os.environ | {"RYLE_CACHE_DIR": str(tmp_path)}
        words = [sys.executable, "-c", program]
        return subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    first, second = said().split(), said().split()
    assert first[:2] == second[:2] and (first[2], second[2]) == ("False", "True")
    assert float(first[1]) == earth_orientation(Time([59000.5], format="mjd")).dut1[0]
