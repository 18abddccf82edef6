"""Receive SPEAD heaps into chunks: sockets, spead2's chunk stream, memory on loan, stopping without loss.

spead2's C++ thread reads the sockets and copies payloads to where native code (``native/net/place.cpp``) says. Python
runs once a chunk.
"""

from __future__ import annotations

import contextlib
import select
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Self, TypeVar

import numpy as np
import spead2
import spead2.recv
from numpy.typing import NDArray
from scipy import LowLevelCallable

from ..config.tables import Endpoint
from .accounting import Account, undecoded
from .sockets import kernel_drops, queued_bytes, receive_socket

T = TypeVar("T")


def wait_readable(fd: int, timeout: float | None) -> None:
    """Wait until `fd` can be read or `timeout` seconds are over; signal handlers run meanwhile."""
    poll = select.poll()  # unlike select(), takes descriptors beyond 1023
    poll.register(fd, select.POLLIN)
    poll.poll(None if timeout is None else 1000 * timeout)


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


class ChunkReceiver(ABC, Generic[T]):
    """What digitizer and spectra receivers share: an iterator of chunks that can be polled, stopped and closed.

    Iterating blocks until a chunk is complete or pushed out by newer ones. `stop`, from any thread or a signal handler,
    flushes what is assembled: the remaining chunks are yielded, then iteration ends.

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
        self.name = name
        self._place = place
        self._end_after = end_after
        self._end_at: float | None = None
        self._ended = False
        self._spare = spare
        self._loans: set[int] = set()
        self._undecoded: int | None = 0
        self._drops: int | None = None
        self._closed = False
        self._sockets = [receive_socket(e, interface, buffer_size) for e in endpoints]
        total = 2 * window + spare  # a jump in time flushes one window and opens another before any chunk comes back
        self._ring = spead2.recv.ChunkRingbuffer(total)
        self._function = LowLevelCallable(place.function, place.user_data)
        chunks = spead2.recv.ChunkStreamConfig(
            items=list(self._items), max_chunks=window, place=self._function, max_heap_extra=extra_bytes
        )
        if presence_bytes:
            chunks.enable_packet_presence(presence_bytes)
        self._stream = spead2.recv.ChunkRingStream(
            spead2.ThreadPool(), stream_config, chunks, self._ring, spead2.recv.ChunkRingbuffer(total)
        )
        for _ in range(total):
            self._stream.add_free_chunk(make_chunk())
        self._control = spead2.InprocQueue()  # stopping this queue ends the stream and flushes its chunks
        self._stream.add_inproc_reader(self._control)
        undecoded.watch(self)
        for s in self._sockets:
            self._stream.add_udp_reader(s, max_packet)

    # -- taking chunks ----------------------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """Whether the stream was stopped and everything in it has been taken."""
        return self._ended

    def poll(self, timeout: float | None = None) -> T | None:
        """Next chunk; None if none is ready within `timeout` seconds (None: no limit) or the stream has `ended`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._ended:
            try:
                chunk = self._ring.get_nowait()
            except spead2.Empty:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                if left == 0.0:
                    return None
                self._end_if_senders_did()
                if self._end_after is not None:
                    left = 0.1 if left is None else min(left, 0.1)
                wait_readable(self._ring.data_fd, left)
                continue
            except spead2.Stopped:
                self._ended = True
                self.close()
                break
            taken = self._take(chunk)
            if taken is not None:
                return taken
        return None

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        chunk = self.poll()
        if chunk is None:
            raise StopIteration
        return chunk

    def _end_if_senders_did(self) -> None:
        """Stop a moment (for packets on other ways) after `end_after` senders have sent stop heaps."""
        if self._end_after is None or self._place.stops < self._end_after:
            self._end_at = None
        elif self._end_at is None:
            self._end_at = time.monotonic() + 0.3
        elif time.monotonic() >= self._end_at:
            self.stop()

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

    # -- ending -----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Receive no more; what is assembled is still yielded. From any thread or signal handler, repeatedly."""
        self._control.stop()

    def close(self) -> None:
        """Free sockets and threads at once; chunks not yet taken are lost unless the stream has `ended`."""
        if self._closed:
            return
        self._closed = True
        self._drops = kernel_drops(self._sockets)
        self._stream.stop()
        undecoded.settle()
        self._undecoded = undecoded.unwatch(self)
        for s in self._sockets:
            s.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- accounting -------------------------------------------------------------------------------------------------

    @property
    def stops(self) -> int:
        """Senders that have sent a stop heap and nothing since."""
        return int(self._place.stops)

    @property
    def undecoded_packets(self) -> int | None:
        """Datagrams that were not readable as SPEAD; None if unknown."""
        return self._undecoded if self._closed else undecoded.count(self)

    @property
    def pending(self) -> int:
        """What has arrived and was not yet taken: bytes in the sockets, and one for each chunk that is ready."""
        return 0 if self._closed else queued_bytes(self._sockets) + self._ring.qsize()

    @property
    def dropped_by_kernel(self) -> int | None:
        """Datagrams dropped because a socket buffer was full; None if unknown."""
        return self._drops if self._closed else kernel_drops(self._sockets)

    @abstractmethod
    def account(self) -> Account:
        """Say what became of every packet so far; packets in chunks that were not yet taken are left out."""

    @abstractmethod
    def _take(self, chunk: spead2.recv.Chunk) -> T | None:
        """Turn spead2's chunk into ours, count it, arrange for its return; None if nothing came for it."""


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
