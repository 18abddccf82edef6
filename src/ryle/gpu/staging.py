"""How arrays come to a GPU: copied by itself from page-locked memory, beside the kernels that read earlier ones."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.gpu.fetch import Fetch
from ryle.gpu.interface import DeviceArray, Event, Gpu, Stream

_SETS = 3  # one that is read, one that waits, one that is filled


@dataclass(slots=True)
class _Set:
    """Memory on the GPU for the arrays of one call, and when it is free again."""

    there: list[DeviceArray]
    staged: list[NDArray[np.uint8] | None]
    copied: Event | None = None
    free: Event | None = None


class Uploads:
    """Brings arrays to the GPU on a stream of its own; some sets of memory take turns, so that kernels need not wait.

    Page-locked arrays are copied from where they lie, others through page-locked memory of this object's; small ones by
    threads of the GPU (`ryle.gpu.fetch`), large ones by the copy engine.

    Parameters
    ----------
    gpu : Gpu
        Device.
    reader : Stream
        Where what reads the arrays is enqueued.
    """

    def __init__(self, gpu: Gpu, reader: Stream) -> None:
        self._gpu, self._reader, self._fetch = gpu, reader, Fetch(gpu)
        #: Where copies are enqueued.
        self.stream = gpu.stream()
        self._sets: deque[_Set] = deque()

    def upload(self, *arrays: NDArray[Any]) -> list[DeviceArray]:
        """Enqueue copies of arrays; the reader's stream waits for them.

        They are there until `done` says when they have been read. Page-locked ones must not be written to before
        `copied` has come; others may be at once.
        """
        if not self._sets or any(d.nbytes < a.nbytes for d, a in zip(self._sets[0].there, arrays, strict=True)):
            self._reader.synchronize()
            self._sets = deque(self._set(arrays) for _ in range(_SETS))
        mine = self._sets.popleft()
        self._sets.append(mine)
        if mine.free is not None:
            self.stream.wait(mine.free)
        found = [self._put(mine, i, array) for i, array in enumerate(arrays)]
        mine.copied, mine.free = self.stream.record(), None
        self._reader.wait(mine.copied)
        return found

    @property
    def copied(self) -> Event:
        """When the arrays uploaded last have been copied."""
        found = self._sets[-1].copied
        assert found is not None
        return found

    def done(self) -> Event:
        """Say that nothing enqueued later reads what was uploaded last; give when that is."""
        found = self._reader.record()
        self._sets[-1].free = found
        return found

    def _set(self, arrays: tuple[NDArray[Any], ...]) -> _Set:
        return _Set([self._gpu.empty((a.nbytes,), np.uint8) for a in arrays], [None] * len(arrays))

    def _put(self, mine: _Set, i: int, array: NDArray[Any]) -> DeviceArray:
        there = mine.there[i].view(array.shape, array.dtype)
        if not (array.flags.c_contiguous and self._gpu.is_locked(array)):
            staged = mine.staged[i]
            if staged is None:
                staged = mine.staged[i] = self._gpu.pinned(mine.there[i].shape, np.uint8)
            if mine.copied is not None:
                mine.copied.synchronize()
            copy = staged[: array.nbytes].view(array.dtype).reshape(array.shape)
            np.copyto(copy, array)
            array = copy
        self._fetch.whole(there, array, self.stream)
        return there
