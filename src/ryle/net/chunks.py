"""Receive SPEAD heaps into chunks: sockets, spead2's chunk stream, memory on loan, stopping without loss.

spead2's C++ thread reads the sockets and copies payloads to where native code (``native/net/place.cpp``) says. Python
runs once a chunk.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import spead2
import spead2.recv
from numpy.typing import NDArray
from scipy import LowLevelCallable

from ..config.tables import Endpoint
from .receiver import Receiver
from .sockets import receive_socket

T = TypeVar("T")


class Loan:
    """Memory lent out as arrays; it goes back when the last array that views it is gone.

    Parameters
    ----------
    memory : ndarray
        What is lent.
    give_back : callable
        Called once, from whatever thread drops the last view.
    """

    __slots__ = ("__array_interface__", "_give_back", "_memory")

    def __init__(self, memory: NDArray[Any], give_back: Callable[[], None]) -> None:
        self._memory = memory
        self._give_back = give_back
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at interpreter exit there is nowhere to give it back to
            self._give_back()


def lend(memory: NDArray[Any], give_back: Callable[[], None]) -> NDArray[Any]:
    """View `memory`; `give_back` is called when the view and all views of it are gone."""
    return np.asarray(Loan(memory, give_back))


class Pool:
    """Arrays of one shape, made when needed and used again when nobody views them any more."""

    def __init__(self, shape: tuple[int, ...], dtype: np.typing.DTypeLike) -> None:
        self._shape, self._dtype = shape, np.dtype(dtype)
        self._free: list[NDArray[Any]] = []

    def take(self) -> NDArray[Any]:
        """Array with whatever stood in it before."""
        memory = self._free.pop() if self._free else np.ones(self._shape, self._dtype)  # written: pages are there
        return lend(memory, lambda: self._free.append(memory))


class ChunkReceiver(Receiver[T]):
    """What digitizer and spectra receivers share: chunks, given when they are complete or pushed out by newer ones.

    The arrays of a chunk are on loan: their memory returns to the receiver when the last array that views it is gone,
    and is not written to before. Up to `spare` chunks may be held at no cost; further ones are copies.
    """

    #: Items that the place function is given, in the order of its enum.
    _items: Sequence[int]

    def __init__(
        self,
        name: str,
        endpoints: Sequence[Endpoint],
        *,
        interface: str,
        buffer_size: int,
        max_packet: int,
        place: Any,
        make_chunk: Callable[[], spead2.recv.Chunk],
        window: int,
        spare: int,
        stream_config: spead2.recv.StreamConfig,
        presence_bytes: int = 0,
        extra_bytes: int = 0,
        end_after: int | None = None,
    ) -> None:
        if window < 1 or spare < 1:
            raise ValueError(f"window = {window} and spare = {spare} chunks must be at least 1")
        super().__init__(name, [receive_socket(e, interface, buffer_size) for e in endpoints], end_after)
        self._place = place
        self._spare = spare
        self._loans: set[int] = set()
        total = 2 * window + spare  # a jump in time flushes one window and opens another before any chunk comes back
        self._ring = spead2.recv.ChunkRingbuffer(total)
        self._function = LowLevelCallable(place.function, place.user_data)
        chunks = spead2.recv.ChunkStreamConfig(
            items=list(self._items), max_chunks=window, place=self._function, max_heap_extra=extra_bytes
        )
        if presence_bytes:
            chunks.enable_packet_presence(presence_bytes)
        stream = spead2.recv.ChunkRingStream(
            spead2.ThreadPool(), stream_config, chunks, self._ring, spead2.recv.ChunkRingbuffer(total)
        )
        for _ in range(total):
            stream.add_free_chunk(make_chunk())
        self._listen(stream, self._ring, self._ring.data_fd, max_packet)

    def _lend(self, chunk: spead2.recv.Chunk) -> NDArray[Any]:
        """Lend a chunk's data; a copy if so many are out that reception would stall."""
        data = np.asarray(chunk.data)
        if len(self._loans) >= self._spare:
            data = data.copy()
            self._stream.add_free_chunk(chunk)
            return data
        self._loans.add(id(data))
        return lend(data, lambda: self._return(id(data), chunk))

    def _return(self, loan: int, chunk: spead2.recv.Chunk) -> None:
        self._loans.discard(loan)
        self._stream.add_free_chunk(chunk)

    @property
    def stops(self) -> int:
        """Senders that have sent a stop heap and nothing since."""
        return int(self._place.stops)

    @property
    def pending(self) -> int:
        """What has arrived and was not yet taken: bytes in the sockets, and one for each chunk that is ready."""
        return 0 if self._closed else super().pending + self._ring.qsize()


class Span:
    """Counts of what should have come between the first and the last slot of time in which anything did."""

    def __init__(self) -> None:
        self._epoch = -1
        self._before = 0
        self._first = 0
        self._last = -1

    def extend(self, epoch: int, first: int, last: int) -> None:
        """Slots `first` to `last` had something; a new epoch (a sender's clock went back) begins a new span."""
        if epoch != self._epoch:
            self._before += self._last - self._first + 1
            self._epoch, self._first, self._last = epoch, first, last
        self._last = max(self._last, last)

    @property
    def slots(self) -> int:
        """Slots in all spans."""
        return self._before + self._last - self._first + 1
