"""Packets of others' F-engines made into K-blocks on the GPU: half the bytes, or fewer, cross the bus."""

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


def valid_words(chunk: PacketChunk, first_block: int, blocks: int) -> NDArray[np.uint64]:
    """Say which spectra of a run of blocks came, as `SpectraChunk.valid` does: shape (channel group, block, input)."""
    order = chunk.order
    first = order.channel_rows[:: order.channel_rows.size // order.groups]
    spectra = order.spectrum_rows[first_block * BLOCK : (first_block + blocks) * BLOCK]
    rows = np.add.outer(np.add.outer(first, order.input_rows), spectra)
    bits = np.packbits(chunk.present[rows] != 0, axis=-1, bitorder="little")
    return np.ascontiguousarray(bits.view("<u8").astype(np.uint64).swapaxes(1, 2))


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
        self._order: tuple[PacketOrder, tuple[int, ...]] | None = None
        self._spectra = np.zeros(0, np.int64)

    def upload(self, chunk: PacketChunk) -> DeviceArray:
        """Enqueue copying a chunk; give its packets as they are on the GPU.

        Raises
        ------
        ValueError
            If samples would lie outside the packets.
        """
        packets = chunk.packets
        if self._order is None or self._order[0] is not chunk.order or self._order[1] != packets.shape:
            self._load(chunk.order, packets.shape)
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
        channels, inputs = order.channel_rows.size, order.input_rows.size
        data = self._keep("data", (channels, blocks, inputs, 2 * BLOCK), np.int8)
        run = slice(first_block * BLOCK, (first_block + blocks) * BLOCK)
        valid, spectra = self._tables.upload(valid_words(chunk, first_block, blocks), self._spectra[run])
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
            group_channels=np.int32(channels // order.groups),
            bits=np.int32(order.bits),
            flip=np.int32(order.flip),
            swapped=np.int32(order.swapped),
            shared=_TILE * 132,
            stream=self._stream,
        )
        return data, valid

    def _load(self, order: PacketOrder, shape: tuple[int, ...]) -> None:
        """Check where samples lie, and bring the tables to the GPU."""
        rows, pitch = shape
        for pick, name in ((np.min, "first"), (np.max, "last")):
            row = sum(int(pick(t)) for t in (order.spectrum_rows, order.channel_rows, order.input_rows))
            byte = sum(int(pick(t)) for t in (order.spectrum_bytes, order.channel_bytes, order.input_bytes))
            byte += order.bits // 4 - 1 if name == "last" else 0
            if not (0 <= row < rows and 0 <= byte < pitch):
                raise ValueError(f"samples would lie outside the packets: the {name} in byte {byte} of row {row}")
        self._stream.synchronize()  # what is enqueued reads the tables of before
        self._kept.clear()
        self._spectra = order.spectrum_rows * pitch + order.spectrum_bytes
        self._sent("channels", order.channel_rows * pitch + order.channel_bytes)
        self._sent("inputs", order.input_rows * pitch + order.input_bytes)
        self._sent("conjugated", order.conjugated)
        self._order = order, shape

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
