"""What all receivers of SPEAD heaps share: an iterator that can be polled, stopped from anywhere, and closed."""

from __future__ import annotations

import select
import socket
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Generic, Self, TypeVar

import spead2

from .accounting import Account, undecoded
from .sockets import kernel_drops, queued_bytes

T = TypeVar("T")


def wait_readable(fd: int, timeout: float | None) -> None:
    """Wait until `fd` can be read or `timeout` seconds are over; signal handlers run meanwhile."""
    poll = select.poll()  # unlike select(), takes descriptors beyond 1023
    poll.register(fd, select.POLLIN)
    poll.poll(None if timeout is None else 1000 * timeout)


class Receiver(ABC, Generic[T]):
    """Iterates over what a spead2 stream assembles.

    Iterating blocks until something is complete. `stop`, from any thread or a signal handler, flushes what is
    assembled: it is still yielded, then iteration ends.

    Parameters
    ----------
    name : str
        The hand-over, for accounts.
    sockets : sequence of socket
        Where packets come from; closed with the receiver.
    end_after : int or None
        End by itself when this many senders have sent stop heaps.
    """

    def __init__(self, name: str, sockets: Sequence[socket.socket], end_after: int | None) -> None:
        self.name = name
        self._sockets = list(sockets)
        self._end_after = end_after
        self._end_at: float | None = None
        self._ended = self._closed = False
        self._undecoded: int | None = 0
        self._drops: int | None = None
        self._control = spead2.InprocQueue()  # stopping this queue ends the stream and flushes it

    def _listen(self, stream: Any, queue: Any, queue_fd: int, max_packet: int) -> None:
        """Start `stream`; what it completes comes out of `queue`, whose `queue_fd` can then be read."""
        self._stream, self._queue, self._queue_fd = stream, queue, queue_fd
        weakref.finalize(self, stream.stop)  # at the latest when the interpreter begins to end: threads are gone after
        stream.add_inproc_reader(self._control)
        undecoded.watch(self)
        for s in self._sockets:
            stream.add_udp_reader(s, max_packet)

    # -- taking -----------------------------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """Whether the stream was stopped and everything in it has been taken."""
        return self._ended

    def poll(self, timeout: float | None = None) -> T | None:
        """Next one; None if none is ready within `timeout` seconds (None: no limit) or the stream has `ended`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            if (ready := self._more()) is not None or self._ended:
                return ready
            try:
                raw = self._queue.get_nowait()
            except spead2.Empty:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                if left == 0.0:
                    return None
                self._end_if_senders_did()
                if self._end_after is not None:
                    left = 0.1 if left is None else min(left, 0.1)
                wait_readable(self._queue_fd, left)
                continue
            except spead2.Stopped:
                self._ended = True
                self._finish()
                self.close()
                continue
            taken = self._take(raw)
            if taken is not None:
                return taken

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        taken = self.poll()
        if taken is None:
            raise StopIteration
        return taken

    def _end_if_senders_did(self) -> None:
        """Stop a moment (for packets on other ways) after `end_after` senders have sent stop heaps."""
        if self._end_after is None or self.stops < self._end_after:
            self._end_at = None
        elif self._end_at is None:
            self._end_at = time.monotonic() + 0.3
        elif time.monotonic() >= self._end_at:
            self.stop()

    # -- ending -----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Receive no more; what is assembled is still yielded. From any thread or signal handler, repeatedly."""
        self._control.stop()

    def close(self) -> None:
        """Free sockets and threads at once; what was not yet taken is lost unless the stream has `ended`."""
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
    def undecoded_packets(self) -> int | None:
        """Datagrams that were not readable as SPEAD; None if unknown."""
        return self._undecoded if self._closed else undecoded.count(self)

    @property
    def dropped_by_kernel(self) -> int | None:
        """Datagrams dropped because a socket buffer was full; None if unknown."""
        return self._drops if self._closed else kernel_drops(self._sockets)

    @property
    def pending(self) -> int:
        """Bytes that have arrived and wait in the sockets."""
        return 0 if self._closed else queued_bytes(self._sockets)

    @property
    @abstractmethod
    def stops(self) -> int:
        """Senders that have sent a stop heap and nothing since."""

    @abstractmethod
    def account(self) -> Account:
        """Say what became of everything so far; what was not yet taken is left out."""

    def _more(self) -> T | None:
        """Give what earlier ones left to give."""
        return None

    def _finish(self) -> None:
        """Nothing comes any more."""

    @abstractmethod
    def _take(self, raw: Any) -> T | None:
        """Turn what spead2 assembled into ours, and count it; None if there is nothing to give."""
