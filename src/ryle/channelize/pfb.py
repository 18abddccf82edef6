"""Prototype filter of the polyphase filter bank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_WINDOWS: dict[str, Callable[[int], NDArray[Any]]] = {
    "hann": np.hanning,
    "hamming": np.hamming,
    "blackman": np.blackman,
    "rect": np.ones,
}

#: Names of the windows.
WINDOWS = tuple(_WINDOWS)


def pfb_weights(step: int, taps: int, window: str = "hann", w_cutoff: float = 1.0) -> NDArray[np.float64]:
    """Window a sinc and normalize it.

    The weights are ``A·W(i)·sinc(w_cutoff·(i + ½ − N/2)/step)`` for ``N = step·taps``, with the symmetric form of the
    named window (as MeerKAT's F-engine) and ``A`` such that ``Σw² = 1``: white noise then has the same power in every
    channel as its samples have.

    Parameters
    ----------
    step : int
        Samples from one spectrum to the next, which is also the length of the Fourier transform.
    taps : int
        Length in units of `step`.
    window : str
        One of `WINDOWS`.
    w_cutoff : float
        Width of a channel's passband in units of the channel spacing; 0 leaves the window alone.

    Returns
    -------
    ndarray of float64, shape (step·taps,)

    Raises
    ------
    ValueError
        If the window is unknown.
    """
    if window not in _WINDOWS:
        raise ValueError(
            f"window {window!r} is unknown; use one of {', '.join(WINDOWS)}, or give the weights themselves"
        )
    length = step * taps
    offset = np.arange(length) + 0.5 - length / 2
    return normalized(_WINDOWS[window](length) * np.sinc(w_cutoff * offset / step))


def normalized(weights: ArrayLike) -> NDArray[np.float64]:
    """Scale weights to ``Σw² = 1``; ValueError if they are all zero or not finite."""
    weights = np.asarray(weights, np.float64)
    norm = float(np.sqrt(np.sum(weights * weights)))
    if not np.isfinite(norm) or norm == 0.0:
        raise ValueError("the filter's weights must be finite and not all zero")
    return weights / norm
