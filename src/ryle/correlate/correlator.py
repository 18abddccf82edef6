"""What every form of the X-engine's arithmetic offers: its configuration, its interface, the order of its products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import Integration, PacketChunk, SpectraChunk
from ryle.correlate.reading import Reading
from ryle.stream.block import Event


@dataclass(frozen=True, slots=True)
class CorrelatorConfig:
    """Size of a correlation.

    Parameters
    ----------
    inputs : int
        Number of inputs; input = antenna · polarizations + polarization.
    channels : int
        Number of channels correlated here.
    polarizations : int
        Polarizations of an antenna, 1 or 2.
    groups : int
        Channel groups: runs of ``channels / groups`` channels that share validity words.

    Raises
    ------
    ValueError
        If a number is out of range or does not divide as it must.
    """

    inputs: int
    channels: int
    polarizations: int = 1
    groups: int = 1

    def __post_init__(self) -> None:
        for name in ("inputs", "channels", "groups"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.polarizations not in (1, 2):
            raise ValueError(f"polarizations is {self.polarizations}; it must be 1 or 2")
        if self.inputs % self.polarizations:
            raise ValueError(
                f"inputs is {self.inputs}, not a multiple of {self.polarizations} polarizations; "
                "give every antenna all its polarizations (leave a missing one invalid)"
            )
        if self.channels % self.groups:
            raise ValueError(
                f"channels is {self.channels}, not a multiple of {self.groups} groups; "
                "choose a number of groups that divides it"
            )

    @property
    def antennas(self) -> int:
        """Number of antennas."""
        return self.inputs // self.polarizations

    @property
    def products(self) -> int:
        """Number of products, autos with all their polarization products included."""
        return self.antennas * (self.antennas + 1) // 2 * self.polarizations**2


def check_chunk(config: CorrelatorConfig, chunk: SpectraChunk) -> None:
    """Refuse a chunk that a correlator of this size cannot take.

    Raises
    ------
    ValueError
        Naming the array, its shape and the one expected.
    TypeError
        If an array has another type.
    """
    inputs = (config.antennas, config.polarizations)
    shape = (config.channels, chunk.blocks, config.inputs, 128)
    if chunk.data.shape not in (shape, (*shape[:2], *inputs, 128)):
        raise ValueError(
            f"data has shape {chunk.data.shape}; this correlator takes (channel, block, input, 128) = {shape}, or with "
            f"(antenna, polarization) = {inputs} for input: make the chunk and the correlator from the same "
            "configuration"
        )
    words = (config.groups, chunk.blocks, config.inputs)
    if chunk.valid.shape not in (words, (*words[:2], *inputs)):
        raise ValueError(
            f"valid has shape {chunk.valid.shape}; this correlator takes (channel group, block, input) = {words}, or "
            f"with (antenna, polarization) = {inputs} for input: make the chunk and the correlator from the same "
            "configuration"
        )
    if chunk.data.dtype != np.int8 or chunk.valid.dtype != np.uint64:
        raise TypeError(
            f"data is {chunk.data.dtype} and valid is {chunk.valid.dtype}; "
            "they must be int8 and uint64 in native byte order"
        )


def by_antenna(config: CorrelatorConfig, chunk: SpectraChunk) -> tuple[NDArray[np.int8], NDArray[np.uint64]]:
    """View data as (channel, block, antenna, polarization, 128), words as (group, block, antenna, polarization)."""
    inputs = (config.antennas, config.polarizations)
    return (
        chunk.data.reshape(*chunk.data.shape[:2], *inputs, 128),
        chunk.valid.reshape(*chunk.valid.shape[:2], *inputs),
    )


class Correlator(Protocol):
    """Sums the products of spectra over time, exactly; the interface that all backends share."""

    @property
    def config(self) -> CorrelatorConfig:
        """Size of the correlation."""
        ...

    @property
    def spectra(self) -> int:
        """Spectra added since the last reset, missing ones counted."""
        ...

    @property
    def clamped(self) -> int:
        """Valid real or imaginary parts of -128 (-8) that were taken as -127 (-7), since construction."""
        ...

    def accumulate(
        self, chunk: SpectraChunk | PacketChunk, first_block: int = 0, blocks: int | None = None
    ) -> Event | None:
        """Add a run of a chunk's K-blocks; what is invalid counts as zero.

        Parameters
        ----------
        chunk : SpectraChunk or PacketChunk
            Spectra of all inputs, or the packets or F-heaps that hold them. Each row of a `SpectraChunk` must be
            contiguous, and may lie anywhere.
        first_block : int
            First block to add, counted from the chunk's first.
        blocks : int, optional
            Number of blocks; by default all that follow.

        Returns
        -------
        Event or None
            When the chunk may be used again; None: now. After the return only samples are read, and of those only what
            lies in a GPU's memory or is page-locked.

        Raises
        ------
        ValueError
            If the chunk does not match the configuration or the run leaves the chunk.
        TypeError
            If the chunk's arrays are of another type.
        OverflowError
            If contributions could no longer be counted in 32 bits.
        """
        ...

    def room(self) -> Integration:
        """Make memory that sums can be read into, again and again."""
        ...

    def read(
        self, first_spectrum: int, spectra: int, first_channel: int, out: Integration | None = None
    ) -> Integration:
        """Return the sums as an integration with these labels; they are kept.

        Parameters
        ----------
        first_spectrum : int
            Index since sync of the first spectrum summed.
        spectra : int
            Length of the integration in spectra, missing ones counted; may exceed what was added if whole blocks
            never arrived.
        first_channel : int
            Index in the whole band of the first channel.
        out : Integration, optional
            What `room` gave, to be written to; new memory if absent.

        Returns
        -------
        Integration
            A copy, in `out`'s arrays if they were given; later sums do not change it.
        """
        ...

    def start_read(
        self, first_spectrum: int, spectra: int, first_channel: int, out: Integration | None = None
    ) -> Reading:
        """Begin to read the sums as they are now, and return at once if a device can; parameters as of `read`."""
        ...

    def reset(self) -> None:
        """Start new sums."""
        ...
