"""F and X in one process: samples of all antennas in, integrations of the whole band out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..channelize import Blocks, Spectra
from ..chunk import Integration, SampleChunk
from ..config import Observation
from .f import FEngine
from .x import XEngine


class FxEngine:
    """The whole correlator between the digitizers and the file, without a network in it.

    Parameters
    ----------
    observation : Observation
        What is observed.
    residuals : ndarray of float64, shape (input,), optional
        See `FEngine`.

    Attributes
    ----------
    f : FEngine
        Channelizer of all antennas.
    x : XEngine
        Correlator of all channels; one channel group.
    """

    def __init__(self, observation: Observation, residuals: NDArray[np.float64] | None = None) -> None:
        self.f = FEngine(observation, range(len(observation.antennas)), Blocks(), residuals)
        self.x = XEngine(observation, 0, observation.fengine.channels, groups=1)

    def push(self, chunk: SampleChunk) -> Iterator[Integration]:
        """Add samples in time order; give each integration that they complete."""
        for spectra in self.f.push(chunk):
            yield from self._correlate(spectra)

    def flush(self) -> Iterator[Integration]:
        """Give what is still open; what it lacks counts as missing."""
        for spectra in self.f.flush():
            yield from self._correlate(spectra)
        yield from self.x.flush()

    def _correlate(self, spectra: Spectra) -> Iterator[Integration]:
        if spectra.valid.any():
            yield from self.x.push(spectra.chunk())
