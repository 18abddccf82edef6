"""Integrations to a file: the last step of a catcher, and of correlating recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ryle.chunk import Integration
from ryle.engines.beginning import WholeBand
from ryle.engines.scans import Scan, Scans, finish
from ryle.engines.summing import Summing
from ryle.stream.block import Block
from ryle.stream.ring import Reader
from ryle.stream.step import EachBlock

if TYPE_CHECKING:  # it brings pyuvdata: X-engines, which name this step only, start seconds earlier
    from ryle.products.uvh5 import UVH5Writer


class WriteFile(EachBlock):
    """Integrations of the whole band to a file, summed to the file's length first.

    Parameters
    ----------
    source : Reader
        Of blocks of integrations.
    integrations : callable
        Gives a block's integrations, each in pieces whose channels follow each other and which last as the block does.
    open_file : callable
        Opens the file, when there is something to write; closed with the step.
    spectra : int
        Length of an integration in the file.
    written : callable
        Told each integration that is safe by its first piece, and its number.
    at_end : callable
        Given each file, when all that belongs into it has been written.
    beginning : WholeBand, optional
        Chooses the first integration, by the substreams that blocks' plane ``present`` has; without it they have all.

    Attributes
    ----------
    written, beginning
        The same; who is told may be set until the step starts.
    publish : callable or None
        Given each integration that is safe, or not to be written, and its number, while its pieces last; may be set
        until then too.
    scans : Scans or None
        Says to which file what goes; one file has all without it. May be set until then too.
    """

    def __init__(
        self,
        source: Reader,
        integrations: Callable[[Block], Iterable[Sequence[Integration]]],
        open_file: Callable[[], UVH5Writer],
        spectra: int,
        written: Callable[[int, Integration], None] = lambda number, integration: None,
        at_end: Callable[[UVH5Writer], None] = lambda writer: None,
        beginning: WholeBand | None = None,
    ) -> None:
        super().__init__("write", source)
        self._open_file = open_file
        self._writer: UVH5Writer | None = None
        self._integrations, self._summing = integrations, Summing(spectra)
        self.written, self.beginning, self._at_end = written, beginning, at_end
        self.publish: Callable[[int, Sequence[Integration]], None] | None = None
        self.scans: Scans | None = None
        #: That is on, once another than the first has begun.
        self.scan: Scan | None = None
        #: The first spectrum since sync that was written, or would have been; None before it.
        self.begin: int | None = None
        #: Spectra since sync up to which the file goes, or would if it was written.
        self.position = 0
        #: Integrations that were not to be written.
        self.unwritten = 0
        self._writes, self._earlier = True, 0  # integrations in files before this one

    def use(self, block: Block) -> None:
        """Sum a block's integrations; write what that completes. A block without a packet leaves a gap."""
        with block:
            present = block.planes.get("present")
            if present is None or present.any():
                there = np.ones(1, bool) if present is None else (present != 0).any(axis=tuple(range(1, present.ndim)))
                for pieces in self._integrations(block):
                    if self.beginning is None:
                        self._sum(pieces)
                        continue
                    for one in self.beginning.push(pieces, there):
                        self._sum(one)

    def _sum(self, pieces: Sequence[Integration]) -> None:
        if self.scans is not None:
            for scan in self.scans.due(pieces[0]):
                self._turn_to(scan)
        for whole in self._summing.push(pieces):
            self._write(whole)

    def finish(self) -> None:
        """Write what is open."""
        if self.beginning is not None:
            for one in self.beginning.flush():
                self._sum(one)
        self._end_file()

    def _turn_to(self, scan: Scan) -> None:
        """End the file, and go on with another, or without."""
        self._end_file()
        if self._writer is not None:
            self._earlier += self._writer.integrations
            finish(self._writer)
        self.scan, self._writer, self._writes = scan, scan.writer, scan.writer is not None
        self._summing = Summing(scan.observation.file_spectra)
        if self.scans is not None:
            self.scans.begins(scan)

    def _end_file(self) -> None:
        for whole in self._summing.flush():
            self._write(whole)
        if self._writer is not None:
            self._at_end(self._writer)

    def open(self) -> None:
        """Open the file, if nothing has been written to it yet."""
        if self._writer is None:
            self._writer = self._open_file()

    @property
    def integrations(self) -> int:
        """Integrations that are safe in files."""
        return self._earlier + (0 if self._writer is None else self._writer.integrations)

    @property
    def writer(self) -> UVH5Writer | None:
        """The file, if there is one."""
        return self._writer

    def _write(self, pieces: Sequence[Integration]) -> None:
        if self._writes:
            self.open()
            assert self._writer is not None
            self._writer.append(pieces)
            self.written(self.integrations, pieces[0])
        else:
            self.unwritten += 1
        self.position = pieces[0].first_spectrum + pieces[0].spectra
        if self.begin is None:
            self.begin = pieces[0].first_spectrum
        if self.publish is not None:
            self.publish(self.integrations + self.unwritten, pieces)

    def close(self) -> None:
        """Close the file."""
        if self.scans is not None:
            self.scans.close()
        if self._writer is not None:
            self._writer.close()
