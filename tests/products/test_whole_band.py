"""One file over the files of bands: the same as if one catcher had written all, and what a band lacks is flagged."""

from __future__ import annotations

from dataclasses import replace

import h5py
import numpy as np
import pytest
from pyuvdata import UVData

from ryle.chunk import Exposure, Integration
from ryle.products.readable import UVH5Error, check_uvh5
from ryle.products.uvh5 import UVH5Writer
from ryle.products.whole_band import join_bands

SPECTRA = 10**6


@pytest.fixture
def made(tmp_path, synthetic, rng):
    """Write `numbers` of integrations of each band to a directory of its own, and of all to one file."""

    def make(numbers, sideband=1, cuts=(0, 4, 12, 16), names=None):
        meta = synthetic.metadata(synthetic.enu(3, rng), sideband=sideband)
        every = sorted(set().union(*numbers))
        whole = {k: synthetic.random_integration(meta, rng, k * SPECTRA, SPECTRA, groups=16) for k in every}
        with UVH5Writer(tmp_path / "one.uvh5", meta) as writer:
            for k in every:
                there = [
                    Integration(k * SPECTRA, SPECTRA, a, whole[k].visibilities[a:b], whole[k].counts[a:b])
                    for a, b, have in zip(cuts, cuts[1:], numbers, strict=False)
                    if k in have
                ]
                writer.append(there)
        paths = []
        for n, (a, b, have) in enumerate(zip(cuts, cuts[1:], numbers, strict=False)):
            directory = tmp_path if names else tmp_path / f"disk{n}"
            directory.mkdir(exist_ok=True)
            paths.append(directory / f"one.band{n}.uvh5")
            with UVH5Writer(paths[-1], replace(meta, frequencies=meta.frequencies[a:b])) as writer:
                for k in have:
                    v, c = whole[k].visibilities[a:b], whole[k].counts[a:b]
                    writer.append(Integration(k * SPECTRA, SPECTRA, 0, v, c))
                writer.record("adc", np.arange(n + 3))
        return paths

    return make


def everything(path):
    with h5py.File(path) as file:
        check_uvh5(path, file)
        found = {}
        file.visititems(lambda name, x: found.update({name: x[()]}) if isinstance(x, h5py.Dataset) else None)
        return found


@pytest.mark.parametrize("sideband", [1, -1])
@pytest.mark.parametrize(
    "numbers",
    [
        [range(3)] * 3,
        [range(1, 5), [0, 1, 4], range(2)],  # late, with a gap, killed
        [[0], [5], [3]],  # nothing in common
        [range(2), [], range(2)],  # one that wrote nothing
    ],
)
def test_is_what_one_catcher_would_have_written(tmp_path, made, numbers, sideband):
    paths = made(numbers, sideband)
    assert join_bands(tmp_path / "all.uvh5", paths[::-1]) == len(set().union(*numbers))
    one, found = everything(tmp_path / "one.uvh5"), everything(tmp_path / "all.uvh5")
    assert len(found.pop("Ryle/adc")) in (3, 5)
    assert found.keys() == one.keys()
    for name, values in one.items():
        np.testing.assert_array_equal(found[name], values, name)
    data = UVData()
    data.read(tmp_path / "all.uvh5")
    assert data.flag_array.sum() == one["Data/flags"].sum()
    with h5py.File(tmp_path / "all.uvh5") as file:
        assert all(each.is_virtual for each in file["Data"].values())


def test_bands_beside_it_move_with_it(tmp_path, made):
    paths = made([range(2)] * 3, names=True)
    join_bands(tmp_path / "all.uvh5", paths)
    new = tmp_path / "elsewhere"
    new.mkdir()
    for path in (*paths, tmp_path / "all.uvh5"):
        path.rename(new / path.name)
    assert everything(new / "all.uvh5")["Data/nsamples"].any(axis=(0, 2)).all()


def test_times_are_those_of_the_longest_exposure(tmp_path, synthetic, rng):
    meta = synthetic.metadata(synthetic.enu(2, rng))
    paths, seconds = [], (0.25, 0.5)
    for n, part in enumerate(seconds):
        band = replace(meta, frequencies=meta.frequencies[8 * n : 8 * n + 8])
        i = synthetic.random_integration(band, rng, 0, 2 * SPECTRA)
        length = int(part * 2 * SPECTRA)
        i.counts[...], i.exposure = length, Exposure.of(0, length)
        paths.append(tmp_path / f"{n}.uvh5")
        with UVH5Writer(paths[-1], band) as writer:
            writer.append(i)
    join_bands(tmp_path / "all.uvh5", paths)
    longest = everything(paths[1])
    found = everything(tmp_path / "all.uvh5")
    for name in ("time_array", "integration_time", "uvw_array", "lst_array"):
        np.testing.assert_array_equal(found[f"Header/{name}"], longest[f"Header/{name}"])


def test_what_does_not_belong_together_is_refused(tmp_path, made, synthetic, rng):
    paths = made([range(2)] * 3)
    with pytest.raises(UVH5Error, match="each band once"):
        join_bands(tmp_path / "all.uvh5", [*paths, paths[1]])
    with pytest.raises(UVH5Error, match="over none"):
        join_bands(tmp_path / "all.uvh5", [])
    with UVH5Writer(tmp_path / "other.uvh5", synthetic.metadata(synthetic.enu(4, rng))) as writer:
        writer.close()
    with pytest.raises(UVH5Error, match="differ in antennas"):
        join_bands(tmp_path / "all.uvh5", [paths[0], tmp_path / "other.uvh5"])
    with pytest.raises(FileExistsError, match="overwritten"):
        join_bands(tmp_path / "one.uvh5", paths)
    (tmp_path / "text.uvh5").write_text("text")
    with pytest.raises(UVH5Error, match="no HDF5 file"):
        join_bands(tmp_path / "all.uvh5", [*paths, tmp_path / "text.uvh5"])
    assert not (tmp_path / "all.uvh5").exists() and not list(tmp_path.glob(".all*"))


@pytest.mark.parametrize(
    "name", ["Header/time_array", "Header/freq_array", "Header/Nbls", "Data/flags", "Ryle/first_spectrum"]
)
@pytest.mark.parametrize("shorter", [True, False])
def test_a_damaged_band_is_named_and_nothing_is_made(tmp_path, made, name, shorter):
    paths = made([range(2)] * 2)
    with h5py.File(paths[1], "r+") as file:
        kept = file[name][()]
        del file[name]
        if shorter:
            file[name] = kept[:-1] if np.ndim(kept) else kept + 1
    with pytest.raises(UVH5Error, match=r"damaged|missing|shape|differ"):
        join_bands(tmp_path / "all.uvh5", paths)
    assert not (tmp_path / "all.uvh5").exists()
