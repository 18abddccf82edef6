"""White Gaussian noise that can be entered at any sample.

A stream is cut into blocks at fixed sample counts, and every block has a generator of its own, keyed by seed, kind of
stream, index and block. Whoever makes a sample, and in whatever order, makes the same one.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

#: Real numbers in one block: long against the cost of seeding, short against what is thrown away on random access.
BLOCK_VALUES = 1 << 15
_BIAS = 1 << 40  # spawn keys are not negative, but a delayed wave starts before sample 0


class Stream(IntEnum):
    """What a stream of random numbers is for."""

    SOURCE = 0
    RECEIVER = 1
    ERRORS = 2
    TONE = 3
    LOSS = 4


def generator(seed: int, stream: Stream, index: int, block: int = 0) -> np.random.Generator:
    """Return the generator of one block of one stream."""
    key = np.random.SeedSequence(seed, spawn_key=(int(stream), index, block + _BIAS))
    return np.random.Generator(np.random.SFC64(key))


class Noise:
    """A stream of independent normal values of unit variance; if complex, of each part.

    Parameters
    ----------
    seed : int
        Of the whole simulation.
    stream : Stream
        What it is for.
    index : int
        Which of its kind.
    complex_samples : bool
        Whether a sample has two parts.
    """

    def __init__(self, seed: int, stream: Stream, index: int, complex_samples: bool) -> None:
        self._key = (seed, stream, index)
        self._complex = complex_samples
        self._samples = BLOCK_VALUES // (2 if complex_samples else 1)
        self._blocks: dict[int, NDArray[np.float32]] = {}

    def window(self, first: int, samples: int) -> NDArray[np.float32] | NDArray[np.complex64]:
        """Return samples ``[first, first + samples)``; `first` may be negative."""
        start, end = first // self._samples, -(-(first + samples) // self._samples)
        # What consecutive windows share is kept, no more.
        self._blocks = {b: v for b, v in self._blocks.items() if start <= b < end}
        for block in range(start, end):
            if block not in self._blocks:
                made = generator(*self._key, block).standard_normal(BLOCK_VALUES, dtype=np.float32)
                self._blocks[block] = made
        values = np.concatenate([self._blocks[b] for b in range(start, end)])
        wave = values.view(np.complex64) if self._complex else values
        return wave[first - start * self._samples :][:samples]
