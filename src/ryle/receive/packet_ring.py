"""Packets from a ring below the kernel's network stack, and what all sources there have to see to: ports and groups."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Sequence

from ryle.config.endpoints import Endpoint
from ryle.receive import _native
from ryle.receive.assembly import Assembler
from ryle.receive.sockets import receive_socket
from ryle.receive.sources import Discard, NativeSource, Sink

_BLOCK = 1 << 20  # bytes of a packet ring's blocks
_groups = itertools.count(1)


def ports_of(sink: Sink, endpoints: Sequence[Endpoint]) -> list[int]:
    """List the ports of endpoints for a source below the kernel's network stack, which sees ports alone.

    Several endpoints may have one port where it does not matter which of them a packet came to: packets then have its
    place in the list as their port number.

    Raises
    ------
    ValueError
        If it does matter.
    """
    ports = list(dict.fromkeys(e.port for e in endpoints))
    indifferent = isinstance(sink, Discard) or (isinstance(sink, Assembler) and not sink.plan.by_port)
    if len(ports) < len(endpoints) and not indifferent:
        raise ValueError(
            f"ports {[e.port for e in endpoints]}: packet rings and DPDK tell endpoints apart by port; "
            "use different ones"
        )
    return ports


def deaf_sockets(endpoints: Sequence[Endpoint], interface: str) -> list[socket.socket]:
    """Open a socket for each endpoint that drops everything: it tells the kernel that packets are wanted.

    It joins multicast groups, and lets the kernel answer nobody that a port is unreachable.
    """
    opened: list[socket.socket] = []
    try:
        for endpoint in endpoints:
            opened.append(receive_socket(endpoint, interface, 4096, deaf=True))
    except BaseException:
        for s in opened:
            s.close()
        raise
    return opened


class RingSource(NativeSource):
    """Receive below the kernel's network stack, from a ring that the kernel fills (AF_PACKET, TPACKET_V3).

    Packets are copied from the ring to their place. Nobody checks their checksums, and nothing but a socket tells the
    kernel that they are wanted: one is opened for each endpoint, which drops everything, and joins multicast groups.

    Parameters
    ----------
    sink : Assembler or Discard
        What to feed.
    endpoints : sequence of Endpoint
        As for `ryle.receive.udp.UdpSource`, of at most 64 ports; ports tell them apart (`ports_of`).
    interface : str
        Name of the network interface, such as "eth0".
    threads : int
        Receive threads, each with a ring; the kernel deals out flows among them.
    cores : sequence of int
        Cores that the threads run on, in turn; anywhere if empty.
    buffer : int
        Bytes of each ring.
    group_interface : str
        Address of the interface on which to join multicast groups.

    Raises
    ------
    OSError
        If the system does not allow it; it needs CAP_NET_RAW.
    """

    def __init__(
        self,
        sink: Sink,
        endpoints: Sequence[Endpoint],
        *,
        interface: str,
        threads: int = 1,
        cores: Sequence[int] = (),
        buffer: int = 128 << 20,
        group_interface: str = "127.0.0.1",
    ) -> None:
        if not endpoints or threads < 1:
            raise ValueError("a source needs at least one endpoint and one thread")
        ports = ports_of(sink, endpoints)
        self._holding = deaf_sockets(endpoints, group_interface)
        try:
            blocks = max(2, buffer // _BLOCK)
            group = (os.getpid() ^ next(_groups) << 12) & 0xFFFF
            self._native = _native.ring_source(
                sink.native, interface, ports, _BLOCK, blocks, threads, group, list(cores)
            )
        except BaseException:
            self._let_go()
            raise

    def _let_go(self) -> None:
        for s in self._holding:
            s.close()

    def join(self, timeout: float = 10.0) -> bool:
        """Wait for the threads to end; whether they have. Raises RuntimeError if one failed."""
        ended = super().join(timeout)
        if ended:
            self._let_go()
        return ended
