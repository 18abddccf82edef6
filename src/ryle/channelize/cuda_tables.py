"""Constant tables of the CUDA channelizer: weights in the order the matrix units take them, and turns."""

from __future__ import annotations

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


def point_turns(config: ChannelizerConfig, plan: Plan) -> NDArray[np.complex64]:
    """Give the turns between the transform kernel's passes, one table after the other.

    With m = n / radix points in a row and passes of f, (g,) l points: W_m^(a·j), (m/f, f), then W_(g·l)^(a·j), (l, g).
    """
    points, tables = config.channels // plan.radix, []
    for radix in plan.passes[:-1]:
        product = np.outer(np.arange(points // radix), np.arange(radix))
        tables.append(np.exp(-2j * np.pi * product / points).ravel())
        points //= radix
    turns: NDArray[np.complex64] = np.concatenate([*tables, np.ones(2)]).astype(np.complex64)
    return turns


def mirror_turns(config: ChannelizerConfig) -> NDArray[np.complex64]:
    """-j·W_2n^c of the step from pairs of real samples to real samples, shape (n,)."""
    angle = np.pi * np.arange(config.channels) / config.channels
    turns: NDArray[np.complex64] = (-1j * np.exp(-1j * angle)).astype(np.complex64)
    return turns
