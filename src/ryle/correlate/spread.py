"""The X-engine on several GPUs: each sums a run of channels, of all inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import Integration, PacketChunk, SpectraChunk
from ryle.correlate.correlator import CorrelatorConfig
from ryle.correlate.cuda import CudaCorrelator
from ryle.correlate.reading import Reading, SpreadSpectra
from ryle.gpu.interface import Gpu
from ryle.stream.block import Event, Together


def shares(count: int, parts: int) -> list[range]:
    """Divide `count` things into runs that differ by one at most, in order."""
    edges = [count * part // parts for part in range(parts + 1)]
    return [range(*pair) for pair in pairwise(edges)]


class SpreadCorrelator:
    """Form of `ryle.correlate.Correlator` for several GPUs, which add nothing but what lies on them.

    Sums come together on the host, where each GPU copies its channels to their place.

    Parameters
    ----------
    config : CorrelatorConfig
        Of all channels, in one group.
    gpus : sequence of Gpu
        Each takes a run of channels, see `shares`; one may be there more than once.

    Raises
    ------
    ValueError
        If there are several channel groups, or fewer channels than GPUs.
    """

    def __init__(self, config: CorrelatorConfig, gpus: Sequence[Gpu]) -> None:
        if config.groups != 1 or config.channels < len(gpus):
            raise ValueError(
                f"{config.channels} channels in {config.groups} groups on {len(gpus)} GPUs; there must be one group, "
                "and a channel for each GPU"
            )
        self.config = config
        self._gpu, self._channels = gpus[0], shares(config.channels, len(gpus))
        self.parts = [
            CudaCorrelator(replace(config, channels=len(channels)), gpu=gpu)
            for channels, gpu in zip(self._channels, gpus, strict=True)
        ]
        # What contributed is the same in all channels: the first GPU's counts are kept.
        self._ignored = self._gpu.pinned((1, config.products), np.uint32)

    @property
    def spectra(self) -> int:
        """Spectra added since the last reset, missing ones counted."""
        return self.parts[0].spectra

    @property
    def clamped(self) -> int:
        """None: Ryle's own F-engines make no -128."""
        return sum(part.clamped for part in self.parts)

    def accumulate(
        self, chunk: SpectraChunk | PacketChunk, first_block: int = 0, blocks: int | None = None
    ) -> Event | None:
        """Add a run of K-blocks of `SpreadSpectra`, without waiting; see `ryle.correlate.Correlator`."""
        if not isinstance(chunk, SpreadSpectra):
            raise TypeError(f"a chunk is {type(chunk).__name__}; several GPUs take what is spread over them")
        reads = [part.accumulate(chunk.on(i), first_block, blocks) for i, part in enumerate(self.parts)]
        found = tuple(each for each in reads if each is not None)
        return Together(found) if found else None

    def room(self) -> Integration:
        """Make page-locked memory for all channels; see `ryle.correlate.Correlator`."""
        visibilities = self._gpu.pinned((self.config.channels, self.config.products, 2), np.int64)
        return Integration(0, 0, 0, visibilities, self._gpu.pinned((1, self.config.products), np.uint32))

    def read(
        self, first_spectrum: int, spectra: int, first_channel: int, out: Integration | None = None
    ) -> Integration:
        """Return the sums as an integration; see `ryle.correlate.Correlator`."""
        return self.start_read(first_spectrum, spectra, first_channel, out).wait()

    def start_read(
        self, first_spectrum: int, spectra: int, first_channel: int, out: Integration | None = None
    ) -> Reading:
        """Begin to read the sums as they are now, and return at once; see `ryle.correlate.Correlator`."""
        into = self.room() if out is None else out
        counts: list[NDArray[np.uint32]] = [into.counts] + [self._ignored] * (len(self.parts) - 1)
        readings = [
            part.start_read(
                first_spectrum,
                spectra,
                first_channel + channels.start,
                replace(into, visibilities=into.visibilities[channels.start : channels.stop], counts=counted),
            )
            for part, channels, counted in zip(self.parts, self._channels, counts, strict=True)
        ]
        ready = Together(tuple(r.ready for r in readings if r.ready is not None))
        whole = Integration(first_spectrum, spectra, first_channel, into.visibilities, into.counts)
        return Reading(whole, ready, readings)

    def reset(self) -> None:
        """Start new sums."""
        for part in self.parts:
            part.reset()
