"""Constant tables of the CUDA channelizer: weights in the order the matrix units take them, and turns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.channelize.channelizer import ChannelizerConfig
from ryle.channelize.cuda_plan import Plan, matrix_units


def filter_weights(config: ChannelizerConfig) -> tuple[NDArray[np.uint32] | NDArray[np.float32], float]:
    """Weights of the filter kernel and the power of two that they are multiplied by.

    Samples of up to 12 bits meet weights as pairs of halves. A column of the banded Toeplitz matrix B[k][j] = w[k - j]
    (zero outside the filter) is held by lanes of four threads, each with w[i], w[i + 1] for i = 2q - j + 8h; entry
    ``i + 7`` of a column of the table has those two, once rounded to half precision and once what the rounding left.

    Returns
    -------
    table : ndarray of uint32, shape (value of a step, entry, 2)
        Pairs (first in the low half), rounded and rest. For wider samples: float32 (value, tap).
    scale : float
        1 for wider samples.
    """
    weights = config.prototype()
    if config.complex_input:
        # Both parts meet the same weight; the sign puts frequency 0 at channel n/2.
        weights = np.repeat(weights * np.where(np.arange(weights.size) % 2, -1.0, 1.0), 2)
    columns = weights.reshape(config.taps, -1).T
    if config.bits > 12:
        return np.ascontiguousarray(columns, np.float32), 1.0
    # The largest weight near 2^12: then the rests are normal numbers for all weights that matter.
    scale = 2.0 ** (12 - np.frexp(np.abs(weights).max())[1])
    entries = 8 * matrix_units(config.taps) + 6
    padded = np.zeros((len(columns), entries + 1))
    padded[..., 7 : 7 + config.taps] = columns * scale
    high = padded.astype(np.float16)
    low = (padded - high).astype(np.float16)
    pairs = [part.view(np.uint16).astype(np.uint32) for part in (high, low)]
    table = np.stack([p[..., :-1] | p[..., 1:] << np.uint32(16) for p in pairs], axis=-1)
    return table, scale


def radix_turns(config: ChannelizerConfig, plan: Plan) -> NDArray[np.complex64]:
    """W_n^(point·k1), shape (n / radix points, k1)."""
    product = np.outer(np.arange(config.channels // plan.radix), np.arange(plan.radix))
    turns: NDArray[np.complex64] = np.exp(-2j * np.pi * product / config.channels).astype(np.complex64)
    return turns


def middle_turns(config: ChannelizerConfig, plan: Plan) -> NDArray[np.complex64]:
    """W_(n/radix)^(a·k2) of the pass between the kernels, shape (points of a row after it, middle)."""
    length = config.channels // plan.radix
    product = np.outer(np.arange(length // plan.middle), np.arange(plan.middle))
    turns: NDArray[np.complex64] = np.exp(-2j * np.pi * product / length).astype(np.complex64)
    return turns


def point_turns(config: ChannelizerConfig, plan: Plan) -> NDArray[np.complex64]:
    """Give the turns of the inputs of the transform kernel's last pass, shape (butterfly p, last / 2).

    Input a is to be turned by w^a, w = W_points^p. What dft_of_turned takes: w^(l/2), w^(l/4), then for r = 8 to l (the
    last radix) w^(l/r)·W_r^k with k below r/4.
    """
    last = plan.passes[-1]
    butterflies = plan.points(config) // last
    exponents = [last / 2, last / 4]  # of e^{-2jπ p / points}, and offsets in circles
    offsets = [0.0, 0.0]
    r = 8
    while r <= last:
        exponents += [last / r] * (r // 4)
        offsets += [k / r for k in range(r // 4)]
        r *= 2
    circles = np.outer(np.arange(butterflies) / plan.points(config), exponents) + np.array(offsets)
    turns: NDArray[np.complex64] = np.exp(-2j * np.pi * circles).astype(np.complex64)
    return turns


def by_butterfly(plan: Plan, values: NDArray[Any]) -> NDArray[Any]:
    """Bring values by channel (..., n) into the order in which the transform kernel's last pass has channels.

    Output t·last/4 + i of butterfly p of row k is the channel k + rows·(p + first·(t·last/4 + i)). It goes to
    [k, i, h, p, l] with t = 1, 2 (h = 0, l = 0, 1) or t = 0, 3 (h = 1); shape (..., rows, last/4, 2, first, 2).
    """
    rows, first, last = plan.radix * plan.middle, plan.first, plan.passes[-1]
    parts = values.reshape(*values.shape[:-1], 4, last // 4, first, rows)
    parts = parts[..., [1, 2, 0, 3], :, :, :].reshape(*values.shape[:-1], 2, 2, last // 4, first, rows)
    return np.ascontiguousarray(np.moveaxis(parts, (-5, -4, -3, -2, -1), (-3, -1, -4, -2, -5)))


def mirror_turns(config: ChannelizerConfig, plan: Plan) -> NDArray[np.complex64]:
    """-j·e^(-jπc/n) of the step from pairs of real samples to real samples, as `by_butterfly` orders channels."""
    angle = np.pi * np.arange(config.channels) / config.channels
    return by_butterfly(plan, (-1j * np.exp(-1j * angle)).astype(np.complex64))
