"""The catcher's own integration: several integrations of the X-engines become one of the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import Integration, joined, joined_counts


def _each_channel(counts: NDArray[np.uint32], other: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Give counts of as many groups of channels as `other` has, if that is more."""
    more = max(1, other.shape[0] // counts.shape[0])
    return np.repeat(counts, more, axis=0) if more > 1 else counts


class Summing:
    """Sums integrations over stretches that begin at multiples of their length since sync; exact, as they are integers.

    One that is missing leaves a gap that `Integration.counts` tells: what is given is as long as ever, but its
    exposure is that of what came.

    Parameters
    ----------
    spectra : int
        Length of what is given, a multiple of that of what comes. If they are equal, all passes as it is.
    """

    def __init__(self, spectra: int) -> None:
        self._spectra = spectra
        self._open: Integration | None = None

    def push(self, pieces: Sequence[Integration]) -> Iterator[Sequence[Integration]]:
        """Add an integration, in order of time; give what it completes.

        Parameters
        ----------
        pieces : sequence of Integration
            Of one integration, their channels following each other; their arrays are copied unless given at once.

        Raises
        ------
        ValueError
            If the length is no multiple of the integration's.
        """
        part = pieces[0]
        if self._spectra % part.spectra:
            raise ValueError(f"{self._spectra} spectra are no multiple of an integration of {part.spectra}")
        # Others' X-engines start at any time: stretches then begin as far from multiples as their integrations do.
        phase = part.first_spectrum % part.spectra
        first = (part.first_spectrum - phase) // self._spectra * self._spectra + phase
        if self._open is not None and self._open.first_spectrum != first:
            yield from self.flush()
        if part.spectra == self._spectra:
            yield pieces
            return
        if self._open is None:
            self._open = replace(joined(pieces), first_spectrum=first, spectra=self._spectra, exposure=part.exposed)
        else:
            self._add(self._open, pieces)
        if part.first_spectrum + part.spectra == first + self._spectra:
            yield from self.flush()

    def _add(self, to: Integration, pieces: Sequence[Integration]) -> None:
        for piece in pieces:
            begin = piece.first_channel - to.first_channel
            to.visibilities[begin : begin + piece.channels] += piece.visibilities
        to.exposure = to.exposed + pieces[0].exposed
        counts = joined_counts(pieces)
        to.counts = _each_channel(to.counts, counts) + _each_channel(counts, to.counts)

    def flush(self) -> Iterator[Sequence[Integration]]:
        """Give what is open, as it is."""
        if self._open is not None:
            whole, self._open = self._open, None
            yield [whole]
