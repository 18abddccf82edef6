"""Samples on the GPU, on their way from packets to spectra: a ring that the filter reads as one stretch of memory."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ryle.gpu import DeviceArray, Event, Gpu, Stream
from ryle.gpu.fetch import Fetch

_FETCH = 16  # bytes that a thread of the GPU fetches at once
_LITTLE = 8  # times as much is appended as is copied


class SampleRing:
    """Packets of all inputs on the GPU, ``[input][time]``, for as long as spectra to come read them.

    Packets are appended in order of time. Behind the end of the memory comes its beginning: what is still needed is
    copied there first, on the GPU, so that every window is one stretch. What is written over has been read before, by
    events; nobody waits on the host. A packet is its payload, or the address of one (`table`), which then must stay
    where it lies until it has been read.

    Parameters
    ----------
    gpu : Gpu
        Device.
    inputs : int
        Inputs.
    packet_bytes : int
        Bytes of a payload.
    packets : int
        Room, for each input: at least twice what is needed again after the last append, and what is appended at once.
    stream : Stream
        Where copies are enqueued.
    table : bool
        Whether addresses are appended in place of payloads.

    Attributes
    ----------
    samples : DeviceArray
        uint8 (input, bytes), or uint64 (input, packet) of addresses.
    present : DeviceArray of uint8, shape (input, packet)
        Whether a packet is there.
    first : int
        Packet since sync of column 0.
    """

    def __init__(
        self, gpu: Gpu, inputs: int, packet_bytes: int, packets: int, stream: Stream, *, table: bool = False
    ) -> None:
        self.packets, self.first = packets, 0
        self._table, self._bytes = table, 8 if table else packet_bytes
        if table:
            self.samples: DeviceArray = gpu.empty((inputs, packets), np.uint64)
            self.samples.fill(0, stream)  # the filter reads behind whatever is not 0, valid or not
        else:
            self.samples = gpu.empty((inputs, -(-packets * packet_bytes // _FETCH) * _FETCH), np.uint8)
        self.present: DeviceArray = gpu.empty((inputs, packets), np.uint8)
        self.present.fill(0, stream)
        self._stream, self._fetch = stream, Fetch(gpu)
        self._count = 0  # columns that hold something
        self._reads: deque[tuple[int, int, Event]] = deque()  # columns that are read, and until when

    @property
    def end(self) -> int:
        """Packet since sync behind the last."""
        return self.first + self._count

    def restart(self, packet: int) -> None:
        """Forget what is here; the next packet appended is number `packet` since sync."""
        self.first, self._count = packet, 0

    def append(self, data: NDArray[Any], present: NDArray[np.uint8], needed: int) -> None:
        """Enqueue a copy of packets to behind the last.

        Parameters
        ----------
        data : ndarray, shape (input, packet, bytes) or (input, packet)
            Payloads, or addresses, 0 of what is not there. Page-locked, else it is copied before this returns.
        present : ndarray of uint8, shape (input, packet)
            Which are there.
        needed : int
            First packet that is still read, of those here.

        Raises
        ------
        ValueError
            If there is not enough room.
        """
        at = self._room(present.shape[1], needed)
        self._fetch.columns(self.samples, at * self._bytes, data, self._stream)
        self._fetch.columns(self.present, at, present, self._stream)

    def skip(self, packets: int, needed: int) -> None:
        """Append packets that are missing; raises as `append`."""
        at = self._room(packets, needed)
        self.present.fill_columns(at, packets, 0, self._stream)
        if self._table:
            self.samples.fill_columns(at * self._bytes, packets * self._bytes, 0, self._stream)

    def read(self, first: int, end: int, until: Event) -> None:
        """Note that the packets [first, end) are read until an event."""
        self._reads.append((max(0, first - self.first), min(self._count, end - self.first), until))

    def _room(self, packets: int, needed: int) -> int:
        """Make room for packets behind the last; give the first's column."""
        keep = min(max(needed - self.first, 0), self._count)
        tail = self._count - keep
        # What is copied costs the kernels memory's rate. Where little is, and so much is appended that what comes next
        # would not fit and have all of it to copy as well, it is better done now.
        left = self.packets - self._count - packets
        if left < 0 or (left < packets // 2 and tail <= packets // _LITTLE and tail <= keep):
            if tail > keep or tail + packets > self.packets:
                raise ValueError(
                    f"{packets} packets more than the {tail} still needed do not fit into a ring of {self.packets}"
                )
            self._wait(0, tail)
            for array, size in ((self.samples, self._bytes), (self.present, 1)) if tail else ():
                array.move_columns(0, keep * size, tail * size, self._stream)
            self.first, self._count = self.first + keep, tail
        at = self._count
        self._wait(at, at + packets)
        self._count += packets
        return at

    def _wait(self, first: int, end: int) -> None:
        """Let copies to these columns begin when nobody reads them any more."""
        still: deque[tuple[int, int, Event]] = deque()
        for low, high, until in self._reads:
            if low < end and first < high:
                self._stream.wait(until)
            else:
                still.append((low, high, until))
        self._reads = still
