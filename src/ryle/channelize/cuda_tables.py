"""Constant tables of the CUDA channelizer: weights and turns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.channelize.channelizer import ChannelizerConfig
from ryle.channelize.cuda_plan import Plan


def filter_weights(config: ChannelizerConfig) -> NDArray[np.float32]:
    """Weights of the filter kernel, float32 (tap, value of a step)."""
    weights = config.prototype()
    if config.complex_input:
        # Both parts meet the same weight; the sign puts frequency 0 at channel n/2.
        weights = np.repeat(weights * np.where(np.arange(weights.size) % 2, -1.0, 1.0), 2)
    return weights.reshape(config.taps, -1).astype(np.float32)


def whole_weights(config: ChannelizerConfig) -> NDArray[np.float32]:
    """Weights of the kernel that does all in one, float32 (class, pair of taps, leg, tap, value of a point)."""
    weights = filter_weights(config)
    weights = np.concatenate([weights, np.zeros((config.taps % 2, weights.shape[1]), np.float32)])
    return np.ascontiguousarray(weights.reshape(-1, 2, 32, 32, 2).transpose(3, 0, 2, 1, 4))


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
    """Give the turns of the inputs of the transform kernel's last pass and, after them, of its second if it has one.

    One after the other in one array, as `butterfly_turns` gives them.
    """
    points = config.channels if plan.whole else plan.points(config)
    last = butterfly_turns(points, plan.passes[-1])
    second = butterfly_turns(plan.butterflies, plan.second) if plan.second > 1 else last[:0]
    return np.concatenate([last.ravel(), second.ravel()])


def butterfly_turns(points: int, last: int) -> NDArray[np.complex64]:
    """Give the turns of the inputs of the last pass of a transform, shape (butterfly p, last / 2).

    Input a is to be turned by w^a, w = W_points^p. What dft_of_turned takes: w^(l/2), w^(l/4), then for r = 8 to l (the
    last radix) w^(l/r)·W_r^k with k below r/4.
    """
    butterflies = points // last
    exponents = [last / 2, last / 4]  # of e^{-2jπ p / points}, and offsets in circles
    offsets = [0.0, 0.0]
    r = 8
    while r <= last:
        exponents += [last / r] * (r // 4)
        offsets += [k / r for k in range(r // 4)]
        r *= 2
    circles = np.outer(np.arange(butterflies) / points, exponents) + np.array(offsets)
    turns: NDArray[np.complex64] = np.exp(-2j * np.pi * circles).astype(np.complex64)
    return turns


def by_butterfly(plan: Plan, values: NDArray[Any]) -> NDArray[Any]:
    """Bring values by channel (..., n) into the order in which the transform kernel's last pass has channels.

    Output t·last/4 + i of butterfly p of row k is the channel k + rows·(p + first·(t·last/4 + i)). It goes to
    [k, i, h, p, l] with t = 1, 2 (h = 0, l = 0, 1) or t = 0, 3 (h = 1); shape (..., rows, last/4, 2, first, 2).
    """
    rows, first, last = plan.radix * plan.middle, plan.butterflies, plan.passes[-1]
    parts = values.reshape(*values.shape[:-1], 4, last // 4, first, rows)
    parts = parts[..., [1, 2, 0, 3], :, :, :].reshape(*values.shape[:-1], 2, 2, last // 4, first, rows)
    return np.ascontiguousarray(np.moveaxis(parts, (-5, -4, -3, -2, -1), (-3, -1, -4, -2, -5)))


def mirror_turns(config: ChannelizerConfig, plan: Plan) -> NDArray[np.complex64]:
    """-j·e^(-jπc/n) of the step from pairs of real samples to real samples, as `by_butterfly` orders channels."""
    angle = np.pi * np.arange(config.channels) / config.channels
    return by_butterfly(plan, (-1j * np.exp(-1j * angle)).astype(np.complex64))
