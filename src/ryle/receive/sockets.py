"""UDP sockets, unicast or multicast; for receivers with a large buffer and sight of what the kernel drops."""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import socket
import struct
import warnings
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import spead2
import spead2.send

from ryle.config.tables import Endpoint, NetworkTable

_SO_RCVBUFFORCE = 33
_SO_ATTACH_FILTER = 26
_IP_MULTICAST_ALL = 49
_SEND_BUFFER = 512 << 10  # bytes


class SmallBufferWarning(UserWarning):
    """The kernel granted a smaller socket buffer than was asked for."""


def receive_socket(
    endpoint: Endpoint, interface: str, buffer_size: int, *, shared: bool = False, deaf: bool = False
) -> socket.socket:
    """Open a UDP socket that receives what is sent to `endpoint`.

    Parameters
    ----------
    endpoint : Endpoint
        Own address, or multicast group to join, and port.
    interface : str
        Address of the interface on which to join a multicast group.
    buffer_size : int
        Bytes of socket buffer asked for; a warning says how to allow it if the kernel grants less.
    shared : bool
        Whether other sockets receive at the same endpoint, so that flows are dealt out among them (SO_REUSEPORT).
    deaf : bool
        Let a filter drop everything until somebody takes it off (SO_DETACH_FILTER); such packets are kernel drops.

    Raises
    ------
    OSError
        If the address is not this host's or the port is taken; the message names both.
    """
    address = ipaddress.ip_address(endpoint.host)
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    s = socket.socket(family, socket.SOCK_DGRAM)
    try:
        _grow_buffer(s, buffer_size)
        if deaf:  # before it has a name to which anything could come
            s.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, _drop_all())
        if address.is_multicast:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        s.bind((endpoint.host, endpoint.port))
        if address.is_multicast and family == socket.AF_INET:
            s.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
            request = address.packed + socket.inet_aton(interface)
            s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
        elif address.is_multicast:
            request = address.packed + struct.pack("@I", interface_index(interface))
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)
    except OSError as error:
        s.close()
        where = f"{endpoint}" + (f" on interface {interface}" if address.is_multicast else "")
        raise OSError(
            error.errno,
            f"cannot receive at {where}: {os.strerror(error.errno or 0)}. Is the address one of this host's, and is "
            f"no other process on port {endpoint.port}?",
        ) from None
    return s


_DROP = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0))  # BPF: return 0


def _drop_all() -> bytes:
    """Give the ``struct sock_fprog`` of a filter that lets nothing pass."""
    return struct.pack("@HP", 1, ctypes.addressof(_DROP))


class SendStream:
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


def send_socket(endpoints: Sequence[Endpoint], network: NetworkTable) -> socket.socket:
    """Open a socket that sends to endpoints, unicast and multicast ones alike."""
    six = {":" in e.host for e in endpoints}
    if len(six) > 1:
        raise ValueError(f"{endpoints[0]} and others: one sender's addresses are all IPv4 or all IPv6")
    s = socket.socket(socket.AF_INET6 if True in six else socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    if not any(e.multicast for e in endpoints):
        return s
    try:
        if True in six:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, interface_index(network.interface))
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, network.ttl)
        else:
            s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(network.interface))
            s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, network.ttl)
    except OSError:
        s.close()
        raise
    return s


def _end_stream(owned: list[Any]) -> None:
    pool = owned.pop(0)
    owned.clear()  # the stream: it waits for heaps that are still being sent
    pool.stop()


class Closing(Protocol):
    """What a sender owns."""

    def close(self) -> None:
        """End it."""


class Sender:
    """What senders through `SendStream` share: they are closed, or their block ends, before the program does."""

    def __init__(self) -> None:
        self._opened: list[Closing] = []

    def _open(self, endpoints: Sequence[Endpoint], network: NetworkTable, packet_size: int, rate: float) -> SendStream:
        stream = SendStream(endpoints, network, packet_size, rate)
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


def interface_index(address: str) -> int:
    """Index of the interface that has an IPv6 `address`."""
    wanted = ipaddress.ip_address(address)
    for line in Path("/proc/net/if_inet6").read_text().splitlines():
        packed, index, *_ = line.split()
        if ipaddress.ip_address(bytes.fromhex(packed)) == wanted:
            return int(index, 16)
    raise OSError(f"no interface has the address {address}; see 'ip -6 address'")


def _grow_buffer(s: socket.socket, size: int) -> None:
    try:
        s.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, size)
    except OSError:  # not root
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
    granted = s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2  # Linux reports twice what was asked for
    if granted < size:
        warnings.warn(
            f"the kernel granted {granted} B of socket buffer, not {size} B; packets will be lost at high rates. "
            f"Allow it with: sysctl net.core.rmem_max={size}",
            SmallBufferWarning,
            stacklevel=4,
        )


def kernel_drops(sockets: Iterable[socket.socket]) -> int | None:
    """Datagrams that the kernel dropped at full buffers since `sockets` were opened; None if unknown."""
    opened = list(sockets)
    rows = _kernel_rows(opened)
    return sum(int(words[12]) for words in rows.values()) if len(rows) == len(opened) else None


def _kernel_rows(sockets: Iterable[socket.socket]) -> dict[str, list[str]]:
    """Give the words of the kernel's line about each open socket that it has one for, by inode."""
    inodes = set()
    for s in sockets:
        with contextlib.suppress(OSError, ValueError):  # another thread may be closing it
            inodes.add(str(os.fstat(s.fileno()).st_ino))
    rows = {}
    for table in ("/proc/net/udp", "/proc/net/udp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                words = line.split()
                if words[9] in inodes:
                    rows[words[9]] = words
    return rows
