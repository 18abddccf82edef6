"""Channelizers that take a batch while they work on the one before."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ryle.array.delays import Delays
from ryle.channelize.channelizer import Channelizer, Layout, Spectra
from ryle.chunk import SampleChunk, SampleWindow


@runtime_checkable
class Pipelined(Channelizer, Protocol):
    """A channelizer whose calls can be cut in two, so that copies of one overlap the arithmetic of another.

    Results are those of `Channelizer.process`, in the order of the calls.
    """

    def submit(
        self, chunk: SampleChunk | SampleWindow, first_spectrum: int, spectra: int, delays: Delays, layout: Layout
    ) -> None:
        """Begin what `process` does; the arguments may be written to when this returns.

        Raises
        ------
        ValueError
            If an argument does not fit the configuration; the message names it.
        RuntimeError
            If two calls are under way already.
        """
        ...

    def collect(self) -> Spectra:
        """Wait for the oldest call under way and give its result.

        Raises
        ------
        RuntimeError
            If none is under way.
        """
        ...
