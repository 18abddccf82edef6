"""Which spectra are valid: those whose windows are wholly there. Delays and packets alone say so."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ryle.channelize import _native


def window_starts(coarse: NDArray[np.int64], first_spectrum: int, step: int, timestamp: int = 0) -> NDArray[np.int64]:
    """Give the first sample of each spectrum's window, shape (input, spectrum), counted from `timestamp`."""
    indices = np.arange(first_spectrum, first_spectrum + coarse.shape[1], dtype=np.int64)
    starts: NDArray[np.int64] = step * indices - coarse - timestamp
    return starts


def whole_windows(
    coarse: NDArray[np.int64],
    first_spectrum: int,
    step: int,
    window: int,
    present: NDArray[np.uint8],
    packet_samples: int,
    timestamp: int = 0,
) -> NDArray[np.bool_]:
    """Say of which spectra all samples are there.

    Parameters
    ----------
    coarse : ndarray of int64, shape (input, spectrum)
        Delays, samples.
    first_spectrum, step : int
        Of the spectra; samples from one to the next.
    window : int
        Samples of a window.
    present : ndarray of uint8, shape (input, packet)
        Which packets are there; those before and after are not.
    packet_samples : int
        Samples of a packet.
    timestamp : int
        Of packet 0.

    Returns
    -------
    ndarray of bool, shape (input, spectrum)
    """
    found = np.empty(coarse.shape, np.bool_)
    there = np.ascontiguousarray(present if present.dtype == np.uint8 else present != 0).view(np.uint8)
    origin = step * first_spectrum - timestamp
    _native.whole_windows(np.ascontiguousarray(coarse), origin, step, window, there, packet_samples, found)
    return found
