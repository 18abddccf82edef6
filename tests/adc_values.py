"""Histograms of ADC values that are given, counted one by one: nothing of the engines' arithmetic is in them."""

from collections import Counter

import numpy as np

from ryle.products.histograms import Histograms


def gaussian(random, rms, count, bits=10, offset=0.0):
    """Noise as a converter of so many bits gives it."""
    half = 1 << (bits - 1)
    return np.clip(np.rint(random.normal(offset, rms, count)), -half, half - 1).astype(int)


def histograms_of(lately, before=None, *, bits=10, first_input=0, position=1000, clips=None, codes=True):
    """Count the values of each input, (input, value), of the last second, and those before."""
    half = 1 << (bits - 1)
    before = [[]] * len(lately) if before is None else before

    def counted(values):
        counts = Counter(np.asarray(values, int).tolist())
        return [counts.get(level, 0) for level in range(-half, half + 1)]

    new = np.array([counted(v) for v in lately], np.int64)
    old = np.array([counted(v) for v in before], np.int64)
    clips = half - 1 if clips is None else clips
    return Histograms(position, first_input, 1, clips, bits if codes else 0, new, new + old)
