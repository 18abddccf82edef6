"""Where an observation of an array that already sends begins: with the first integration that is whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import Integration, PacketChunk, SpectraChunk, joined

_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


def heard(chunk: SpectraChunk | PacketChunk) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Say of which blocks and inputs a chunk has anything, and of which all.

    Returns
    -------
    any, all : ndarray of bool, shape (block, input)
    """
    valid = chunk.valid.reshape(chunk.valid.shape[0], chunk.blocks, -1)
    return (valid != 0).any(axis=0), (valid == _ALL).all(axis=0)


def spectra_there(chunk: SpectraChunk | PacketChunk, block: int) -> int:
    """Say which spectra of a block any input has in any channel, as bits, the first least significant."""
    return int(np.bitwise_or.reduce(chunk.valid[:, block], axis=None))


class Joining:
    """Tells whether an integration is whole as far as streams' beginnings go: all that it has, it has from its start.

    F-engines begin within milliseconds of each other, in the middle of an integration; antennas may be switched on
    later still. An integration in which any of them begins is not whole. What never came is waited for by nobody.

    Parameters
    ----------
    blocks : int
        Of 64 spectra, of an integration; one starts at each multiple.
    """

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        self._since: NDArray[np.int64] | None = None  # first whole block of each input; -1: none yet

    def add(self, chunk: SpectraChunk | PacketChunk) -> None:
        """Look at what a chunk has."""
        some, whole = heard(chunk)
        if self._since is None:
            self._since = np.full(some.shape[1], -1, np.int64)
        new = np.flatnonzero((self._since < 0) & some.any(axis=0))
        at = some[:, new].argmax(axis=0)
        self._since[new] = chunk.first_block + at + ~whole[at, new]

    def whole(self, index: int) -> bool:
        """Whether nothing of what has come so far began after the start of integration `index`."""
        return self._since is None or bool((self._since <= index * self._blocks).all())


class WholeBand:
    """Leaves out leading integrations that lack what comes right after: substreams whose X-engines begin later.

    Also left out is what comes before the first integration of the file, if that is longer. One integration is held
    back until the next shows whether what it lacks will come; from the first that is given on, all are.

    Parameters
    ----------
    spectra : int
        Length of an integration in the file.
    first : int
        Number of the first substream of those that come.

    Attributes
    ----------
    left_out : int
        Integrations that were.
    later : list of int
        Substreams on account of which.
    """

    def __init__(self, spectra: int, first: int = 0) -> None:
        self._spectra, self._first = spectra, first
        self._held: tuple[list[Integration], NDArray[np.bool_]] | None = None
        self._begun = False
        self.left_out = 0
        self.later: list[int] = []

    def push(self, pieces: Sequence[Integration], there: NDArray[np.bool_]) -> Iterator[Sequence[Integration]]:
        """Add an integration, in order of time; give what belongs to the file.

        Parameters
        ----------
        pieces : sequence of Integration
            The whole band; copied if held back.
        there : ndarray of bool, shape (substream,)
            Which substreams came.
        """
        if self._held is not None:
            held, had = self._held
            self._held = None
            if (there & ~had).any():
                self.left_out += 1
                self.later = sorted({*self.later, *(self._first + np.flatnonzero(there & ~had)).tolist()})
            else:
                self._begun = True  # what is lacking is not there
                yield held
        if self._begun:
            yield pieces
        elif pieces[0].first_spectrum % self._spectra:
            self.left_out += 1
        elif there.all():
            self._begun = True
            yield pieces
        else:
            self._held = [joined(pieces)], there

    def flush(self) -> Iterator[Sequence[Integration]]:
        """Give what is held: nothing came after it."""
        if self._held is not None:
            yield self._held[0]
            self._held = None
