"""Packets from UDP sockets."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from ryle.config.endpoints import Endpoint
from ryle.receive import _native
from ryle.receive.sockets import receive_socket
from ryle.receive.sources import NativeSource, Sink


class UdpSource(NativeSource):
    """Receive from UDP sockets, what comes after the start.

    Parameters
    ----------
    sink : Assembler or Discard
        What to feed.
    endpoints : sequence of Endpoint
        Own addresses or multicast groups, and ports. Packets get the place in this list as their port number.
    interface : str
        Address of the interface on which to join multicast groups.
    threads : int
        Receive threads. Endpoints are dealt out among them; with more threads than endpoints each endpoint gets several
        sockets (SO_REUSEPORT), among which the kernel deals out flows, so that one sender stays with one thread.
    cores : sequence of int
        Cores that the threads run on, in turn; anywhere if empty.
    buffer : int
        Bytes of each socket's buffer.
    gro : bool
        Receive trains of packets at a time (UDP_GRO) where the system has them.
    largest : int
        Bytes of the longest packet; longer ones become malformed.

    Raises
    ------
    OSError
        If an endpoint cannot be opened; the message says why.
    """

    def __init__(
        self,
        sink: Sink,
        endpoints: Sequence[Endpoint],
        *,
        interface: str = "127.0.0.1",
        threads: int = 1,
        cores: Sequence[int] = (),
        buffer: int = 64 << 20,
        gro: bool = True,
        largest: int = 9216,
    ) -> None:
        if not endpoints or threads < 1:
            raise ValueError("a source needs at least one endpoint and one thread")
        shared = threads > len(endpoints)
        if shared and any(e.multicast for e in endpoints):
            raise ValueError("every thread would get all packets of a multicast group; use no more threads than groups")
        opened: list[socket.socket] = []
        dealt: list[list[tuple[int, int]]] = [[] for _ in range(threads)]
        try:
            for i in range(max(threads, len(endpoints))):
                port = i % len(endpoints)
                s = receive_socket(endpoints[port], interface, buffer, shared=shared, deaf=True)
                opened.append(s)
                dealt[i % threads].append((s.fileno(), port))
            self._native = _native.udp_source(sink.native, dealt, gro, largest, list(cores))
        finally:
            for s in opened:  # the threads have their own descriptors
                s.close()
