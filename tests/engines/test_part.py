"""Parts of recordings: each integration is bit for bit that of the whole, and parts that are joined are the whole."""

import io

import h5py
import numpy as np
import pytest
from rich.console import Console

import fresh
import recorded
from ryle.config import part
from ryle.engines.offline import correlate
from ryle.products.whole_time import join_times
from same_file import assert_same


def quiet():
    return Console(file=io.StringIO(), width=200)


@pytest.fixture(params=["vdif", "complex vdif", "chunks", "pcap"])
def made(request, tmp_path, rng):
    """An observation, its recordings, and how many integrations lie before their end."""
    if "vdif" in request.param:
        wave = "complex" in request.param
        o = recorded.observation(more=recorded.VDIF)
        return o, recorded.vdif(tmp_path, rng, complex_samples=wave), 6
    if request.param == "chunks":
        o = recorded.observation()
        return o, recorded.chunks(tmp_path, rng, o), 1
    o = recorded.observation(duration=0.8, more=recorded.SIMULATE.format(seed=fresh.seed()))
    return o, recorded.capture(tmp_path, o), 0.8


def test_parts_joined_are_the_whole(made, tmp_path, rng):
    o, recordings, seconds = made
    wholes = correlate(o, recordings, tmp_path / "whole", quiet())
    integrations = int(seconds / o.file_time) + 1
    cuts = np.sort(rng.choice(np.arange(1, integrations), 4, replace=False)).tolist()
    print(f"cuts = {cuts}")
    parts = []
    for n, (a, b) in enumerate(zip([0, *cuts], [*cuts, 1 << 40], strict=True)):
        parts.append(correlate(part(o, range(a, b)), recordings, tmp_path / f"part{n}", quiet()))
        for whole, made_part in zip(wholes, parts[-1], strict=True):
            with h5py.File(whole.file) as file, h5py.File(made_part.file) as piece:
                firsts, mine = file["Ryle/first_spectrum"][()], piece["Ryle/first_spectrum"][()]
                length = np.diff(firsts).min()
                assert mine.tolist() == [f for f in firsts.tolist() if a <= f // length < b]
    for number, whole in enumerate(wholes):
        assert whole.integrations > 6
        joined = tmp_path / f"joined{number}.uvh5"
        assert join_times(joined, [p[number].file for p in parts]) == whole.integrations
        assert_same(joined, whole.file)
