"""From a stream of sample chunks to the windows that the channelizer reads.

A spectrum reads samples before and after its time stamp (delays, taps), so consecutive batches of spectra need
overlapping stretches of samples. `SampleBuffer` holds chunks for as long as a batch needs them, and copies nothing;
every other part can then be stateless in time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ryle.chunk import SampleChunk, SampleWindow
from ryle.config import Observation
from ryle.config.observed import EVERY


@dataclass(frozen=True)
class WindowShape:
    """How batches of spectra lie in time, in samples.

    Parameters
    ----------
    step : int
        From one spectrum to the next.
    window : int
        That one spectrum reads.
    max_delay : int
        Largest delay of either sign.
    batch : int
        Spectra of one batch; batches start at its multiples since sync.
    wanted : range
        Spectra that are wanted: batches that have none of them are not given.
    """

    step: int
    window: int
    max_delay: int
    batch: int
    wanted: range = EVERY

    def span(self, first_spectrum: int) -> tuple[int, int]:
        """First sample that the batch starting at `first_spectrum` can read, and the one after the last."""
        low = self.step * first_spectrum - self.max_delay
        return low, self.step * (first_spectrum + self.batch - 1) + self.window + self.max_delay

    @property
    def first(self) -> int:
        """First spectrum of the first batch that is given."""
        return self.wanted.start // self.batch * self.batch

    @property
    def samples(self) -> tuple[int, int]:
        """First sample that any batch that is given can read, and the one after the last."""
        last = (self.wanted.stop - 1) // self.batch * self.batch
        return self.span(self.first)[0], self.span(last)[1]


class Batches:
    """Says which batches of spectra are complete, as samples come in order of time.

    What lies between two stretches of samples is missing. A gap longer than two windows is jumped over: the batches
    that end in it are given, those wholly inside it are not.

    Parameters
    ----------
    shape : WindowShape
        How batches lie.
    """

    def __init__(self, shape: WindowShape) -> None:
        self.shape = shape
        self._next: int | None = None  # first spectrum of the next batch
        self._end = 0

    @property
    def needed(self) -> int | None:
        """First sample that batches to come may read; None if nothing is under way."""
        return None if self._next is None else self.shape.span(self._next)[0]

    @property
    def complete(self) -> int | None:
        """Sample behind the last that the next batch reads: with it, it is complete; None if nothing is under way."""
        return None if self._next is None else self.shape.span(self._next)[1]

    def parts(self, start: int) -> bool:
        """Whether samples from `start` on begin anew, so that the batches of before are to be ended first.

        They do behind a long gap, and if digitizers have started again, with earlier time stamps.
        """
        if self._next is None:
            return False
        low, high = self.shape.span(self._next)
        return start < self._end or start > high + 2 * (high - low)

    def add(self, start: int, end: int) -> Iterator[int]:
        """Add the samples [start, end); give the first spectrum of each batch that is now complete."""
        if self._next is None:
            # The first batch that these samples can contribute to: a positive delay reads earlier ones.
            earliest = max(0, start - self.shape.window - self.shape.max_delay)
            self._next = earliest // self.shape.step // self.shape.batch * self.shape.batch
            while self.shape.span(self._next)[1] <= start:
                self._next += self.shape.batch
            self._next = max(self._next, self.shape.first)
        self._end = end
        while self.shape.span(self._next)[1] <= end and self._next < self.shape.wanted.stop:
            yield self._next
            self._next += self.shape.batch

    def end(self) -> Iterator[int]:
        """Give the batches that the samples so far contribute to, as they are, and start anew."""
        while self._next is not None and self.shape.span(self._next)[0] < self._end:
            if self._next >= self.shape.wanted.stop:
                break
            yield self._next
            self._next += self.shape.batch
        self._next = None


class SampleBuffer:
    """Collects sample chunks and gives windows, one a batch of spectra (`Batches`).

    Parameters
    ----------
    shape : WindowShape
        How batches lie.
    """

    def __init__(self, shape: WindowShape) -> None:
        self.shape = shape
        self._chunks: deque[SampleChunk] = deque()
        self._batches = Batches(shape)

    def push(self, chunk: SampleChunk) -> Iterator[tuple[int, SampleWindow]]:
        """Add a chunk; give each batch that is now complete.

        Parameters
        ----------
        chunk : SampleChunk
            Must not be written to before `needed` says that its samples are not needed any more.

        Yields
        ------
        first_spectrum : int
            First spectrum of a batch.
        window : SampleWindow
            Every sample that the batch may read, missing ones marked, in views of the chunks.

        """
        if self._batches.parts(chunk.timestamp):
            yield from self.flush()
        self._chunks.append(chunk)
        for first in self._batches.add(chunk.timestamp, chunk.end):
            yield first, self._batch(first)

    def flush(self) -> Iterator[tuple[int, SampleWindow]]:
        """Give the batches that the samples so far contribute to, as they are, and start anew."""
        for first in self._batches.end():
            yield first, self._batch(first)
        self._chunks.clear()

    @property
    def needed(self) -> int | None:
        """First sample that batches to come may read; None if nothing is held."""
        return self._chunks[0].timestamp if self._chunks else None

    def _batch(self, first: int) -> SampleWindow:
        window = self._cut(*self.shape.span(first))
        keep = self.shape.span(first + self.shape.batch)[0]
        while len(self._chunks) > 1 and self._chunks[0].end <= keep:
            self._chunks.popleft()
        return window

    def _cut(self, low: int, high: int) -> SampleWindow:
        """View the packets that hold the samples [low, high); none stand in for those that no chunk has."""
        size = self._chunks[-1].packet_samples
        at, stop = low // size, -(-high // size)  # packets since sync; floor also below zero
        pieces: list[SampleChunk] = []
        for chunk in self._chunks:
            first = chunk.timestamp // size
            a, b = max(at, first), min(stop, first + chunk.data.shape[1])
            if a < b:
                pieces += self._nothing(at, a)
                part = slice(a - first, b - first)
                pieces.append(SampleChunk(a * size, chunk.data[:, part], chunk.present[:, part], size))
                at = b
        return SampleWindow((*pieces, *self._nothing(at, stop)))

    def _nothing(self, first: int, stop: int) -> list[SampleChunk]:
        """Stand in for packets that no chunk has."""
        if first >= stop:
            return []
        inputs, _, packet_bytes = self._chunks[-1].data.shape
        size, shape = self._chunks[-1].packet_samples, (inputs, stop - first, packet_bytes)
        return [SampleChunk(first * size, np.zeros(shape, np.uint8), np.zeros(shape[:2], np.uint8), size)]


def window_shape(o: Observation) -> WindowShape:
    """Say how an observation's batches of spectra lie in time."""
    return WindowShape(o.step, o.window, o.max_delay_samples, o.batch_spectra * o.f_batches, o.spectra)
