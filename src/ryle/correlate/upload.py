"""How chunks of the host come to the GPU: through a ring of page-locked buffers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ryle.chunk import BLOCK
from ryle.correlate.correlator import CorrelatorConfig
from ryle.gpu.interface import DeviceArray, Event, Gpu, Stream


@dataclass(slots=True)
class Slot:
    """Room for some K-blocks in page-locked memory and on the GPU."""

    blocks: int
    host: NDArray[np.uint8]
    data: DeviceArray
    host_valid: NDArray[np.uint8]
    valid: DeviceArray
    free: Event | None = None

    @classmethod
    def make(cls, gpu: Gpu, config: CorrelatorConfig, blocks: int) -> Slot:
        """Make room for so many."""
        nbytes = config.channels * blocks * config.inputs * 2 * BLOCK
        words = config.groups * blocks * config.inputs * 8
        return cls(
            blocks,
            gpu.pinned((nbytes,), np.uint8),
            gpu.empty((nbytes,), np.uint8),
            gpu.pinned((words,), np.uint8),
            gpu.empty((words,), np.uint8),
        )

    def upload(
        self, data: NDArray[np.int8], valid: NDArray[np.uint64], stream: Stream
    ) -> tuple[DeviceArray, DeviceArray]:
        """Enqueue the copy of spectra that fit; gives them as they are on the GPU."""
        pairs = ((data, self.host, self.data), (valid, self.host_valid, self.valid))
        on_device = []
        for array, room, device in pairs:
            staged = room[: array.nbytes].view(array.dtype).reshape(array.shape)
            np.copyto(staged, array)
            there = device.view(array.shape, array.dtype)
            there.set(staged, stream)
            on_device.append(there)
        return on_device[0], on_device[1]


class Uploads:
    """Two slots that take turns.

    Parameters
    ----------
    gpu : Gpu
        Device.
    config : CorrelatorConfig
        Size of the correlation.
    stream : Stream
        Where the copies are enqueued, and what reads them.
    """

    def __init__(self, gpu: Gpu, config: CorrelatorConfig, stream: Stream) -> None:
        self._gpu, self._config, self._stream = gpu, config, stream
        self._ring: list[Slot] = []

    def slot(self, blocks: int) -> Slot:
        """Give the slot that was used longest ago, with room for so many blocks, when the GPU is done with it."""
        if not self._ring or self._ring[0].blocks < blocks:
            self._stream.synchronize()
            self._ring = [Slot.make(self._gpu, self._config, blocks) for _ in range(2)]
        slot = self._ring.pop(0)
        self._ring.append(slot)
        if slot.free is not None:
            slot.free.synchronize()
        return slot
