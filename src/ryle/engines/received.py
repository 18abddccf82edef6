"""Receivers that have a thread and memory of their own, as the entrance of an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from ryle.net.accounting import Account
from ryle.net.receiver import Receiver
from ryle.stream.block import Block
from ryle.stream.ring import Readable

T = TypeVar("T")


class Received(Readable, Generic[T]):
    """Reads what a receiver gives as blocks, which hold it as their data.

    Parameters
    ----------
    receiver : Receiver
        Whose sockets are open.
    span : callable
        Gives (start, span) of what it gives.
    """

    def __init__(self, receiver: Receiver[T], span: Callable[[T], tuple[int, int]]) -> None:
        super().__init__(receiver.name)
        self.receiver = receiver
        self._span = span
        self._fetching = False

    def start(self) -> None:
        """Do nothing: a receiver receives from the beginning."""

    def stop(self) -> None:
        """Receive no more; what has come is still read."""
        self.receiver.stop()

    def abort(self) -> None:
        """Wake everybody who waits here, and receive no more."""
        super().abort()
        self.stop()

    def close(self) -> None:
        """Free sockets and threads."""
        self.receiver.close()

    @property
    def pending(self) -> int:
        """What has arrived and was not yet used."""
        return self.receiver.pending + self.fill

    def account(self) -> Account:
        """Say what became of every packet so far."""
        return self.receiver.account()

    def _fetch(self, timeout: float) -> None:
        if self._fetching:
            self._changed.wait(timeout)
            return
        self._fetching = True
        self._changed.release()
        try:
            taken = self.receiver.poll(timeout)
        finally:
            self._changed.acquire()
            self._fetching = False
        if taken is not None:
            start, span = self._span(taken)
            self._spread(Block(taken, start=start, span=span))
        elif self.receiver.ended:
            self._ended = True
            self._changed.notify_all()

    def _free(self, block: Block) -> None:
        block.data = None  # the memory goes back with the last view of it
