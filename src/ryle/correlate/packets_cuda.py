"""Others' packets and F-heaps made into K-blocks on the GPU, from what lies in them as they came."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ryle.chunk import BLOCK, PacketChunk, PacketOrder
from ryle.gpu.interface import DeviceArray, Event, Gpu, Stream
from ryle.gpu.staging import Uploads

SOURCE = Path(__file__).with_name("packets.cu")
_THREADS, _TILE = 256, 32


class PacketUploads:
    """Brings chunks of packets to the GPU, two at a time, and arranges them there.

    Parameters
    ----------
    gpu : Gpu
        Device.
    stream : Stream
        Where everything is enqueued.
    clamped : DeviceArray of uint64, shape (1,)
        Where valid parts of the lowest value are counted.
    """

    def __init__(self, gpu: Gpu, stream: Stream, clamped: DeviceArray) -> None:
        self._gpu, self._stream, self._clamped = gpu, stream, clamped
        self._arrange = gpu.kernel(SOURCE, "arrange_packets", {})
        self._uploads, self._tables = Uploads(gpu, stream), Uploads(gpu, stream)
        self._kept: dict[str, DeviceArray] = {}
        self._order: tuple[PacketOrder, int] | None = None
        self._along_time = False

    def upload(self, chunk: PacketChunk) -> DeviceArray:
        """Enqueue copying a chunk; give its packets as they are on the GPU.

        Raises
        ------
        ValueError
            If samples would lie outside the packets.
        """
        packets = chunk.packets
        if self._order is None or self._order[0] is not chunk.order or self._order[1] != packets.size:
            self._load(chunk.order, packets.size)
        (there,) = self._uploads.upload(packets)
        return there

    @property
    def copied(self) -> Event:
        """When the chunk uploaded last has been copied."""
        return self._uploads.copied

    def done(self) -> None:
        """Say that nothing enqueued later reads what was uploaded last."""
        self._uploads.done()

    def added(self) -> None:
        """Say that nothing enqueued later reads what was arranged last."""
        self._tables.done()

    def arrange(
        self, chunk: PacketChunk, packets: DeviceArray, first_block: int, blocks: int
    ) -> tuple[DeviceArray, DeviceArray]:
        """Enqueue making K-blocks of a run of blocks.

        Parameters
        ----------
        chunk : PacketChunk
            Says where samples lie.
        packets : DeviceArray
            What `upload` gave for it.
        first_block, blocks : int
            The run, counted from the chunk's first block.

        Returns
        -------
        data, valid : DeviceArray
            As those of a `ryle.chunk.SpectraChunk`; good until `added`, and the next call on the same stream.
        """
        order = chunk.order
        channels, inputs = order.channel.size, order.input.size
        data = self._keep("data", (channels, blocks, inputs, 2 * BLOCK), np.int8)
        run = slice(first_block * BLOCK, (first_block + blocks) * BLOCK)
        words = np.ascontiguousarray(chunk.valid[:, first_block : first_block + blocks])
        valid, spectra = self._tables.upload(words, order.spectrum[run])
        self._arrange.launch(
            (-(-inputs // _TILE), blocks, channels),
            _THREADS,
            packets=packets,
            valid=valid,
            spectrum_at=spectra,
            channel_at=self._kept["channels"],
            input_at=self._kept["inputs"],
            conjugated=self._kept["conjugated"],
            data=data,
            clamped=self._clamped,
            inputs=np.int32(inputs),
            group_channels=np.int32(channels // len(words)),
            bits=np.int32(order.bits),
            flip=np.int32(order.flip),
            swapped=np.int32(order.swapped),
            along_time=np.int32(self._along_time),
            shared=_TILE * 132,
            stream=self._stream,
        )
        return data, valid

    def _load(self, order: PacketOrder, size: int) -> None:
        """Check where samples lie, and bring the tables to the GPU."""
        tables = order.spectrum, order.channel, order.input
        first = sum(int(table.min()) for table in tables)
        last = sum(int(table.max()) for table in tables) + order.bits // 4 - 1
        if first < 0 or last >= size:
            raise ValueError(f"samples would lie outside the packets: in bytes {first} to {last} of {size}")
        self._stream.synchronize()  # what is enqueued reads the tables of before
        self._kept.clear()
        self._sent("channels", order.channel)
        self._sent("inputs", order.input)
        self._sent("conjugated", order.conjugated)
        # Threads of a warp go along the axis whose samples lie closer together.
        step = abs(int(order.spectrum[1] - order.spectrum[0]))
        self._along_time = bool(step < np.ptp(order.input) / order.input.size)
        self._order = order, size

    def _keep(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> DeviceArray:
        """Give memory of the GPU that is used again by those who ask by the same name: on one stream, in order."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if name not in self._kept or self._kept[name].nbytes < size:
            self._stream.synchronize()
            self._kept[name] = self._gpu.empty((size,), np.uint8)
        return self._kept[name].view(shape, dtype)

    def _sent(self, name: str, values: NDArray[Any]) -> DeviceArray:
        """Copy an array into memory that is used again."""
        there = self._keep(name, values.shape, values.dtype)
        there.set(np.ascontiguousarray(values), self._stream)
        return there
