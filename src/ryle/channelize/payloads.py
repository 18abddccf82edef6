"""Samples that a GPU reads where their packets lie, through a table of addresses: nobody gathers them first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ryle.channelize.channelizer import ChannelizerConfig
from ryle.receive.samples import ALIGNMENT
from ryle.wire.samples import packed_bytes

if TYPE_CHECKING:
    from ryle.receive.assembly import Chunk, Plan


@dataclass(slots=True)
class Payloads:
    """Packed digitizer samples of several inputs, contiguous in time, each packet's wherever it was received.

    The CUDA form of the channelizer takes it in place of a `ryle.chunk.SampleChunk`.

    Parameters
    ----------
    timestamp : int
        ADC sample count of the first sample; the same for every input.
    addresses : ndarray of uint64, shape (input, packet)
        Where the payload of each packet begins, 0 if it is missing; multiples of 16. The memory is the device's own, or
        the host's if page-locked (`ryle.gpu.Gpu.pinned`), and must not change until the call has returned.
    packet_samples : int
        Samples (of one input) in one packet; a packet's bytes must be a multiple of 16.
    """

    timestamp: int
    addresses: NDArray[np.uint64]
    packet_samples: int

    @property
    def present(self) -> NDArray[np.uint8]:
        """1 where the packet arrived, 0 where it is missing; shape (input, packet)."""
        return np.not_equal(self.addresses, 0).astype(np.uint8)

    def check(self, config: ChannelizerConfig) -> None:
        """Raise ValueError unless these samples fit the configuration and can be fetched in whole vectors."""
        size = packed_bytes(self.packet_samples, config.bits, complex_samples=config.complex_input)
        shape, dtype = self.addresses.shape, self.addresses.dtype
        if len(shape) != 2 or shape[0] != config.inputs or dtype != np.uint64:
            raise ValueError(
                f"payloads.addresses is {dtype} {shape}; use uint64 (input, packet) with {config.inputs} inputs"
            )
        if size % ALIGNMENT or np.any(self.addresses % ALIGNMENT):
            raise ValueError(
                f"payloads of {size} bytes: their size and addresses must be multiples of {ALIGNMENT} bytes to be read "
                "in place; copy these to a SampleChunk"
            )
        if shape[1] * size >= 1 << 32:
            raise ValueError(f"{shape[1]} packets of {size} bytes an input; use less than 4 GiB in one call")


def chunk_payloads(plan: Plan, chunk: Chunk, packet_samples: int) -> Payloads:
    """Give a chunk of packets, each head one input, as a table of addresses.

    The chunk must not be released before the channelizer's call has returned, and its memory must be one that the GPU
    reads: of a pool on the GPU (pointer mode), or page-locked.

    Parameters
    ----------
    plan : Plan
        Of the chunk, with payloads in wire order.
    chunk : Chunk
        The packets.
    packet_samples : int
        Samples of one packet.

    Raises
    ------
    ValueError
        If the plan reorders the bytes of payloads.
    """
    if plan.order is not None:
        raise ValueError("the payloads' bytes were reordered; leave order out to hand over what came on the wire")
    addresses = chunk.addresses
    if not plan.pointers:
        heads, packets, size = chunk.data.shape
        places = np.arange(heads * packets, dtype=np.uint64).reshape(heads, packets) * np.uint64(size)
        addresses = np.where(chunk.present != 0, np.uint64(chunk.data.ctypes.data) + places, np.uint64(0))
    return Payloads(chunk.timestamp // plan.step * packet_samples, addresses, packet_samples)
