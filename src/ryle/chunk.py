"""The nouns that flow: a timestamped block of data together with which parts of it are present.

Three of them, in signal-path order: packed digitizer samples, channelized spectra, visibilities. All timestamps are
integer counts of ADC samples since ``sync_time``. None of them owns a thread, a socket or a device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Spectra in one K-block; block ``b`` holds spectra ``64 b … 64 b + 63`` since sync.
BLOCK = 64


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


@dataclass(slots=True)
class SpectraChunk:
    """Quantized spectra of several inputs as K-blocks, the X-engine's input.

    Parameters
    ----------
    first_block : int
        Index since sync of the first block: it starts with spectrum ``64 * first_block``.
    data : ndarray of int8, shape (channel, block, input, 128)
        One row is one input's 64 complex values of one channel, planar: 64 real parts, then 64 imaginary parts.
        Never -128. What lies at an invalid spectrum has no meaning: the X-engine zeroes it.
    valid : ndarray of uint64, shape (channel group, block, input)
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
        Exact sums of ``x(a1,p1) · conj(x(a2,p2))`` (re, im).
        ``product = p² · (a2(a2+1)/2 + a1) + p1 + p · p2`` for ``p``
        polarizations and ``a1 <= a2``.
    counts : ndarray of uint32, shape (channel group, product)
        Spectra that contributed to each product.
    """

    first_spectrum: int
    spectra: int
    first_channel: int
    visibilities: NDArray[np.int64]
    counts: NDArray[np.uint32]

    @property
    def channels(self) -> int:
        """Number of channels held here."""
        return int(self.visibilities.shape[0])
