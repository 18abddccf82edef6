"""Reproducible dither: a counter-based generator, so that any spectrum's dither can be made alone, anywhere.

Philox4x32 with 7 rounds (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11). The key
is the 64-bit seed (low word first), the counter ``(channel mod q, spectrum mod 2^32, spectrum >> 32, input)``, in which
``q = ⌈channels/4⌉``. Word ``channel // q`` of the result serves one complex value: its high 16 bits the real part, its
low 16 bits the imaginary part, as ``(r + ½)/65536 − ½``, which single precision holds exactly.

So the channels ``c``, ``c + q``, ``c + 2q`` and ``c + 3q`` share one call. The last butterfly of radix 4 (8, 16, ...)
of a transform leaves them in one thread of a GPU, and on a CPU one word of successive counters serves successive
channels, so that neither has to exchange words.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def round_keys(seed: int, rounds: int = 7) -> list[tuple[int, int]]:
    """Give the two words of the key of each round, from a seed, the first round's key."""
    return [((seed + r * _WEYL[0]) & 0xFFFFFFFF, ((seed >> 32) + r * _WEYL[1]) & 0xFFFFFFFF) for r in range(rounds)]


def philox4x32(counter: ArrayLike, key: tuple[int, int], rounds: int = 7) -> NDArray[np.uint32]:
    """Philox4x32 of an array of counters.

    Parameters
    ----------
    counter : array_like of uint32, shape (..., 4)
        Counter words.
    key : tuple of int
        Two 32-bit key words.
    rounds : int
        Number of rounds; 7 is the least that passes BigCrush.

    Returns
    -------
    ndarray of uint32, shape (..., 4)
    """
    c0, c1, c2, c3 = np.moveaxis(np.asarray(counter, np.uint64), -1, 0)
    for key0, key1 in round_keys(key[0] | key[1] << 32, rounds):
        product0 = _MULTIPLIERS[0] * c0
        product1 = _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            (product1 >> _HALF) ^ c1 ^ np.uint64(key0),
            product1 & _LOW,
            (product0 >> _HALF) ^ c3 ^ np.uint64(key1),
            product0 & _LOW,
        )
    return np.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)


def dither(seed: int, input_index: int, spectrum: int, channels: int) -> NDArray[np.float64]:
    """Uniform dither in (−½, ½) of one spectrum.

    Parameters
    ----------
    seed : int
        64-bit seed.
    input_index : int
        Index of the input in the array.
    spectrum : int
        Index of the spectrum since sync.
    channels : int
        Number of channels.

    Returns
    -------
    ndarray of float64, shape (channels, 2)
        Dither of the real and imaginary parts.
    """
    quarter = -(-channels // 4)
    counter = np.empty((quarter, 4), np.uint64)
    counter[:, 0] = np.arange(quarter)
    counter[:, 1:] = (spectrum & 0xFFFFFFFF, spectrum >> 32 & 0xFFFFFFFF, input_index)
    words = philox4x32(counter, (seed & 0xFFFFFFFF, seed >> 32)).T.reshape(-1)[:channels]
    halves = np.stack([words >> np.uint32(16), words & np.uint32(0xFFFF)], axis=-1)
    return (halves + 0.5) / 65536 - 0.5
