"""Histograms in a file: read as they were written, and whatever else lies there is refused in words."""

import os
from dataclasses import replace

import numpy as np
import pytest

from adc_values import gaussian, histograms_of
from fresh import rng
from ryle.products.bundle import BundleError, bundled, unbundled
from ryle.products.glance import Glance, GlanceError
from ryle.products.histograms import HistogramError, Histograms


@pytest.fixture
def h():
    random = rng()
    return histograms_of([gaussian(random, 9, 500, bits=6) for _ in range(3)], bits=6, first_input=4)


def test_what_was_written_is_read(h):
    read = Histograms.from_bytes(h.to_bytes())
    assert (read.position, read.first_input, read.step, read.clips, read.bits) == (1000, 4, 1, 31, 6)
    np.testing.assert_array_equal(read.lately, h.lately)
    np.testing.assert_array_equal(read.in_all, h.in_all)
    assert read.levels.tolist() == list(range(-32, 33))
    assert replace(h, step=4).levels.tolist() == list(range(-128, 129, 4))


def test_what_is_none_is_refused(h):
    whole, random = h.to_bytes(), rng()
    bad = [
        b"",
        whole[:7],
        whole[:-1],
        os.urandom(500),
        whole.replace(b"clips", b"chips"),
        whole.replace(b"ADC1", b"ADC2"),
    ]
    for field, value in [
        ("position", -1), ("first_input", -1), ("first_input", 1 << 40), ("step", 0), ("clips", -3), ("bits", 40),
        ("lately", h.lately[:, :-1]), ("in_all", h.in_all[:2]), ("lately", -h.lately), ("in_all", h.in_all + (1 << 60)),
        ("lately", h.lately[0]), ("lately", np.zeros((3, 0), np.int64)),
    ]:  # fmt: skip
        bad.append(replace(h, **{field: value}).to_bytes())
    for data in bad:
        with pytest.raises(HistogramError, match="no histograms"):
            Histograms.from_bytes(data)
    for _ in range(300):  # any byte may be another
        data = bytearray(whole)
        data[random.integers(len(data))] = random.integers(256)
        try:
            Histograms.from_bytes(bytes(data))
        except HistogramError:
            continue
    with pytest.raises(GlanceError):
        Glance.from_bytes(whole)


def test_numbers_beyond_all_bounds():
    for text in (
        b'{"a": 1e999, "shapes": {"x": [1]}}',
        b'{"a": 1, "shapes": {"x": [1e999]}}',
        b"[1]",
        b"3",
        b"[" * 5000,
    ):
        data = bundled(b"12345678", {}, {})[:8] + len(text).to_bytes(8, "little") + text
        with pytest.raises(BundleError):
            unbundled(b"12345678", data, {"x": "<i8"})
