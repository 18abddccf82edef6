"""Packets of simulated boards on their way: faults to order, and out at a rate or as receivers take them.

Faults are those of `ryle send` (``native/send/faults.h``): which packet suffers what follows from the seed, its stream
and its number in it alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ryle.config import Endpoint
from ryle.config.engine_tables import NetworkTable
from ryle.config.simulation import FaultsTable
from ryle.receive import _native
from ryle.send.pacing import LocalQueues
from ryle.send.sending import FATES
from ryle.send.sockets import send_socket
from ryle.wire.description import Format
from ryle.wire.packets import compiled

_BURST = 64 << 10  # bytes between two looks at receivers' sockets, or at the clock
_ON_TIME = 1e-3  # seconds before which packets that are due are not waited for

# Bytes of datagrams one behind the other, lengths, and what each is marked with.
Datagrams = tuple[NDArray[np.uint8], NDArray[np.uint32], NDArray[np.uint32]]


class Injector:
    """What becomes of the packets of some streams.

    Parameters
    ----------
    faults : FaultsTable
        Shares and seed.
    format : Format
        What the packets are. A damaged one is no packet of it any more: a bit of its header is turned, or it is short.
    streams : int
        How many there are.
    """

    def __init__(self, faults: FaultsTable, format: Format, streams: int) -> None:
        self._any = faults.any
        f = _native.Faults(
            faults.loss,
            faults.duplicate,
            faults.reorder,
            faults.corrupt,
            distance=faults.reorder_distance,
            seed=faults.seed,
        )
        self._native = _native.Injector(f, streams, compiled(format))

    def handle(self, packets: NDArray[np.uint8], streams: NDArray[np.uint32], marks: NDArray[np.uint32]) -> Datagrams:
        """Let packets pass.

        Parameters
        ----------
        packets : ndarray of uint8, shape (packet, bytes)
            In the order in which they are sent.
        streams, marks : ndarray of uint32, shape (packet,)
            The stream of each, and anything that is to be known of it again.

        Returns
        -------
        Datagrams
            What leaves now.
        """
        if not self._any:
            return packets.reshape(-1), np.full(len(packets), packets.shape[1], np.uint32), marks
        return self._native.handle(np.ascontiguousarray(packets), streams, marks)

    def flush(self) -> Datagrams:
        """Give everything that is held back."""
        return self._native.flush()

    @property
    def counts(self) -> dict[str, int]:
        """What became of packets so far, by the names of `ryle send`; those of which nothing became are left out."""
        return {name: n for name, n in zip(FATES, self._native.counts(), strict=False) if n and name != "sent"}


class DatagramSender:
    """Sends packets of one length.

    Parameters
    ----------
    network : NetworkTable
        Interface and time to live of multicast.
    endpoints : sequence of Endpoint
        Where packets may go to.
    injector : Injector
        What happens to them before.
    speed : float
        Seconds of signal a second; 0 sends as fast as receivers on this host take the packets.
    """

    def __init__(
        self, network: NetworkTable, endpoints: Sequence[Endpoint], injector: Injector, *, speed: float
    ) -> None:
        self._endpoints = [(e.host, e.port) for e in endpoints]
        self._queues = None if speed else LocalQueues(list(endpoints))
        self._speed = speed
        self._socket = send_socket(endpoints, network)
        self._injector = injector
        self._start: tuple[float, float] | None = None
        #: Packets sent.
        self.sent = 0

    @property
    def counts(self) -> dict[str, int]:
        """See `Injector.counts`."""
        return self._injector.counts

    def send(
        self,
        packets: NDArray[np.uint8],
        streams: NDArray[np.uint32],
        to: NDArray[np.uint32],
        there: NDArray[np.bool_],
        first: float,
        each: float,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Send packets in order of time, as fast as the speed says.

        Parameters
        ----------
        packets : ndarray of uint8, shape (time, packet of that time, bytes)
            Packets as they are sent.
        streams : ndarray of uint32, shape (packet of a time,)
            Stream of each of a time's packets.
        to, there : ndarray of uint32, bool, shape (time, packet of that time)
            Which endpoint each goes to, and whether it is sent.
        first, each : float
            Time of the first packets and from one to the next, seconds of signal.
        stop : callable
            Ends it early when it gives True.
        """
        times, _, size = packets.shape
        busiest = max((int(np.bincount(row).max(initial=1)) for row in to[:1]), default=1)
        turn = max(1, _BURST // (size * busiest))
        if self._speed:
            turn = max(1, min(turn, int(_ON_TIME * self._speed / each)))
        all_streams = np.broadcast_to(streams, to.shape)
        for t in range(0, times, turn):
            if stop():
                return
            if self._queues is not None:
                self._queues.wait()
            else:
                self._wait(first + t * each)
            now = there[t : t + turn]
            rows = packets[t : t + turn][now]
            self._emit(self._injector.handle(rows, all_streams[t : t + turn][now], to[t : t + turn][now]))

    def _wait(self, signal: float) -> None:
        """Wait until it is time for a moment of the signal."""
        if self._start is None:
            self._start = time.monotonic(), signal
        due = self._start[0] + (signal - self._start[1]) / self._speed
        if (left := due - time.monotonic()) > _ON_TIME:
            time.sleep(left)

    def _emit(self, datagrams: Datagrams) -> None:
        packed, lengths, to = datagrams
        if len(lengths):
            _native.send_datagrams(self._socket.fileno(), self._endpoints, packed, lengths, to)
            self.sent += len(lengths)

    def close(self) -> None:
        """Send what faults held back, and close."""
        if self._socket.fileno() >= 0:
            self._emit(self._injector.flush())
            self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
