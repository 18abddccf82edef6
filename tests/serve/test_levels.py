"""Parts of ADC values, read back by the words of their description, against the values that they are of."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from adc_values import gaussian, histograms_of
from fresh import rng
from ryle.serve.levels import LevelPictures
from ryle.serve.pictures import WANTED
from serve_parts import unpacked


@pytest.mark.parametrize("name", ["levels", "levels/0", "levels/123456"])
def test_they_may_be_wanted(name):
    assert WANTED.fullmatch(name)
    assert not WANTED.fullmatch(name + "/") and not WANTED.fullmatch("levels/1234567")


@pytest.mark.parametrize("bits", [4, 10])
def test_all_inputs(bits):
    random = rng()
    values = [gaussian(random, random.uniform(1, 1 << (bits - 2)), 5000, bits) for _ in range(3)]
    header, arrays = unpacked(LevelPictures(histograms_of([*values, []], bits=bits)).part("levels"))
    axis, share = arrays["axis"], np.where(arrays["share"] == -32768, np.nan, arrays["share"] / 100)
    assert header["clips"] == (1 << (bits - 1)) - 1 and len(axis) <= 257
    edges = np.concatenate(([-np.inf], (axis[1:] + axis[:-1]) / 2, [np.inf]))
    for row, v in zip(share, values, strict=False):
        counts = [np.bincount(v[(v > low) & (v < high)] + (1 << bits)).max(initial=0) for low, high in pairwise(edges)]
        expected = 10 * np.log10(np.where(np.array(counts) > 0, counts, np.nan) / len(v))
        np.testing.assert_allclose(row, expected, atol=0.00501)
    assert np.isnan(share[3]).all()


def test_one_input():
    random = rng()
    lately, before = gaussian(random, 200, 20_000), gaussian(random, 200, 20_000)
    lately, before = lately[lately != 7], before[before != 7]
    header, arrays = unpacked(LevelPictures(histograms_of([[], lately], [[], before])).part("levels/1"))
    axis = arrays["axis"].tolist()
    assert axis == list(range(-512, 513)) and header["input"] == 1 and header["bits"] == 10
    for name, values in (("lately", lately), ("in_all", np.concatenate([lately, before]))):
        assert arrays[name].tolist() == [int((values == level).sum()) for level in axis]
    assert header["rms"] == pytest.approx(np.sqrt(np.mean(lately**2.0)))
    assert header["clipped"] == pytest.approx(np.mean((lately <= -511) | (lately == 511)))
    assert np.flatnonzero(arrays["missing"]).tolist() == [axis.index(7)]
    assert [axis[n] for n in np.flatnonzero(arrays["ends"])] == [-512, -511, 511, 512]


def test_what_nobody_knows_and_what_makes_no_sense():
    h = histograms_of([[1, 2], []])
    header, _ = unpacked(LevelPictures(h).part("levels/1"))
    assert header["rms"] is None and header["clipped"] is None
    header, _ = unpacked(LevelPictures(replace(h, clips=0)).part("levels/0"))
    assert header["clipped"] is None
    broken = LevelPictures(replace(h, lately=None))
    for name in ("levels", "levels/0"):
        assert unpacked(broken.part(name))[0]["problem"]
