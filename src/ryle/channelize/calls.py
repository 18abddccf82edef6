"""Calls of the CUDA channelizer from host to host: buffers that are kept, and copies beside kernels.

A call copies its samples into page-locked memory, and from there on three streams of the device follow one another:
upload, kernels, download. The next call may be submitted meanwhile; its upload then runs beside the kernels of this
one, whose download runs beside the kernels of the next. Two calls are under way at most, each with buffers of its own,
which serve later calls of the same size: freeing memory of the device waits for all its work.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ryle.array.delays import Delays
from ryle.channelize.channelizer import Layout
from ryle.channelize.cuda_work import Launcher, Work
from ryle.chunk import SampleChunk, SampleWindow
from ryle.gpu import Event
from ryle.gpu.staging import Mirror, PinnedPool

UNDER_WAY = 2  # calls at most
_SPARE = 2  # packets: windows of a stream cover one more or less, as they fall
_GIVEN = ("samples", "present", "coarse", "fine", "phase")  # of `Work`, page-locked for each call
_RESULTS = ("segment", "counters", "output_power")


class _Size(NamedTuple):
    """What buffers of a call depend on, besides the number of packets."""

    packet_samples: int
    phase: int
    spectra: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    slab_bytes: int


@dataclass(slots=True)
class _Lane:
    """Buffers of one call on both sides, and what is under way in them."""

    size: _Size
    work: Work
    given: dict[str, Mirror]
    results: dict[str, Mirror]
    out: NDArray[Any] | None = None
    done: Event | None = None


@dataclass(slots=True)
class Finished:
    """What a call left.

    Parameters
    ----------
    out : ndarray
        Of the shape and type asked for, in page-locked memory.
    segment : ndarray of uint8, shape (input, spectrum)
        255 where a spectrum is not valid, whole groups of them.
    counters : ndarray of uint64, shape (input, 2)
        Saturated values, and the bits of the input power.
    output_power : ndarray of uint64, shape (input, channel)
        Power of the quantized values.
    """

    out: NDArray[Any]
    segment: NDArray[np.uint8]
    counters: NDArray[np.uint64]
    output_power: NDArray[np.uint64]


class CallQueue:
    """Calls under way on the device, oldest first.

    Parameters
    ----------
    channelizer : Launcher
        Whose kernels are launched.
    align : int
        Multiple since sync that groups of spectra begin at.
    """

    def __init__(self, channelizer: Launcher, align: int) -> None:
        self._channelizer, self._gpu, self._align = channelizer, channelizer.gpu, align
        self._lanes: list[_Lane] = []
        self._running: deque[_Lane] = deque()
        self._pool = PinnedPool(self._gpu)
        self._up, self._down = self._gpu.stream(), self._gpu.stream()

    def __len__(self) -> int:
        return len(self._running)

    def submit(
        self,
        chunk: SampleChunk | SampleWindow,
        first_spectrum: int,
        spectra: int,
        delays: Delays,
        layout: Layout | None,
        shape: tuple[int, ...],
        dtype: DTypeLike,
        *,
        dithered: bool = True,
    ) -> None:
        """Enqueue a call with checked arguments; see `ryle.channelize.cuda.CudaChannelizer.launch`.

        Raises
        ------
        RuntimeError
            If as many calls as there may be are under way.
        """
        if len(self._running) == UNDER_WAY:
            raise RuntimeError(f"{UNDER_WAY} calls are under way; collect the result of the oldest first")
        phase, slab_bytes = first_spectrum % self._align, self._channelizer.slab_bytes
        size = _Size(chunk.packet_samples, phase, spectra, shape, np.dtype(dtype), slab_bytes)
        lane = self._lane(size, chunk, first_spectrum)
        given, packets = {name: mirror.host for name, mirror in lane.given.items()}, 0
        for piece in chunk.pieces:  # gathered into page-locked memory, which the device copies from
            inputs, count, packet_bytes = piece.data.shape
            rows = given["samples"][:, packets * packet_bytes : (packets + count) * packet_bytes]
            rows.reshape(inputs, count, packet_bytes)[...] = piece.data
            given["present"][:, packets : packets + count] = piece.present
            packets += count
        given["present"][:, packets:] = 0
        given["coarse"][...], given["fine"][...], given["phase"][...] = delays.coarse, delays.fine, delays.phase
        work, main = lane.work, self._gpu.default_stream
        work.timestamp, work.first_spectrum = chunk.timestamp, first_spectrum
        for mirror in lane.given.values():
            mirror.upload(self._up)
        main.wait(self._up.record())
        self._channelizer.launch(work, layout, dithered=dithered, stream=main)
        self._down.wait(main.record())
        lane.out = self._pool.take(shape, dtype)
        work.out.copy_to(lane.out, self._down)
        for mirror in lane.results.values():
            mirror.download(self._down)
        lane.done = self._down.record()
        self._running.append(lane)

    def collect(self) -> Finished:
        """Wait for the oldest call.

        Raises
        ------
        RuntimeError
            If none is under way.
        """
        if not self._running:
            raise RuntimeError("no call is under way; submit one first")
        lane = self._running.popleft()
        assert lane.done is not None and lane.out is not None
        lane.done.synchronize()
        out, lane.out = lane.out, None
        segment, counters, power = (lane.results[name].host.copy() for name in _RESULTS)
        return Finished(out, segment.reshape(len(segment), -1), counters, power)

    def _lane(self, size: _Size, chunk: SampleChunk | SampleWindow, first_spectrum: int) -> _Lane:
        """Give free buffers of this size, if need be new ones in place of others."""
        packets = chunk.samples // chunk.packet_samples
        free = [lane for lane in self._lanes if not any(lane is running for running in self._running)]
        for lane in free:
            if lane.size == size and 0 <= lane.work.packets - packets <= 2 * _SPARE:
                return lane
        if len(self._lanes) == UNDER_WAY:
            self._lanes = [lane for lane in self._lanes if lane is not free[0]]
            del free[0]
        lane = self._new_lane(size, chunk, first_spectrum)
        self._lanes.append(lane)
        return lane

    def _new_lane(self, size: _Size, chunk: SampleChunk | SampleWindow, first_spectrum: int) -> _Lane:
        inputs, _, packet_bytes = chunk.pieces[0].data.shape
        packets = chunk.samples // chunk.packet_samples
        packets += _SPARE  # missing ones
        stride = -(-packets * packet_bytes // 16) * 16  # the filter reads rows in pieces of 16 bytes
        samples = self._gpu.empty((inputs, stride), np.uint8)
        work = self._channelizer.work(
            samples,
            packets,
            chunk.packet_samples,
            chunk.timestamp,
            first_spectrum,
            size.spectra,
            size.shape,
            size.dtype,
        )
        for other in self._lanes:  # kernels of one call follow those of another, so this need not be there twice
            if other.work.intermediate.shape == work.intermediate.shape:
                work.intermediate = other.work.intermediate
        given, results = (
            {name: Mirror(self._gpu, getattr(work, name)) for name in names} for names in (_GIVEN, _RESULTS)
        )
        given["samples"].host.fill(0)
        return _Lane(size, work, given, results)
