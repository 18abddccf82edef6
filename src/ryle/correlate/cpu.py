"""The X-engine on processors: exact integer products by whatever multiplier the CPU has.

The work is done in ``native/correlate``: missing samples are zeroed while a block is packed for the multiplier;
products are summed in int32 for at most `RUN_BLOCKS` blocks, then in int64. Kernels, chosen at run time: AMX int8,
AVX-512 VNNI, AVX2 and a portable one.
"""

from __future__ import annotations

import os

import numpy as np

from ryle.chunk import BLOCK, Integration, PacketChunk, SpectraChunk, product_inputs
from ryle.correlate import _native
from ryle.correlate.correlator import CorrelatorConfig, by_antenna, check_chunk
from ryle.correlate.packets import Unpacker, check_packets, unpacked_blocks
from ryle.correlate.reading import Reading

#: K-blocks whose products surely fit in 32 bits; longer sums pass through 64 bits.
RUN_BLOCKS: int = _native.RUN_BLOCKS

_MAX_COUNT = 2**32 - 1


def kernel_status() -> dict[str, str | None]:
    """Kernels of this build, fastest first, each with the reason why this CPU cannot run it, or None if it can."""
    return dict(_native.kernels())


def available_kernels() -> list[str]:
    """Names of the kernels that this CPU can run, fastest first."""
    return [name for name, reason in kernel_status().items() if reason is None]


def choose_kernel(kernel: str | None = None) -> str:
    """Name of the kernel to use: the one asked for, else the one that ``RYLE_CPU_KERNEL`` names, else the fastest.

    Raises
    ------
    ValueError
        If there is no such kernel.
    RuntimeError
        If this CPU cannot run it.
    """
    source = "kernel"
    if kernel is None:
        kernel, source = os.environ.get("RYLE_CPU_KERNEL"), "RYLE_CPU_KERNEL"
    status = kernel_status()
    if not kernel:
        return next(name for name, reason in status.items() if reason is None)
    if kernel not in status:
        raise ValueError(f"{source} is {kernel!r}; this build's X-engine has the kernels {', '.join(status)}")
    if (reason := status[kernel]) is not None:
        raise RuntimeError(
            f"{source} is {kernel!r}, but {reason}; "
            f"choose one of {', '.join(available_kernels())} or leave the choice open"
        )
    return kernel


class CpuCorrelator:
    """Sums the products of spectra over time, exactly, on the CPU.

    Parameters
    ----------
    config : CorrelatorConfig
        Size of the correlation.
    threads : int
        Threads that share the channels.
    kernel : str, optional
        Kernel to use (`available_kernels`); by default see `choose_kernel`.

    Raises
    ------
    ValueError
        If `threads` is not positive or `kernel` unknown.
    RuntimeError
        If this CPU cannot run the kernel.
    """

    def __init__(self, config: CorrelatorConfig, *, threads: int = 1, kernel: str | None = None) -> None:
        if threads < 1:
            raise ValueError(f"threads is {threads}; it must be at least 1")
        self.config = config
        self.kernel = choose_kernel(kernel)
        self.spectra = 0
        self._clamped = 0
        self._unpacker = Unpacker()
        i, j = product_inputs(config.antennas, config.polarizations).T
        direct = np.flatnonzero(i <= j)
        # Place of each pair of inputs i <= j (pair j(j+1)/2 + i) among the products.
        product = np.empty(config.inputs * (config.inputs + 1) // 2, np.int32)
        product[j[direct] * (j[direct] + 1) // 2 + i[direct]] = direct
        # Cross-polarization products of an antenna with itself come in conjugate pairs, of which one is computed.
        self._mirrored = np.flatnonzero(i > j)
        self._source = product[i[self._mirrored] * (i[self._mirrored] + 1) // 2 + j[self._mirrored]]
        self._native = _native.Accumulator(self.kernel, config.inputs, product, config.products, threads)
        self._visibilities = np.zeros((config.channels, config.products, 2), np.int64)
        self._counts = np.zeros((config.groups, config.products), np.uint32)

    @property
    def clamped(self) -> int:
        """Valid parts of -128 (-8) that were taken as -127 (-7), since construction."""
        return self._clamped + self._unpacker.clamped

    def accumulate(self, chunk: SpectraChunk | PacketChunk, first_block: int = 0, blocks: int | None = None) -> None:
        """Add a run of a chunk's K-blocks; see `ryle.correlate.Correlator`."""
        if isinstance(chunk, PacketChunk):
            check_packets(self.config, chunk)
        else:
            check_chunk(self.config, chunk)
        count = chunk.blocks - first_block if blocks is None else blocks
        if first_block < 0 or count < 0 or first_block + count > chunk.blocks:
            raise ValueError(
                f"blocks {first_block} to {first_block + count} asked for; the chunk has blocks 0 to {chunk.blocks}"
            )
        if self.spectra + count * BLOCK > _MAX_COUNT:
            raise OverflowError(
                f"{self.spectra} spectra are summed and {count * BLOCK} more would pass the limit of {_MAX_COUNT}; "
                "read and reset, or shorten the integration"
            )
        if count == 0:
            return
        if isinstance(chunk, PacketChunk):
            piece = unpacked_blocks(self.config.channels, self.config.inputs)
            for begin in range(first_block, first_block + count, piece):
                blocks = min(piece, first_block + count - begin)
                self._add(self._unpacker.unpack(chunk, begin, blocks), 0, blocks)
            return
        self._add(chunk, first_block, count)

    def _add(self, chunk: SpectraChunk, first_block: int, count: int) -> None:
        run = slice(first_block, first_block + count)
        data, valid = by_antenna(self.config, chunk)
        data, valid = data[:, run], valid[:, run]
        if data.strides[-1] != 1:
            data = data.copy()
        self._clamped += self._native.add(data, valid, self._visibilities, self._counts)
        self.spectra += count * BLOCK

    def room(self) -> Integration:
        """Make memory that sums can be read into; see `ryle.correlate.Correlator`."""
        return Integration(0, 0, 0, np.empty_like(self._visibilities), np.empty_like(self._counts))

    def read(
        self, first_spectrum: int, spectra: int, first_channel: int, out: Integration | None = None
    ) -> Integration:
        """Return the sums as an integration; see `ryle.correlate.Correlator`."""
        into = self.room() if out is None else out
        visibilities, counts = into.visibilities, into.counts
        visibilities[...], counts[...] = self._visibilities, self._counts
        visibilities[:, self._mirrored, 0] = visibilities[:, self._source, 0]
        visibilities[:, self._mirrored, 1] = -visibilities[:, self._source, 1]
        counts[:, self._mirrored] = counts[:, self._source]
        return Integration(first_spectrum, spectra, first_channel, visibilities, counts)

    def start_read(
        self, first_spectrum: int, spectra: int, first_channel: int, out: Integration | None = None
    ) -> Reading:
        """Return the sums as an integration that is there; see `ryle.correlate.Correlator`."""
        return Reading(self.read(first_spectrum, spectra, first_channel, out))

    def reset(self) -> None:
        """Start new sums."""
        self._visibilities.fill(0)
        self._counts.fill(0)
        self.spectra = 0
