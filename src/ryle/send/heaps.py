"""SPEAD heaps to UDP by spead2: F-heaps, X-heaps and MeerKAT's digitizer heaps."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Protocol, Self

import spead2
import spead2.send

from ryle.config.endpoints import Endpoint
from ryle.config.engine_tables import NetworkTable
from ryle.send.sockets import send_socket


class HeapStream:
    """A spead2 stream that sends to several endpoints, its substreams, with a thread of its own.

    It ends when it is closed, when nobody refers to it any more, or at the latest when the interpreter begins to end:
    spead2 stops all threads then, and a stream that is destroyed after its thread waits for it for ever.

    Parameters
    ----------
    endpoints : sequence of Endpoint
        Where to; all IPv4 or all IPv6.
    network : NetworkTable
        Interface and time to live of multicast.
    packet_size : int
        Largest datagram in bytes, SPEAD header counted.
    rate : float
        Bytes a second on the wire; 0 is not paced.

    Raises
    ------
    ValueError
        If some endpoints are IPv4 and some IPv6.
    """

    def __init__(self, endpoints: Sequence[Endpoint], network: NetworkTable, packet_size: int, rate: float) -> None:
        if rate < 0:
            raise ValueError(f"rate = {rate} B/s must not be negative; 0 sends as fast as possible")
        # Small bursts: a receiver's socket buffer takes only so much at once.
        burst = min(spead2.send.StreamConfig.DEFAULT_BURST_SIZE, max(packet_size, int(rate * 1e-3))) if rate else 65536
        config = spead2.send.StreamConfig(max_packet_size=packet_size, rate=rate, max_heaps=1 << 20, burst_size=burst)
        addresses = [(e.host, e.port) for e in endpoints]
        pool = spead2.ThreadPool()
        with send_socket(endpoints, network) as s:  # of which spead2 keeps its own descriptor
            self._owned: list[Any] = [pool, spead2.send.UdpStream(pool, s, addresses, config)]
        self._end = weakref.finalize(self, _end_stream, self._owned)

    def send_heap(self, heap: spead2.send.Heap, cnt: int = -1, substream_index: int = 0) -> None:
        """Send a heap; blocks until its last packet has left."""
        self._owned[1].send_heap(heap, cnt, substream_index)

    def send_heaps(self, heaps: Sequence[Any] | spead2.send.HeapReferenceList) -> None:
        """Send heaps one after the other; blocks until the last packet has left."""
        self._owned[1].send_heaps(heaps, spead2.send.GroupMode.SERIAL)

    def close(self) -> None:
        """Let what was begun leave, then end stream and thread; harmless if called again."""
        self._end()


def _end_stream(owned: list[Any]) -> None:
    pool = owned.pop(0)
    owned.clear()  # the stream: it waits for heaps that are still being sent
    pool.stop()


class Closing(Protocol):
    """What a sender owns."""

    def close(self) -> None:
        """End it."""


class HeapSender:
    """What senders through `HeapStream` share: they are closed, or their block ends, before the program does."""

    def __init__(self) -> None:
        self._opened: list[Closing] = []

    def _open(self, endpoints: Sequence[Endpoint], network: NetworkTable, packet_size: int, rate: float) -> HeapStream:
        stream = HeapStream(endpoints, network, packet_size, rate)
        self._opened.append(stream)
        return stream

    def close(self) -> None:
        """Let what was begun leave and free sockets and threads; harmless if called again."""
        while self._opened:
            self._opened.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
