"""Packet buffers: pools in DPDK's memory, in huge pages of ours, or in a GPU's memory.

What a packet is received into is decided by its pool. Pools of *external buffers* lie in memory that somebody else
allocated; virtual devices such as net_ring then pass the very same buffer on, and a network interface writes there by
DMA. So a pool in a GPU's memory is how packets come to a GPU without the host's memory seeing them.
"""

from __future__ import annotations

import mmap
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ryle.receive.dpdk.environment import DpdkConfig, native, start

CACHE = 256  # buffers that a thread keeps of a pool, at most 1.5 times as many at times; DPDK allows 512
GPU_PAGE = 65536  # bytes of a page in which a GPU's memory is shared with devices


class DeviceMemory(Protocol):
    """Memory of a GPU (`ryle.gpu.DeviceArray`)."""

    @property
    def pointer(self) -> int:
        """Its address."""

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""


def pages(nbytes: int) -> NDArray[np.uint8]:
    """Give zeroed memory of at least so many bytes: in huge pages if the system has set enough aside, else ordinary.

    Ordinary memory is asked to be of transparent huge pages. It begins on a page.
    """
    size = (nbytes + (2 << 20) - 1) >> 21 << 21
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        memory = mmap.mmap(-1, size, flags=private | 0x40000)  # MAP_HUGETLB
    except OSError:
        memory = mmap.mmap(-1, size, flags=private)
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)


class Pool:
    """Packet buffers of one size.

    Parameters
    ----------
    buffers : int
        How many. Everything that holds packets at once needs some: the device's queue, each thread's cache, and in
        pointer mode the ring of chunks (`needed`).
    frame_bytes : int
        Longest frame, headers included; of a split packet, its longer part.
    memory : "dpdk", "host", ndarray of uint8 or DeviceMemory
        Where they lie: in DPDK's own memory; in pages of the host that are allocated here, or were elsewhere
        (page-locked); or in a GPU's memory, which the host never touches, as only split payloads may lie there.
    payload_at : int
        Where samples begin in a frame, or 0. Buffers in memory other than DPDK's are placed so that samples begin on
        multiples of 64 bytes.
    split : bool
        Whether only payloads, split from their headers, come here: frames then begin at a buffer's first byte.
    cache : int
        Buffers that each thread keeps.
    page : int
        Register the memory with DPDK in pages of this size, so that devices reach it; 0: not. By default a GPU's is, in
        its pages, at which it must begin, and the host's is not.

    Raises
    ------
    DpdkUnavailable
        If DPDK is not there or does not start.
    ryle.receive._dpdk.DpdkError
        If there is no memory for it.
    """

    def __init__(
        self,
        buffers: int,
        frame_bytes: int = 9216,
        *,
        memory: str | NDArray[np.uint8] | DeviceMemory = "dpdk",
        payload_at: int = 0,
        split: bool = False,
        cache: int = CACHE,
        page: int | None = None,
    ) -> None:
        dpdk = native()
        start(DpdkConfig())
        #: The memory, if it is the host's and not DPDK's own; or a GPU's.
        self.memory: NDArray[np.uint8] | None = None
        self.device_memory: DeviceMemory | None = None
        self._payload_at, self._split = payload_at, split
        owner: Any = None
        address = nbytes = 0
        if isinstance(memory, str) and memory == "host":
            self.memory = owner = pages(dpdk.memory_needed(buffers, frame_bytes, payload_at, not split, page or 1))
            address, nbytes = self.memory.ctypes.data, self.memory.nbytes
        elif isinstance(memory, np.ndarray):
            self.memory = owner = memory
            address, nbytes = memory.ctypes.data, memory.nbytes
        elif not isinstance(memory, str):
            self.device_memory = owner = memory
            address, nbytes = memory.pointer, memory.nbytes
            page = GPU_PAGE if page is None else page
        elif memory != "dpdk":
            raise ValueError('memory is "dpdk", "host", an array, or memory of a GPU')
        self.native = dpdk.Pool(buffers, frame_bytes, cache, address, nbytes, page or 0, payload_at, not split, owner)
        self._address = address

    @staticmethod
    def memory_bytes(
        buffers: int, frame_bytes: int, *, payload_at: int = 0, split: bool = False, page: int = GPU_PAGE
    ) -> int:
        """Bytes of GPU memory that a pool needs."""
        return int(native().memory_needed(buffers, frame_bytes, payload_at, not split, page))

    @property
    def buffers(self) -> int:
        """How many there are."""
        return int(self.native.buffers)

    @property
    def available(self) -> int:
        """How many are unused now, those in threads' caches included."""
        return int(self.native.available)

    def addresses(self, at: int = 0) -> NDArray[np.uint64]:
        """Where byte `at` of a frame lies in each buffer of memory other than DPDK's: uint64, shape (buffer,)."""
        if not self._address:
            raise ValueError('DPDK\'s own memory has no order; use memory = "host"')
        start_at = at if self._split else at + 128  # DPDK's headroom
        first = self._payload_at if self._split else self._payload_at + 128
        shift = -first % 64 if self._payload_at else 0
        base = self._address + shift + start_at
        return np.uint64(base) + np.arange(self.buffers, dtype=np.uint64) * np.uint64(self.native.stride)

    def fill(self, contents: NDArray[np.uint8]) -> None:
        """Write the contents into all buffers, over and over: payloads for made packets. Not for a GPU's memory."""
        if self._address and self.memory is None:
            raise ValueError("the host cannot write a GPU's memory; copy to it with the GPU's own means")
        native().fill(self.native, contents)


def needed(held: int, *, descriptors: int = 1024, cache: int = CACHE, threads: int = 1, burst: int = 64) -> int:
    """Count the buffers with which a pool never runs out.

    Parameters
    ----------
    held : int
        Packets that the chunks of an assembler in pointer mode hold at most: chunks · heads · packets; 0 in copy mode.
    descriptors : int
        Of the device's queue.
    threads : int
        Threads that use the pool.
    """
    return held + descriptors + threads * (cache * 3 // 2 + 2 * burst) + 2 * burst
