"""Gains of inputs that change while an engine runs: with a batch of spectra, the same one for all that share them."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

_EVER = -(1 << 62)  # before all spectra


class Gains:
    """Gains from spectra on, which any thread may set and engines read batch by batch.

    Parameters
    ----------
    batch : int
        Spectra of a batch; gains change with its multiples since sync.
    gains : ndarray of complex64, shape (input, channel)
        To begin with.
    """

    def __init__(self, batch: int, gains: NDArray[np.complex64]) -> None:
        self._batch, self._shape = batch, gains.shape
        self._lock = threading.Lock()
        self._queue: list[tuple[int, NDArray[np.complex64]]] = [(_EVER, gains)]
        self._next = 0  # first spectrum whose gains nobody has asked for
        self._read: list[int | None] = []  # by reader: from where on what it was given last holds

    def set(self, gains: ArrayLike, spectrum: int = 0, inputs: Sequence[int] | None = None) -> int:
        """Change gains from a spectrum on. From any thread.

        Parameters
        ----------
        gains : array_like of complex, broadcast to (input, channel)
            Of these inputs; others of theirs that were set for the same spectrum or a later one are forgotten.
        spectrum : int
            Since sync.
        inputs : sequence of int, optional
            Whose they are; all if absent.

        Returns
        -------
        int
            First spectrum that has them: that, rounded up to a batch which nobody has begun.

        Raises
        ------
        ValueError
            If they do not fit or are not finite; nothing has changed then.
        """
        rows = list(range(self._shape[0]) if inputs is None else inputs)
        if wrong := [i for i in rows if not 0 <= i < self._shape[0]]:
            raise ValueError(f"there is no input {wrong[0]} here: inputs are 0 to {self._shape[0] - 1}")
        shape = len(rows), self._shape[1]
        try:
            with np.errstate(over="ignore"):
                found = np.array(np.broadcast_to(np.asarray(gains), shape), np.complex64)
        except (ValueError, TypeError):
            raise ValueError(f"gains of shape {np.shape(gains)} do not fit (input, channel) = {shape}") from None
        if not np.isfinite(found).all():
            raise ValueError("gains must be finite; 0 blanks a channel")
        with self._lock:
            first = -(-max(spectrum, self._next) // self._batch) * self._batch
            at = bisect_left(self._queue, first, key=lambda each: each[0])
            if at == len(self._queue) or self._queue[at][0] != first:
                self._queue.insert(at, (first, self._queue[at - 1][1].copy()))
            if len(set(rows)) == self._shape[0]:
                del self._queue[at + 1 :]
            for _, later in self._queue[at:]:  # nobody has been given these yet
                later[rows] = found
        return first

    def last(self, inputs: Sequence[int]) -> tuple[int, NDArray[np.complex64]]:
        """Give what some inputs have after all that was set: from which spectrum on, and gains (input, channel)."""
        with self._lock:
            first, gains = self._queue[-1]
            return max(first, 0), gains[list(inputs)]

    @property
    def next(self) -> int:
        """First spectrum for which gains can still be set."""
        with self._lock:
            return -(-self._next // self._batch) * self._batch

    def reader(self, inputs: slice = slice(None)) -> GainReader:
        """Give what reads those of some inputs."""
        with self._lock:
            self._read.append(None)
            return GainReader(self, len(self._read) - 1, inputs)

    def take(self, reader: int, first: int) -> NDArray[np.complex64] | None:
        """Give a reader the gains of the batch that begins with spectrum `first`; None if it has them already."""
        with self._lock:
            self._next = max(self._next, first + 1)
            since, gains = next((each for each in reversed(self._queue) if each[0] <= first), self._queue[0])
            if since == self._read[reader]:
                return None
            self._read[reader] = since
            if all(read == since for read in self._read):  # nobody asks for earlier ones any more
                self._queue = [each for each in self._queue if each[0] >= since]
            return gains


class GainReader:
    """Reads gains of some inputs, in order of time; made by `Gains.reader`."""

    def __init__(self, gains: Gains, number: int, inputs: slice) -> None:
        self._gains, self._number, self._inputs = gains, number, inputs

    def take(self, first: int) -> NDArray[np.complex64] | None:
        """Give the gains of the batch that begins with spectrum `first`, (input, channel); None if it has them."""
        found = self._gains.take(self._number, first)
        return None if found is None else found[self._inputs]
