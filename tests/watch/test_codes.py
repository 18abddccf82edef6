"""What is said of converters: of healthy ones nothing, of a stuck bit or a code that never comes which it is."""

from dataclasses import replace

import numpy as np
import pytest

from adc_values import gaussian, histograms_of
from fresh import rng
from ryle.watch import codes

COUNT = 60_000


def with_bit(values, bit, to, bits=10):
    """Values of a converter one of whose bits, two's complement, does not move."""
    half = 1 << (bits - 1)
    raw = values & (2 * half - 1)
    raw = raw | (1 << bit) if to else raw & ~(1 << bit)
    return (raw + half) % (2 * half) - half


def test_of_healthy_converters_nothing_is_said():
    random = rng()
    for bits in (4, 8, 10):
        most = (1 << (bits - 1)) / 4
        levels = [gaussian(random, random.uniform(2, most), COUNT, bits, random.uniform(-1, 1)) for _ in range(6)]
        h = histograms_of(levels, bits=bits)
        assert codes.verdicts(h) == [""] * 6
        assert not codes.missing(h).any()


@pytest.mark.parametrize("bits", [6, 8, 10])
def test_a_bit_that_is_stuck_is_named(bits):
    random = rng()
    rms = random.uniform(4, (1 << bits) / 10)
    for to in (0, 1):
        values = [with_bit(gaussian(random, rms, COUNT, bits), bit, to, bits) for bit in range(bits)]
        assert codes.verdicts(histograms_of(values, bits=bits)) == [f"bit {bit} stuck at {to}" for bit in range(bits)]


def test_a_bit_that_sticks_later_is_seen_and_one_that_is_free_again_is_not():
    random = rng()
    good, bad = gaussian(random, 40, COUNT), with_bit(gaussian(random, 40, COUNT), 3, 0)
    assert codes.verdicts(histograms_of([bad, good], [good, bad])) == ["bit 3 stuck at 0", ""]


def test_codes_that_never_come():
    random = rng()
    values = gaussian(random, 40, COUNT)
    gone = (values == 17) | (values == -3)
    h = histograms_of([values[~gone], values])
    assert codes.verdicts(h) == ["2 codes missing", ""]
    assert h.levels[codes.missing(h)[0]].tolist() == [-3, 17]
    assert codes.verdicts(histograms_of([values[values != 5]])) == ["1 code missing"]


def test_where_nothing_can_be_told_nothing_is():
    random = rng()
    weak = gaussian(random, 40, 500)
    dead = np.zeros(COUNT, int)
    offset = gaussian(random, 3, COUNT, offset=40.0)  # positive all of them, and no bit above the sixth ever moves
    tone = np.rint(30 * np.sin(np.arange(COUNT))).astype(int)
    h = histograms_of([weak, dead, offset, tone, []])
    assert codes.verdicts(h) == [None, None, "", "", None]
    assert codes.verdicts(replace(h, bits=0)) == [None] * 5
    assert codes.verdicts(histograms_of([with_bit(gaussian(random, 40, COUNT), 0, 1)], codes=False)) == [None]


def test_levels_and_clipping():
    random = rng()
    values = [gaussian(random, rms, COUNT) for rms in (3.0, 40.0, 400.0)]
    h = histograms_of([*values, []])
    np.testing.assert_allclose(codes.rms(h)[:3], [np.sqrt(np.mean(v**2.0)) for v in values])
    expected = [np.mean((v <= -511) | (v >= 511)) for v in values]
    np.testing.assert_allclose(codes.clipped(h)[:3], expected)
    assert expected[2] > 0.1 and np.isnan(codes.rms(h)[3]) and np.isnan(codes.clipped(h)[3])
    assert not codes.at_ends(replace(h, clips=0)).any()


def test_engines_are_joined_input_by_input():
    random = rng()
    values = [gaussian(random, 10, 100) for _ in range(5)]
    low, high = histograms_of(values[:2], position=7), histograms_of(values[2:], first_input=2, position=9)
    whole = codes.joined([high, low], 6)
    np.testing.assert_array_equal(whole.lately[:5], histograms_of(values).lately)
    assert not whole.lately[5].any() and (whole.first_input, whole.position) == (0, 9)
    np.testing.assert_array_equal(codes.joined([low, high], 3).in_all, histograms_of(values[:3]).in_all)
    other = histograms_of([values[0]], bits=8, first_input=5)
    assert codes.joined([low, other], 6).lately[5].sum() == 0  # of other levels
    far = replace(low, first_input=900)
    assert codes.joined([far], 6).lately.sum() == 0
    assert codes.joined([], 6) is None and codes.joined([low], 0) is None
