"""Glances at what an engine writes (`ryle.products.glance`), made while somebody watches, left beside its status page.

They are made by the step that writes, after an integration is safe, while its sums lie where they came: at most four a
second, and no more often than a tenth of that thread's time allows. Nobody watches: nothing is done at all.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import Integration
from ryle.config import Observation
from ryle.monitor.page_files import GLANCE
from ryle.products.glance import MOST_CHANNELS, PARTS, Glance, bins
from ryle.stream.audience import Audience
from ryle.stream.metrics import Registry

#: Seconds between glances at least; share of the time of the step that writes which glances may take.
APART, SHARE = 0.25, 0.1
_COARSE_BYTES = 16 << 20  # of a glance: of large arrays the band has fewer parts
_THREADS = 2
_PIECE = 256 << 10  # bytes that are summed at a time: they stay in a core's cache

Integers = NDArray[np.int64]


class GlanceMaker:
    """Makes glances at integrations, from `register` on.

    Parameters
    ----------
    observation : Observation
        What is observed.
    first_channel, channels : int
        Those that are written.

    Attributes
    ----------
    keep : callable
        Given the name and the bytes of what is to be left beside the status page; nowhere until it is set.
    """

    def __init__(self, observation: Observation, first_channel: int, channels: int) -> None:
        o = observation
        self._antennas, self._pols, self._products = len(o.antennas), o.pols, o.products
        self._first, self._channels = first_channel, channels
        self._edges = bins(channels, MOST_CHANNELS)
        self._parts = bins(channels, max(1, min(PARTS, _COARSE_BYTES // (8 * o.products))))
        # Bands of several engines are looked at at the same integrations.
        self._every = max(1, round(APART / o.file_time)) if not o.at_full_speed else 1
        self.keep: Callable[[str, bytes], None] = lambda name, data: None
        self._audience = Audience(o.products)
        self._due = 0.0
        self._failed = False
        self._pool: ThreadPoolExecutor | None = None

    def register(self, metrics: Registry) -> None:
        """Make them for who watches the engine that has these metrics; before its status reporter is made."""
        self._audience = metrics.audience(self._products)

    def publish(self, number: int, pieces: Sequence[Integration]) -> None:
        """Leave a glance at an integration, if somebody watches and it is time.

        Parameters
        ----------
        number : int
            Which it is in the file.
        pieces : sequence of Integration
            In order of channels; not needed any more afterwards.
        """
        now = time.monotonic()
        if not self._audience.there or now < self._due or self._failed:
            return
        if pieces[0].first_spectrum // pieces[0].spectra % self._every:
            return
        try:
            self.keep(GLANCE, self.glance(number, pieces).to_bytes())
        except (OSError, MemoryError, ValueError) as error:  # of no use to anybody, but the data go on
            self._failed = True
            print(f"no glances at visibilities for those who watch: {error}", file=sys.stderr, flush=True)
        took = time.monotonic() - now
        self._due = now + max(0.9 * APART, took / SHARE)

    def glance(self, number: int, pieces: Sequence[Integration]) -> Glance:
        """Make a glance at an integration: sums by counts, both added up exactly."""
        n, p = self._antennas, self._pols
        a, pol = np.divmod(np.arange(n * p), p)
        autos = p * p * (a * (a + 3) // 2) + pol * (p + 1)
        chosen = np.array(self._audience.chosen, np.int64)
        kind = np.int64 if all(piece.visibilities.dtype.kind == "i" for piece in pieces) else np.float64
        products = self._products
        coarse = np.zeros((len(self._parts) - 1, products, 2), kind)
        counted = np.zeros((len(self._parts) - 1, products), np.int64)
        fine = np.zeros((len(self._edges) - 1, n * p + len(chosen), 2), kind)
        fine_counted = np.zeros((len(self._edges) - 1, n * p + len(chosen)), np.int64)
        columns = np.concatenate([autos, chosen])
        had = np.zeros(n * p)
        jobs = []
        for piece in pieces:
            _add_counts(piece, self._parts, counted)
            few = piece.counts[:, columns]
            _add_counts(piece, self._edges, fine_counted, few)
            had += few[:, : n * p].astype(np.float64).sum(axis=0) * (piece.channels // len(piece.counts))
            values = piece.visibilities[:, columns]
            for low, high, part in _runs(piece, self._edges):
                fine[part] += values[low:high].sum(axis=0, dtype=kind)
            jobs += [(piece, low, high, part) for low, high, part in _runs(piece, self._parts)]
        self._sum(jobs, coarse)
        with np.errstate(invalid="ignore", divide="ignore"):
            coarse_mean = coarse / np.where(counted > 0, counted, np.nan)[..., np.newaxis]
            fine_mean = fine / np.where(fine_counted > 0, fine_counted, np.nan)[..., np.newaxis]
        return Glance(
            number=number,
            first_spectrum=pieces[0].first_spectrum,
            integration=pieces[0].spectra,
            first_channel=self._first,
            channels=self._channels,
            antennas=n,
            pols=p,
            power=np.ascontiguousarray(fine_mean[:, : n * p, 0].T).astype(np.float32),
            power_channels=self._edges,
            coarse=_complex(coarse_mean),
            coarse_edges=self._parts,
            present=(had / (self._channels * pieces[0].spectra)).astype(np.float32),
            spectra=np.ascontiguousarray(_complex(fine_mean[:, n * p :]).T),
            chosen=chosen,
        )

    def _sum(self, jobs: Sequence[tuple[Integration, int, int, int]], out: NDArray[Any]) -> None:
        """Add up the channels of each part, for all products: most of the work, a share of products to each thread."""
        products = self._products
        if jobs and jobs[0][0].visibilities.nbytes * len(jobs) < 8 << 20:
            _sum_products(jobs, out, 0, products)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS, "glance")
        bounds = [products * i // _THREADS for i in range(_THREADS + 1)]
        futures = [self._pool.submit(_sum_products, jobs, out, low, high) for low, high in pairwise(bounds)]
        for future in futures:
            future.result()

    def close(self) -> None:
        """End its threads."""
        if self._pool is not None:
            self._pool.shutdown()


def _sum_products(jobs: Sequence[tuple[Integration, int, int, int]], out: NDArray[Any], begin: int, end: int) -> None:
    """Add up channels of some products, in pieces that stay in a cache while their bytes are turned round."""
    wide = max(1, _PIECE // 16)
    for piece, low, high, part in jobs:
        values: NDArray[Any] = piece.visibilities
        turned = not values.dtype.isnative
        for first in range(begin, end, wide):
            last = min(end, first + wide)
            to = out[part, first:last]
            room = np.empty(to.shape, values.dtype.newbyteorder("=")) if turned else None
            for channel in range(low, high):
                row = values[channel, first:last]
                if room is not None:
                    np.copyto(room, row)
                    row = room
                np.add(to, row, out=to)


def _runs(piece: Integration, edges: Integers) -> list[tuple[int, int, int]]:
    """List what of a piece lies in each part of the band: its channels, from and to, and the part."""
    begin, end = piece.first_channel, piece.first_channel + piece.channels
    first = int(np.searchsorted(edges, begin, "right")) - 1
    found = []
    for part in range(max(first, 0), len(edges) - 1):
        low, high = max(int(edges[part]), begin), min(int(edges[part + 1]), end)
        if low >= high:
            break
        found.append((low - begin, high - begin, part))
    return found


def _add_counts(piece: Integration, edges: Integers, out: Integers, counts: NDArray[np.uint32] | None = None) -> None:
    """Add up the spectra that contributed to each product in the channels of each part of the band."""
    counts = piece.counts if counts is None else counts
    run = piece.channels // len(counts)
    for low, high, part in _runs(piece, edges):
        groups = np.arange(low // run, (high - 1) // run + 1)
        channels = np.minimum(high, (groups + 1) * run) - np.maximum(low, groups * run)
        for group, wide in zip(groups.tolist(), channels.tolist(), strict=True):
            out[part] += counts[group].astype(np.int64) * wide


def _complex(parts: NDArray[np.float64]) -> NDArray[np.complex64]:
    """Give (re, im) as complex numbers."""
    return np.ascontiguousarray(parts[..., 0] + 1j * parts[..., 1]).astype(np.complex64)
