"""The nouns that flow: a timestamped block of data together with which parts of it are present.

Three kinds of them, in signal-path order: packed digitizer samples, channelized spectra, visibilities. Timestamps are
integer counts of ADC samples since ``sync_time``. None of them owns a thread, a socket or a device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Spectra in one K-block; block ``b`` holds spectra ``64 b … 64 b + 63`` since sync.
BLOCK = 64
#: Spectra whose parts lie together in a row of a K-block: 16 real parts, then their imaginary parts, four times.
ROW_GROUP = 16


def rows_from_parts(parts: NDArray[Any]) -> NDArray[Any]:
    """Arrange real and imaginary parts as rows of K-blocks.

    Parameters
    ----------
    parts : ndarray, shape (..., 64, 2)
        Real and imaginary part of each of a block's spectra.

    Returns
    -------
    ndarray of the same type, shape (..., 128)
        Elements ``32k`` to ``32k + 15`` are the real parts of spectra ``16k`` to ``16k + 15``, elements ``32k + 16`` to
        ``32k + 31`` their imaginary parts.

    Raises
    ------
    ValueError
        If the last two axes are not (64, 2).
    """
    if parts.shape[-2:] != (BLOCK, 2):
        raise ValueError(f"parts has shape {parts.shape}; its last axes must be spectrum and part, ({BLOCK}, 2)")
    grouped = parts.reshape(*parts.shape[:-2], BLOCK // ROW_GROUP, ROW_GROUP, 2)
    return grouped.swapaxes(-1, -2).reshape(*parts.shape[:-2], 2 * BLOCK)


def parts_from_rows(rows: NDArray[Any]) -> NDArray[Any]:
    """Give the real and imaginary parts that rows of K-blocks hold: the inverse of `rows_from_parts`.

    Parameters
    ----------
    rows : ndarray, shape (..., 128)
        Rows of K-blocks.

    Returns
    -------
    ndarray of the same type, shape (..., 64, 2)
        Real and imaginary part of each spectrum; a copy.

    Raises
    ------
    ValueError
        If the last axis is not 128 long.
    """
    if rows.shape[-1:] != (2 * BLOCK,):
        raise ValueError(f"rows has shape {rows.shape}; its last axis must be a row of {2 * BLOCK} parts")
    grouped = rows.reshape(*rows.shape[:-1], BLOCK // ROW_GROUP, 2, ROW_GROUP)
    return grouped.swapaxes(-1, -2).reshape(*rows.shape[:-1], BLOCK, 2)


def valid_words(valid: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Pack (..., spectrum) into words (..., block): bit ``s``, LSB first, is spectrum ``64 · block + s``."""
    return np.packbits(valid, axis=-1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


def product_inputs(antennas: int, polarizations: int) -> NDArray[np.int64]:
    """List the inputs of each product, in the order of the X-engine's output.

    Parameters
    ----------
    antennas, polarizations : int
        Numbers of antennas and of polarizations of each.

    Returns
    -------
    ndarray of int64, shape (product, 2)
        Inputs ``(i, j)`` of the product ``x_i · conj(x_j)``: with ``p`` polarizations, product
        ``p² · (a2(a2+1)/2 + a1) + p1 + p · p2`` has ``i = p · a1 + p1`` and ``j = p · a2 + p2``, ``a1 <= a2``.
    """
    a2, a1 = np.tril_indices(antennas)
    p = polarizations
    p2, p1 = np.divmod(np.arange(p * p), p)
    return np.stack([np.add.outer(p * a1, p1).ravel(), np.add.outer(p * a2, p2).ravel()], axis=1).astype(np.int64)


@dataclass(slots=True)
class SampleChunk:
    """Packed digitizer samples of several inputs, contiguous in time.

    Parameters
    ----------
    timestamp : int
        ADC sample count of the first sample; the same for every input.
    data : ndarray of uint8, shape (input, packet, bytes)
        Packed big-endian two's-complement samples exactly as they arrived (see `ryle.wire.samples`), C-contiguous.
        What lies where a packet is missing has no meaning.
    present : ndarray of uint8, shape (input, packet)
        1 where the packet arrived, 0 where it is missing.
    packet_samples : int
        Samples (of one input) in one packet.
    """

    timestamp: int
    data: NDArray[np.uint8]
    present: NDArray[np.uint8]
    packet_samples: int

    @property
    def pieces(self) -> tuple[SampleChunk, ...]:
        """Itself: the one piece of memory that it consists of."""
        return (self,)

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return int(self.data.shape[0])

    @property
    def samples(self) -> int:
        """Samples of each input, missing ones counted."""
        return int(self.data.shape[1]) * self.packet_samples

    @property
    def end(self) -> int:
        """ADC sample count just after the last sample."""
        return self.timestamp + self.samples


@dataclass(frozen=True, slots=True)
class SampleWindow:
    """Samples that lie in several chunks one after the other: a `SampleChunk` that nobody has gathered.

    Parameters
    ----------
    pieces : tuple of SampleChunk
        Each begins where the one before ends; at least one. The rows of an input within a piece are contiguous.
    """

    pieces: tuple[SampleChunk, ...]

    @property
    def timestamp(self) -> int:
        """ADC sample count of the first sample."""
        return self.pieces[0].timestamp

    @property
    def packet_samples(self) -> int:
        """Samples (of one input) in one packet."""
        return self.pieces[0].packet_samples

    @property
    def present(self) -> NDArray[np.uint8]:
        """1 where the packet arrived, 0 where it is missing; shape (input, packet)."""
        return np.concatenate([piece.present for piece in self.pieces], axis=1)

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return self.pieces[0].inputs

    @property
    def samples(self) -> int:
        """Samples of each input, missing ones counted."""
        return sum(piece.samples for piece in self.pieces)

    @property
    def end(self) -> int:
        """ADC sample count just after the last sample."""
        return self.pieces[-1].end

    def gathered(self) -> SampleChunk:
        """Copy the pieces into one chunk."""
        data = np.concatenate([piece.data for piece in self.pieces], axis=1)
        return SampleChunk(self.timestamp, data, self.present, self.packet_samples)


@dataclass(slots=True)
class SpectraChunk:
    """Quantized spectra of several inputs as K-blocks, the X-engine's input.

    Parameters
    ----------
    first_block : int
        Index since sync of the first block: it starts with spectrum ``64 * first_block``.
    data : ndarray of int8, shape (channel, block, input, 128) or (channel, block, antenna, polarization, 128)
        One row is one input's 64 complex values of one channel: 16 real parts, then their imaginary parts, four times
        (`rows_from_parts`). Never -128. What lies at an invalid spectrum has no meaning: the X-engine zeroes it. Rows
        are contiguous and may lie anywhere: packets of rows are viewed as they came, [block][antenna][channel][pol].
    valid : ndarray of uint64, shape (channel group, block, input) or (channel group, block, antenna, polarization)
        Bit ``s`` (LSB first) is set where spectrum ``64 * block + s`` is valid. A channel group is a run of
        ``channels / groups`` channels that share a wire packet; in one process there is one group.
    """

    first_block: int
    data: NDArray[np.int8]
    valid: NDArray[np.uint64]

    @property
    def blocks(self) -> int:
        """Number of K-blocks."""
        return int(self.data.shape[1])

    @property
    def first_spectrum(self) -> int:
        """Index since sync of the first spectrum."""
        return self.first_block * BLOCK

    @property
    def spectra(self) -> int:
        """Number of spectra."""
        return self.blocks * BLOCK


@dataclass(frozen=True, eq=False)
class PacketOrder:
    """Where samples lie in a `PacketChunk`: a sample's first byte is the sum of what its three coordinates add.

    Parameters
    ----------
    spectrum : ndarray of int64, shape (spectrum,)
        Bytes that each spectrum of the chunk adds.
    channel : ndarray of int64, shape (channel,)
        Bytes that each channel adds.
    input : ndarray of int64, shape (input,)
        Bytes that each input adds, in the order of the X-engine's inputs.
    bits : int
        4 (a sample is a byte, its real part in the high nibble) or 8 (two bytes, real part first) of each part.
    flip : int
        What every byte is exclusive-or-ed with to become two's complement: 0, or 0x88 and 0x80 for offset binary.
    swapped : bool
        Whether the imaginary part is where the real part should be.
    conjugated : ndarray of uint8, shape (input,)
        1 for inputs that are conjugated on their way.
    """

    spectrum: NDArray[np.int64]
    channel: NDArray[np.int64]
    input: NDArray[np.int64]
    bits: int
    flip: int
    swapped: bool
    conjugated: NDArray[np.uint8]


@dataclass(slots=True)
class PacketChunk:
    """Spectra of several inputs in others' packets or in F-heaps, as they came: `SpectraChunk` in another order.

    Parameters
    ----------
    first_block : int
        Index since sync of the first block of 64 spectra.
    packets : ndarray of uint8, C-contiguous
        Memory that the packets were put in. What lies where none came has no meaning.
    valid : ndarray of uint64, shape (channel group, block, input)
        As of `SpectraChunk`.
    order : PacketOrder
        Where each sample lies; as many spectra as the chunk has, a multiple of 64.
    """

    first_block: int
    packets: NDArray[np.uint8]
    valid: NDArray[np.uint64]
    order: PacketOrder

    @property
    def blocks(self) -> int:
        """Number of K-blocks."""
        return int(self.valid.shape[1])

    @property
    def first_spectrum(self) -> int:
        """Index since sync of the first spectrum."""
        return self.first_block * BLOCK

    @property
    def spectra(self) -> int:
        """Number of spectra."""
        return self.blocks * BLOCK


@dataclass(frozen=True, slots=True)
class Exposure:
    """When what was summed was: exposures of several integrations add up to that of their sum.

    Parameters
    ----------
    spectra : int
        How long it is, in spectra.
    moment : int
        Twice the time of its centre, in spectra since sync, times its length.
    """

    spectra: int
    moment: int

    @classmethod
    def of(cls, begin: int, end: int) -> Exposure:
        """Make that of all spectra from `begin` to before `end`."""
        return cls(end - begin, end**2 - begin**2)

    @property
    def centre(self) -> Fraction:
        """Its centre in spectra since sync: of spectrum m alone m + ½."""
        return Fraction(self.moment, 2 * self.spectra)

    @property
    def span(self) -> tuple[int, int]:
        """First spectrum and the one behind the last, of an exposure without a gap."""
        begin = (self.moment // self.spectra - self.spectra) // 2
        return begin, begin + self.spectra

    def __add__(self, other: Exposure) -> Exposure:
        return Exposure(self.spectra + other.spectra, self.moment + other.moment)


@dataclass(slots=True)
class Integration:
    """Visibilities of one integration over a run of channels: exact sums and what contributed to them.

    Parameters
    ----------
    first_spectrum : int
        Index since sync of the first spectrum summed.
    spectra : int
        Length of the integration in spectra, missing ones counted.
    first_channel : int
        Index in the whole band of the first channel held here.
    visibilities : ndarray of int64, shape (channel, product, 2)
        Exact sums of ``x(a1,p1) · conj(x(a2,p2))`` (re, im); float64 if others' X-engines have rounded them.
        ``product = p² · (a2(a2+1)/2 + a1) + p1 + p · p2`` for ``p``
        polarizations and ``a1 <= a2``.
    counts : ndarray of uint32, shape (channel group, product)
        Spectra that contributed to each product.
    exposure : Exposure, optional
        Of what was summed, from the first spectrum of which any input was there to the last; all of it if absent.
    """

    first_spectrum: int
    spectra: int
    first_channel: int
    visibilities: NDArray[np.int64] | NDArray[np.float64]
    counts: NDArray[np.uint32]
    exposure: Exposure | None = None

    @property
    def exposed(self) -> Exposure:
        """Exposure, also of an integration that does not say it."""
        return self.exposure or Exposure.of(self.first_spectrum, self.first_spectrum + self.spectra)

    @property
    def channels(self) -> int:
        """Number of channels held here."""
        return int(self.visibilities.shape[0])


def joined(pieces: Sequence[Integration]) -> Integration:
    """Join pieces of one integration whose channels follow each other; its arrays are new, as one piece's are.

    Counts are of as many groups of channels as the piece with the smallest groups asks for.
    """
    sums = np.concatenate([piece.visibilities for piece in pieces])
    native = sums.astype(sums.dtype.newbyteorder("="), copy=False)
    return replace(pieces[0], visibilities=native, counts=joined_counts(pieces))


def joined_counts(pieces: Sequence[Integration]) -> NDArray[np.uint32]:
    """Join the counts of pieces, shape (group, product); the array is new."""
    run = math.gcd(*(piece.channels // len(piece.counts) for piece in pieces))
    return np.concatenate([p.counts.repeat(p.channels // len(p.counts) // run, axis=0) for p in pieces])
