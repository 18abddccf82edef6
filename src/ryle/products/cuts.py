"""How an integration is cut: into chunks, as the file has them, and slabs of chunks that a thread makes at a time.

Only arithmetic, so that engines which write no file can be told what it takes without what writes one.
"""

from __future__ import annotations

import os

import numpy as np

#: Wanted size in bytes of one HDF5 chunk of visibilities.
_CHUNK_BYTES = 1 << 20
#: Bytes of visibilities that a thread prepares at a time, and how many threads suffice: a disk takes no more.
_SLAB_BYTES, _THREADS = 32 << 20, 6


def chunk_shape(baselines: int, polarizations: int, channels: int) -> tuple[int, int, int]:
    """Give the shape of chunks: about a megabyte, their rows dividing an integration, so that none is written twice.

    Parameters
    ----------
    baselines, polarizations, channels : int
        Of an integration.

    Returns
    -------
    rows, channels, polarizations : int
    """
    across = -(-channels * 8 * polarizations // _CHUNK_BYTES)
    wide = -(-channels // across)
    wanted = _CHUNK_BYTES / (8 * polarizations * wide)
    divisors = (r for r in range(1, baselines + 1) if baselines % r == 0)
    # A chunk twice the size is better than tiny ones, of which an integration would have thousands.
    return min(divisors, key=lambda r: max(r / wanted, wanted / r)), wide, polarizations


def slabs_bytes(baselines: int, channels: int, shape: tuple[int, int, int]) -> int:
    """Say how much memory `ryle.products.slabs.Slabs` comes to hold here.

    Parameters
    ----------
    baselines, channels : int
        Of an integration.
    shape : tuple of int
        Of a chunk: rows, channels, polarizations.

    Returns
    -------
    int
        Bytes.
    """
    across, height = slab_shape(baselines, channels, shape)
    count = min(threads_here() + 1, -(-baselines // height))
    return count * across * height * shape[1] * shape[2] * np.dtype(np.complex64).itemsize


def slab_shape(baselines: int, channels: int, shape: tuple[int, int, int]) -> tuple[int, int]:
    """Give how many chunks a slab is wide, and how many rows it has."""
    tall, wide, polarizations = shape
    across = -(-channels // wide)
    return across, min(baselines, tall * max(1, _SLAB_BYTES // (8 * tall * wide * polarizations * across)))


def threads_here() -> int:
    """Say how many threads prepare slabs."""
    return min(_THREADS, len(os.sched_getaffinity(0)))
