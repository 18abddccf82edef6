"""The X-engine as an oracle: exact integers, one line of arithmetic an operation, no concern for speed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import BLOCK, parts_from_rows, product_inputs


def unpack_valid(valid: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Expand validity words (..., block, input) to booleans (..., block, input, 64), least significant bit first."""
    return (valid[..., np.newaxis] >> np.arange(BLOCK, dtype=np.uint64) & np.uint64(1)).astype(bool)


def correlate(
    data: NDArray[np.int8], valid: NDArray[np.uint64], polarizations: int
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Sum ``x_i · conj(x_j)`` over all spectra, missing ones taken as zero.

    Parameters
    ----------
    data : ndarray of int8, shape (channel, block, input, 128)
        K-blocks, rows ordered as `ryle.chunk.rows_from_parts` does. A -128 is taken as -127.
    valid : ndarray of uint64, shape (channel group, block, input)
        Bit ``s`` is set where spectrum ``s`` of the block is valid.
    polarizations : int
        Polarizations of an antenna.

    Returns
    -------
    visibilities : ndarray of int64, shape (channel, product, 2)
        Sums (re, im), products ordered as by `ryle.correlate.product_inputs`.
    counts : ndarray of uint32, shape (channel group, product)
        Spectra at which both inputs are valid.
    """
    channels, _, inputs, _ = data.shape
    bits = unpack_valid(valid)  # (group, block, input, 64)
    present = np.repeat(bits, channels // len(valid), axis=0)
    parts = np.maximum(parts_from_rows(data).astype(np.int64), -127) * present[..., np.newaxis]
    re, im = parts[..., 0], parts[..., 1]  # (channel, block, input, spectrum)
    i, j = product_inputs(inputs // polarizations, polarizations).T
    visibilities = np.zeros((channels, len(i), 2), np.int64)
    counts = np.zeros((len(valid), len(i)), np.int64)
    for block in range(data.shape[1]):  # one at a time, for memory's sake
        r, m, b = re[:, block], im[:, block], bits[:, block].astype(np.int64)
        visibilities[..., 0] += np.sum(r[:, i] * r[:, j] + m[:, i] * m[:, j], axis=-1)
        visibilities[..., 1] += np.sum(m[:, i] * r[:, j] - r[:, i] * m[:, j], axis=-1)
        counts += np.sum(b[:, i] * b[:, j], axis=-1)
    return visibilities, counts.astype(np.uint32)
