"""Parts of an observation in one file: what does not fit is refused by name. That they are the whole: test_part.py."""

import h5py
import numpy as np
import pytest

import recorded
from ryle.chunk import Integration
from ryle.config import changed
from ryle.products.observed import metadata
from ryle.products.readable import UVH5Error
from ryle.products.uvh5 import UVH5Writer
from ryle.products.whole_time import join_times
from same_file import assert_same


def written(path, o, numbers):
    """A file with some integrations, and what was counted meanwhile."""
    with UVH5Writer(path, metadata(o)) as writer:
        for number in numbers:
            values = np.random.default_rng(number)
            sums = values.integers(-999, 999, (o.fengine.channels, writer.metadata.products, 2))
            counts = np.full((1, writer.metadata.products), o.file_spectra, np.uint32)
            writer.append(Integration(number * o.file_spectra, o.file_spectra, 0, sums, counts))
        writer.record("adc_samples", np.array([len(numbers), 10 * len(numbers)]))
        writer.record("adc_levels", np.arange(5))
    return path


def test_one_run_would_have_written_the_same(tmp_path):
    o = recorded.observation()
    whole = written(tmp_path / "whole.uvh5", o, [0, 1, 2, 7, 8, 9])
    parts = [written(tmp_path / f"{n}.uvh5", o, some) for n, some in enumerate([[0, 1], [], [2, 7, 8], [9]])]
    assert join_times(tmp_path / "joined.uvh5", parts) == 6
    assert_same(tmp_path / "joined.uvh5", whole)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["joined.uvh5", "whole.uvh5", *(p.name for p in parts)])


def test_what_does_not_fit_is_refused(tmp_path):
    o = recorded.observation()
    one, two = written(tmp_path / "1.uvh5", o, [0, 1]), written(tmp_path / "2.uvh5", o, [2])
    other = written(tmp_path / "3.uvh5", changed(o, array={"name": "OTHER"}), [3])
    to = tmp_path / "joined.uvh5"
    with pytest.raises(UVH5Error, match=r"1\.uvh5 begins before the parts before it end"):
        join_times(to, [two, one])
    with pytest.raises(UVH5Error, match=r"3\.uvh5 differs from the parts before it in telescope_name"):
        join_times(to, [one, two, other])
    with pytest.raises(UVH5Error, match="over none"):
        join_times(to, [])
    with h5py.File(two, "r+") as file:
        file["Header/lst_array"].resize(1, axis=0)
    with pytest.raises(UVH5Error, match="lst_array"):
        join_times(to, [one, two])
    assert not to.exists()
    join_times(to, [one])
    with pytest.raises(FileExistsError):
        join_times(to, [one])
    assert join_times(to, [one], overwrite=True) == 2
