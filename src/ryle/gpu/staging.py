"""How arrays come to a GPU and back: through page-locked memory, from and to which the GPU copies by itself."""

from __future__ import annotations

import ctypes
import math
import weakref
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ryle.gpu.interface import DeviceArray, Event, Gpu, Stream

_LENT = 3  # arrays kept for later


class Mirror:
    """An array of the GPU, and page-locked memory of the same shape.

    Parameters
    ----------
    gpu : Gpu
        Device.
    device : DeviceArray
        The array there.
    """

    __slots__ = ("device", "host")

    def __init__(self, gpu: Gpu, device: DeviceArray) -> None:
        self.device = device
        self.host: NDArray[Any] = gpu.pinned(device.shape, device.dtype)

    def upload(self, stream: Stream) -> None:
        """Enqueue the copy to the GPU."""
        self.device.set(self.host, stream)

    def download(self, stream: Stream) -> None:
        """Enqueue the copy from the GPU."""
        self.device.copy_to(self.host, stream)

    def put(self, array: NDArray[Any], stream: Stream) -> DeviceArray:
        """Copy an array that fits into the bytes here, enqueue the copy on, and give it as it is on the GPU."""
        staged = self.host[: array.nbytes].view(array.dtype).reshape(array.shape)
        np.copyto(staged, array)
        there = self.device.view(array.shape, array.dtype)
        there.set(staged, stream)
        return there


class Uploads:
    """Brings arrays to the GPU; two sets of memory take turns, so that one is filled while the GPU reads the other.

    Parameters
    ----------
    gpu : Gpu
        Device.
    stream : Stream
        Where copies are enqueued, and what reads them.
    """

    def __init__(self, gpu: Gpu, stream: Stream) -> None:
        self._gpu, self._stream = gpu, stream
        self._sets: deque[tuple[list[Mirror], Event | None]] = deque()

    def upload(self, *arrays: NDArray[Any]) -> list[DeviceArray]:
        """Enqueue copies of arrays, which may be written to afterwards, once the GPU is done with the memory for them.

        They are there until the call after the next; `done` says when they have been read.
        """
        if not self._sets or any(m.host.nbytes < a.nbytes for m, a in zip(self._sets[0][0], arrays, strict=True)):
            self._stream.synchronize()
            self._sets = deque(
                ([Mirror(self._gpu, self._gpu.empty((a.nbytes,), np.uint8)) for a in arrays], None) for _ in range(2)
            )
        mirrors, free = self._sets.popleft()
        self._sets.append((mirrors, None))
        if free is not None:
            free.synchronize()
        return [m.put(a, self._stream) for m, a in zip(mirrors, arrays, strict=True)]

    def done(self) -> None:
        """Say that nothing enqueued later reads what was uploaded last."""
        self._sets[-1] = (self._sets[-1][0], self._stream.record())


class PinnedPool:
    """Page-locked arrays that are lent, and come back when nobody refers to them any more.

    Page-locking takes far longer than a copy, so memory is kept: up to three arrays, of the size last asked for.

    Parameters
    ----------
    gpu : Gpu
        Whose copies are to be fast.
    """

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._free: deque[NDArray[np.uint8]] = deque(maxlen=_LENT)

    def take(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Lend an array with undefined contents."""
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        memory = None
        while memory is None and self._free:
            found = self._free.popleft()
            memory = found if found.nbytes == nbytes else None
        if memory is None:
            memory = self._gpu.pinned((nbytes,), np.uint8)
        # Every view of the array holds on to `loan`; the memory comes back with the last of them.
        loan = (ctypes.c_uint8 * nbytes).from_address(memory.ctypes.data)
        weakref.finalize(loan, self._free.append, memory).atexit = False
        return np.frombuffer(memoryview(loan), dtype).reshape(shape)
