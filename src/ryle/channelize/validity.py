"""Which spectra are valid: those whose windows are wholly there. Delays and packets alone say so."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def window_starts(coarse: NDArray[np.int64], first_spectrum: int, step: int, timestamp: int = 0) -> NDArray[np.int64]:
    """Give the first sample of each spectrum's window, shape (input, spectrum), counted from `timestamp`."""
    indices = np.arange(first_spectrum, first_spectrum + coarse.shape[1], dtype=np.int64)
    starts: NDArray[np.int64] = step * indices - coarse - timestamp
    return starts


def whole_windows(
    starts: NDArray[np.int64], window: int, present: NDArray[np.uint8], packet_samples: int
) -> NDArray[np.bool_]:
    """Say of which spectra all samples are there.

    Parameters
    ----------
    starts : ndarray of int64, shape (input, spectrum)
        First sample of each window, counted from that of packet 0.
    window : int
        Samples of a window.
    present : ndarray of uint8, shape (input, packet)
        Which packets are there; those before and after are not.
    packet_samples : int
        Samples of a packet.

    Returns
    -------
    ndarray of bool, shape (input, spectrum)
    """
    inputs, packets = present.shape
    if present.all() and starts.min() >= 0 and starts.max() + window <= packets * packet_samples:
        return np.ones(starts.shape, np.bool_)  # nearly always
    inside = (starts >= 0) & (starts + window <= packets * packet_samples)
    missing = np.zeros((inputs, packets + 1), np.int64)  # before each packet
    np.cumsum(present == 0, axis=1, out=missing[:, 1:])
    first = np.where(inside, starts // packet_samples, 0)
    last = np.where(inside, (starts + window - 1) // packet_samples, 0)
    lost = np.take_along_axis(missing, last + inside, axis=1) - np.take_along_axis(missing, first, axis=1)
    whole: NDArray[np.bool_] = inside & (lost == 0)
    return whole
