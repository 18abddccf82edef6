"""The arrays of an integration in the order of the file, as chunks that HDF5 writes as they are.

Visibilities come as ``[channel][product]`` and go as ``[row][channel][polarization]``, divided by what contributed.
Native code does that, some rows at a time, in threads beside the one that writes. Counts of a channel group hold for
runs of channels, so that flags and numbers of samples compress to almost nothing: a chunk of theirs is made once for
each different set of counts, and without loss all chunks have the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from ryle.chunk import Integration
from ryle.products._native import normalize
from ryle.products.cuts import slab_shape, threads_here
from ryle.products.uvh5_layout import DEFLATE, Rows

#: Different chunks of flags and numbers of samples kept compressed.
_KEPT = 256


@dataclass(frozen=True)
class Chunk:
    """A chunk of a dataset.

    Parameters
    ----------
    name : "visdata", "nsamples" or "flags"
        Of the dataset.
    row, channel : int
        Where it begins, in rows of this integration and channels of the file.
    content : buffer
        As it goes into the file, compressed where the dataset is; of ``visdata`` until the next chunk is taken.
    """

    name: Literal["visdata", "nsamples", "flags"]
    row: int
    channel: int
    content: Any


_Kind = Literal["int64", "swapped", "float64"]


@dataclass(frozen=True)
class _Piece:
    """What an integration's part has of a chunk's channels: file channels `begin` to `end` of the chunk.

    Its own channel at `begin` is `channel`; they are of `groups`, one after another, so many of each as `runs` says.
    """

    begin: int
    end: int
    channel: int
    sums: NDArray[np.int64]
    kind: _Kind
    counts: NDArray[np.uint32]
    groups: NDArray[np.int64]
    runs: NDArray[np.int64]


@dataclass(frozen=True)
class _Slab:
    """Rows of all channels: visibilities [chunk across][row][channel][polarization], and the rest chunk by chunk."""

    rows: slice
    visibilities: NDArray[np.complex64]
    quality: list[tuple[bytes, bytes]]


class Slabs:
    """Makes chunks of integrations.

    Parameters
    ----------
    rows : Rows
        Of the file.
    channels : int
        Of the file.
    sideband : int
        −1 if channels go in the reverse order.
    shape : tuple of int
        Of a chunk: rows, a divisor of those of an integration; channels; polarizations.
    """

    def __init__(self, rows: Rows, channels: int, sideband: int, shape: tuple[int, int, int]) -> None:
        self._rows, self._channels, self._sideband, self._shape = rows, channels, sideband, shape
        self._across, self._height = slab_shape(rows.sign.size, channels, shape)
        self._pool: ThreadPoolExecutor | None = None
        self._spare: list[NDArray[np.complex64]] = []
        self._compressed: dict[tuple[Any, ...], tuple[bytes, bytes]] = {}

    def make(self, parts: Sequence[Integration], exposed: int, least: int) -> Iterator[Chunk]:
        """Give the chunks of an integration.

        Parameters
        ----------
        parts : sequence of Integration
            Pieces of the band, none overlapping; what is in none of them is zero and flagged.
        exposed : int
            Spectra that make an ``nsamples`` of 1.
        least : int
            Spectra with fewer than which a visibility is flagged.
        """
        pieces = [[p for part in parts if (p := self._piece(part, across))] for across in range(self._across)]
        if len(self._compressed) > _KEPT:
            self._compressed.clear()
        threads = threads_here()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(threads, "arrange")
        under_way: deque[Future[_Slab]] = deque()
        try:
            for low in range(0, self._rows.sign.size, self._height):
                under_way.append(self._pool.submit(self._slab, pieces, low, exposed, least))
                if len(under_way) > threads:
                    yield from self._chunks(under_way.popleft().result())
            while under_way:
                yield from self._chunks(under_way.popleft().result())
        finally:  # whoever takes them may stop, and the parts' memory be written again
            for future in under_way:
                future.exception()

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _piece(self, part: Integration, across: int) -> _Piece | None:
        """Say what a part has of a chunk's channels, if anything; the same for all rows."""
        wide = self._shape[1]
        low, first, last = across * wide, part.first_channel, part.first_channel + part.channels
        if self._sideband < 0:
            first, last = self._channels - last, self._channels - first
        begin, end = max(low, first), min(low + wide, last)
        if begin >= end:
            return None
        channel = begin - first if self._sideband > 0 else last - 1 - begin
        counts = np.ascontiguousarray(part.counts)
        of = (channel + self._sideband * np.arange(end - begin)) // (part.channels // len(counts))
        starts = np.flatnonzero(np.diff(of, prepend=-1))
        runs = np.diff(starts, append=end - begin)
        sums, kind = _numbers(part.visibilities)
        return _Piece(begin - low, end - low, channel, sums, kind, counts, of[starts], runs)

    def _slab(self, pieces: Sequence[Sequence[_Piece]], low: int, exposed: int, least: int) -> _Slab:
        """Make the chunks of rows from `low`, in one thread of several."""
        tall, wide, polarizations = self._shape
        try:
            visibilities = self._spare.pop()
        except IndexError:
            visibilities = np.zeros((self._across, self._height, wide, polarizations), np.complex64)
        rows = slice(low, min(low + self._height, self._rows.sign.size))
        product, sign = self._rows.product[rows], self._rows.sign[rows]
        quality: list[tuple[bytes, bytes]] = []
        for across, of_chunk in enumerate(pieces):
            to = visibilities[across].view(np.float32).reshape(self._height, wide, polarizations, 2)[: len(sign)]
            if sum(p.end - p.begin for p in of_chunk) < min(wide, self._channels - across * wide):
                to[...] = 0
            for p in of_chunk:
                normalize(p.sums, p.kind, p.counts, product, sign, p.channel, self._sideband, to[:, p.begin : p.end])
            quality += [
                self._quality(across, of_chunk, product[row : row + tall], exposed, least)
                for row in range(0, len(sign), tall)
            ]
        return _Slab(rows, visibilities, quality)

    def _quality(
        self, across: int, pieces: Sequence[_Piece], product: NDArray[np.int64], exposed: int, least: int
    ) -> tuple[bytes, bytes]:
        """Give the chunks of nsamples and flags of some counts, made now or for a chunk before."""
        counts = [p.counts[p.groups[:, None, None], product] for p in pieces]  # (group, row, polarization)
        where = ((p.begin, p.runs.tobytes(), c.tobytes()) for p, c in zip(pieces, counts, strict=True))
        key = (across, exposed, least, *where)
        found = self._compressed.get(key)
        if found is None:
            nsamples, flags = np.zeros(self._shape, np.float32), np.ones(self._shape, np.bool_)
            for p, c in zip(pieces, counts, strict=True):
                of_rows = c.transpose(1, 0, 2)
                nsamples[:, p.begin : p.end] = np.repeat((of_rows / exposed).astype(np.float32), p.runs, axis=1)
                flags[:, p.begin : p.end] = np.repeat(of_rows < least, p.runs, axis=1)
            # Under loss almost every chunk differs: zlib itself would make the writer five times slower then, and
            # a catcher that has lost packets because it was behind would never catch up.
            found = isal_zlib.compress(nsamples.data, DEFLATE), isal_zlib.compress(flags.data, DEFLATE)
            self._compressed[key] = found
        return found

    def _chunks(self, slab: _Slab) -> Iterator[Chunk]:
        tall, wide, _ = self._shape
        quality = iter(slab.quality)
        for across in range(self._across):
            for row in range(0, slab.rows.stop - slab.rows.start, tall):
                at = slab.rows.start + row, across * wide
                nsamples, flags = next(quality)
                yield Chunk("visdata", *at, slab.visibilities[across, row : row + tall])
                yield Chunk("nsamples", *at, nsamples)
                yield Chunk("flags", *at, flags)
        self._spare.append(slab.visibilities)


def _numbers(sums: NDArray[Any]) -> tuple[NDArray[np.int64], _Kind]:
    """Give the 64 bits of each sum, and how they are to be read: in place, if they lie as they should."""
    if sums.strides[1:] != (16, 8) or sums.strides[0] % 8:
        sums = np.ascontiguousarray(sums)
    if sums.dtype.kind == "f":
        return sums.view(np.int64), "float64"
    return sums.view(np.int64), "int64" if sums.dtype.isnative else "swapped"
