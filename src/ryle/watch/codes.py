"""What histograms of ADC values say of converters: levels, clipping, bits that are stuck, codes that never come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ryle.products.histograms import Histograms

#: Values of an input from which on its bits are judged: in as many, each bit of noise is both 0 and 1.
_ENOUGH = 1024
#: Codes on either side of one that are looked at, and how often each of them must have come, in the mean, for one that
#: never did to be missing: by chance that is one in e^30.
_BESIDE, _OFTEN = 12, 30
_FEW = 8  # codes that have come, of inputs whose bits are judged: a dead one has a few

Counts = NDArray[np.int64]
Bools = NDArray[np.bool_]


def joined(some: Sequence[Histograms], inputs: int) -> Histograms | None:
    """Join histograms of several engines to those of the whole array, input by input.

    Parameters
    ----------
    some : sequence of Histograms
        In any order. Those of other levels than the first one's are left out.
    inputs : int
        Of the array; what is of others is left out.
    """
    first = next(iter(some), None)
    if first is None or inputs < 1:
        return None
    kind = (first.step, first.clips, first.bits, first.lately.shape[1])
    alike = [h for h in some if (h.step, h.clips, h.bits, h.lately.shape[1]) == kind]
    lately, in_all = np.zeros((2, inputs, kind[3]), np.int64)
    for h in alike:
        rows = slice(h.first_input, min(inputs, h.first_input + len(h.lately)))
        count = max(0, rows.stop - rows.start)
        lately[rows], in_all[rows] = h.lately[:count], h.in_all[:count]
    return replace(first, position=max(h.position for h in alike), first_input=0, lately=lately, in_all=in_all)


def at_ends(h: Histograms) -> Bools:
    """Mark the levels at which the converter clips, shape (level,)."""
    return np.abs(h.levels) >= h.clips if h.clips else np.zeros(h.lately.shape[1], np.bool_)


def clipped(h: Histograms) -> NDArray[np.float64]:
    """Give the share of each input's values lately that stood at an end, shape (input,); NaN if nobody looked."""
    return _share(h.lately[:, at_ends(h)].sum(axis=1), h.lately.sum(axis=1))


def rms(h: Histograms) -> NDArray[np.float64]:
    """Give the rms of each input's values lately, steps, shape (input,); NaN if nobody looked."""
    return np.sqrt(_share(h.lately @ (h.levels.astype(np.float64) ** 2), h.lately.sum(axis=1)))


def missing(h: Histograms) -> Bools:
    """Mark codes that never came since the start, though their neighbours on both sides did, shape (input, level).

    Where several codes share a level, one that never comes is not seen.
    """
    if not h.bits:
        return np.zeros(h.in_all.shape, np.bool_)
    inputs, count = h.in_all.shape
    so_far = np.concatenate([np.zeros((inputs, 1), np.int64), np.cumsum(h.in_all, axis=1)], axis=1)
    place = np.arange(count)
    left = so_far[:, place] - so_far[:, np.maximum(place - _BESIDE, 0)]
    right = so_far[:, np.minimum(place + 1 + _BESIDE, count)] - so_far[:, place + 1]
    never: Bools = (h.in_all == 0) & (np.minimum(left, right) >= _OFTEN * _BESIDE)
    return never


def stuck(h: Histograms) -> tuple[Bools, Bools]:
    """Find bits of two's complement that lately were always 0, and always 1, each shape (input, bit).

    Of a signal about 0 every bit is as often the one as the other, however weak the signal. Nothing is said of inputs
    with few values or a few codes, which have no signal, nor of those that stay on one side of 0 without going far.
    """
    inputs, bits = len(h.lately), h.bits
    values = h.levels
    within = np.abs(values + 0.5) < 1 << max(bits - 1, 0)  # the highest level is no code
    counts, codes = h.lately[:, within], values[within]
    total, came = counts.sum(axis=1), counts > 0
    ones = counts @ (codes[:, np.newaxis] >> np.arange(bits) & 1)
    below = counts[:, codes < 0].sum(axis=1)
    far = np.where(came, codes, codes.min(initial=0)).max(axis=1, initial=-1 << 31)
    near = np.where(came, codes, codes.max(initial=0)).min(axis=1, initial=1 << 31)
    about_zero = np.minimum(below, total - below) >= 0.01 * total
    judged = (total >= _ENOUGH) & (came.sum(axis=1) >= _FEW) & (about_zero | (far - near >= 1 << max(bits - 2, 0)))
    every = judged[:, np.newaxis] & np.ones((inputs, bits), bool)
    return every & (ones == 0), every & (ones == total[:, np.newaxis])


def verdicts(h: Histograms) -> list[str | None]:
    """Say in words what is wrong with each input's codes; nothing if nothing is, None if that cannot be told."""
    zeros, ones = stuck(h)
    gone = missing(h).sum(axis=1)
    enough = (h.in_all.sum(axis=1) >= _ENOUGH) & ((h.in_all > 0).sum(axis=1) >= _FEW)
    found: list[str | None] = []
    for i in range(len(h.in_all)):
        at = [
            f"bit {b} stuck at {v}" for v, some in ((0, zeros[i]), (1, ones[i])) for b in np.flatnonzero(some).tolist()
        ]
        if not at and gone[i]:
            at = [f"{gone[i]} code{'s' if gone[i] > 1 else ''} missing"]
        found.append(", ".join(at) if h.bits and enough[i] else None)
    return found


def _share(part: NDArray[np.number], whole: Counts) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(whole > 0, part / whole, np.nan)
